"""Lightning's own loggers as mirrors: TensorBoard, CSV and MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers.logger import Logger

from sentattn.loggers.mirror import Mirror, Row


class LightningMirror(Mirror):
    """Mirrors a run to one of Lightning's loggers.

    Its step is the epoch. The settings are there from the start; at the end `best_epoch` and the figures of the test
    follow, at the step of the best epoch.

    Args:
        title: What the user calls it.
        make: Opens Lightning's logger; is told whether the run goes on after an interruption.
        where: Where it can be seen.
        keeps: Whether it keeps what an interrupted run has told it.
        settings: The resolved settings.
        setting: Hash of the settings without the seed.
        directory: The run directory.
        run_id: The run's id.
        resumed: Whether the run goes on after an interruption.
        study: The study that the run is a trial of.
    """

    def __init__(
        self,
        *,
        title: str,
        make: Callable[[bool], Logger],
        where: str,
        keeps: bool,
        settings: Mapping[str, Any],
        setting: str,
        directory: Path,
        run_id: str,
        resumed: bool = False,
        study: str | None = None,
    ) -> None:
        super().__init__(directory=directory, run_id=run_id)
        self.title = title  # type: ignore[misc]
        self._make = make
        self._place = where
        self._keeps = keeps
        self._resumed = resumed
        self._config = {**settings, "setting": setting} | ({"study": study} if study else {})
        self._logger: Logger | None = None

    @property
    def name(self) -> str:
        return self.title.lower()

    def _open(self) -> None:
        self._logger = self._make(self._resumed)
        self._logger.log_hyperparams(self._config)
        self._logger.save()

    def _where(self) -> str:
        return self._place

    def _log(self, row: Row) -> None:
        if self._logger is not None:
            figures = {name: value for name, value in row.items() if name != "epoch"}
            self._logger.log_metrics(figures, step=int(row["epoch"]))
            self._logger.save()

    def _restore(self, rows: Sequence[Row]) -> None:
        for row in () if self._keeps else rows:
            self._log(row)

    def _close(self, summary: Mapping[str, Any], failed: bool) -> None:
        if self._logger is None:
            return
        figures = {name: value for name, value in summary.items() if not name.startswith(("train/", "val/"))}
        if (best := summary.get("best_epoch")) is not None:
            self._logger.log_metrics(figures, step=int(best))
        self._logger.finalize("failed" if failed else "success")
