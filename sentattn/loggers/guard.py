"""The guard around every logger: the first error is printed and switches it off, and the training continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from pytorch_lightning.loggers import Logger
from pytorch_lightning.loggers.logger import DummyLogger

from sentattn.config.types import Node
from sentattn.errors import first_line
from sentattn.run import METRICS_FILE

T = TypeVar("T")
Axis: TypeAlias = Literal["epoch", "step"]


class Guard(Logger):
    """Wraps a logger of Lightning's, so that nothing that goes wrong in it reaches the training.

    A row is an epoch: Lightning passes the metrics of validation and of training separately, and both are logged
    together, with the epoch, counted from 1, as the step. Points inside an epoch (`step/...`) have the optimizer's.
    Of a resumed training, epochs that the run directory has already are not logged again, unless the logger `replays`
    them because it starts from nothing. `make` opens Lightning's logger, and says where its data are.
    `epoch_steps` is how many steps an epoch has.
    """

    epoch_steps = 1

    def __init__(
        self,
        title: str,
        make: Callable[[], tuple[Logger, str]],
        *,
        directory: Path,
        resumed: bool = False,
        replays: bool = False,
    ) -> None:
        super().__init__()
        self.title = title
        self.directory = directory
        self._make = make
        self._resumed = resumed
        self._replays = replays
        self._last_epoch = 0
        self._logger: Logger | None = None
        self._row: dict[str, float] = {}

    def start(self) -> None:
        """Opens the logger and prints where its data are."""
        try:
            logger, location = self._make()
            self._logger = logger
            path = self.directory / METRICS_FILE
            lines = path.read_text(encoding="utf-8").splitlines() if self._resumed and path.is_file() else []
            for row in map(json.loads, lines):
                self._last_epoch = int(row["epoch"])
                if self._replays:
                    metrics = {name: value for name, value in row.items() if "/" in name}
                    self._log(logger, metrics, "epoch", self._last_epoch)
            print(f"{self.title}: {location}")
        except Exception as error:
            self._switch_off(error)

    def attempt(self, action: Callable[[Any], T], default: T) -> T:
        """Calls an action with Lightning's logger; returns `default` if it fails or the logger is off."""
        if self._logger is not None:
            try:
                return action(self._logger)
            except Exception as error:
                self._switch_off(error)
        return default

    @property
    def experiment(self) -> Any:
        """The library's own object, such as W&B's run; once the logger is off, an object that ignores every call."""
        return self.attempt(attrgetter("experiment"), DummyLogger().experiment)

    @property
    def name(self) -> str:
        return self.title

    @property
    def version(self) -> None:
        """None."""

    @property
    def save_dir(self) -> str | None:
        return str(self.directory)

    def log_hyperparams(self, params: object, *args: object, **kwargs: object) -> None:
        """Does nothing: the resolved settings are logged when the logger is opened."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Collects the metrics of an epoch; Lightning reports those of training last, and they complete the row."""
        if "epoch" not in metrics:  # a callback's, for which Lightning counts the steps from 0
            self.log_step(metrics, step=(step or 0) + 1)
            return
        self._row |= metrics
        if any(name.startswith("train/") for name in metrics):
            row, self._row = self._row, {}
            epoch = int(row.pop("epoch")) + 1
            if epoch > self._last_epoch:
                self.attempt(lambda logger: self._log(logger, row, "epoch", epoch), None)

    def log_step(self, values: Mapping[str, float], *, step: int) -> None:
        """Logs values of an optimizer step, counted from 1, such as `step/loss`."""
        self.attempt(lambda logger: self._log(logger, values, "step", step), None)

    def finalize(self, status: str) -> None:
        """Does nothing: Lightning calls it when the last epoch is over, and the evaluation is still to come."""

    def finish(self, summary: Node, *, failed: bool = False) -> None:
        """Logs the summary, such as that of `run.summarize`, and closes the logger."""
        self.attempt(lambda logger: self._finish(logger, summary, failed), None)
        self._logger = None

    def _log(self, logger: Logger, row: Mapping[str, float], axis: Axis, place: int) -> None:
        logger.log_metrics(dict(row), step=place)
        logger.save()

    def _finish(self, logger: Logger, summary: Node, failed: bool) -> None:
        # The rows have the metrics of training and validation already.
        others = {name: value for name, value in summary.items() if not name.startswith(("train/", "val/"))}
        values = {name: value for name, value in others.items() if not isinstance(value, str)}
        if (best := summary.get("best_epoch")) is not None:
            self._log(logger, values, "epoch", int(best))
        logger.finalize("failed" if failed else "success")

    def _advice(self) -> str:
        """Returns advice after an error, or an empty string."""
        return ""

    def _close(self, logger: Logger) -> None:
        """Releases the logger's resources after an error."""

    def _switch_off(self, error: Exception) -> None:
        record = f"the run continues without it, its own record is in {self.directory}."
        print(f"{self.title}: {first_line(error)}; {record}{self._advice()}")
        logger, self._logger = self._logger, None
        if logger is not None:
            with suppress(Exception):  # the first error has been printed
                self._close(logger)


class CSVGuard(Guard):
    """Logs to a table, each line of which has its place in the column `epoch` or in the column `step`."""

    def _log(self, logger: Any, row: Mapping[str, float], axis: Axis, place: int) -> None:
        table = logger.experiment
        table.log_metrics(dict(row), step=place)
        table.metrics[-1][axis] = table.metrics[-1].pop("step")
        logger.save()


class TensorBoardGuard(Guard):
    """Logs to TensorBoard, whose tab HParams shows the settings next to the validation metrics of the best epoch."""

    def _finish(self, logger: Any, summary: Node, failed: bool) -> None:
        if (best := summary.get("best_epoch")) is not None:
            metrics = {f"best/{name}": value for name, value in summary.items() if name.startswith("val/")}
            logger.log_hyperparams(logger.hparams, metrics, step=int(best))
        super()._finish(logger, summary, failed)
