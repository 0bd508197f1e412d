"""What every mirror of a run shares: one row an epoch, and faults that cost the mirror, never the training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities import rank_zero_only

Row = Mapping[str, float]


class Mirror(Logger):
    """Shows a run elsewhere. The first fault is told in one line, and from there on the mirror is silent.

    Of several processes that train together only the first has a mirror.

    Args:
        directory: The run directory, which is the record.
        run_id: The run's id, here and there.

    Attributes:
        title: What the user calls it.
    """

    title: ClassVar[str]

    def __init__(self, *, directory: Path, run_id: str) -> None:
        super().__init__()
        self.directory = directory
        self.run_id = run_id
        self._broken = False
        self._begun: dict[str, float] = {}

    @property
    def version(self) -> str:
        return self.run_id

    @rank_zero_only
    def start(self) -> None:
        """Opens it, and says where it is."""
        self._attempt(self._open)
        if not self._broken:
            print(f"{self.title}: {self._where()}")

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing: the resolved settings are given when it is opened."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Takes in figures of an epoch; Lightning gives those of validation first, and those of training end it."""
        self._begun |= metrics
        if any(name.startswith("train/") for name in metrics):
            row, self._begun = self._begun, {}
            row["epoch"] = int(row["epoch"]) + 1
            self._attempt(lambda: self._log(row))

    @rank_zero_only
    def restore(self, rows: Sequence[Row]) -> None:
        """Shows the epochs before an interruption where they are not shown yet.

        Args:
            rows: One row an epoch, as the record has them.
        """
        figures = [{name: row[name] for name in row if name == "epoch" or "/" in name} for row in rows]
        self._attempt(lambda: self._restore(figures))

    @rank_zero_only
    def finish(self, summary: Mapping[str, Any], *, failed: bool = False) -> None:
        """Closes it.

        Args:
            summary: `best_epoch` and the figures of that epoch.
            failed: Whether the training came to no good end.
        """
        self._attempt(lambda: self._close(summary, failed))

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _where(self) -> str:
        """Returns where it can be seen, once it is open."""

    @abstractmethod
    def _log(self, row: Row) -> None:
        """Shows an epoch; epochs count from 1."""

    @abstractmethod
    def _close(self, summary: Mapping[str, Any], failed: bool) -> None: ...

    def _restore(self, rows: Sequence[Row]) -> None:
        """Shows earlier epochs again; there is nothing to do for one that keeps what it was once told."""

    def _remedy(self) -> str:
        """Returns what can be done about a fault later, as a further sentence with a space before it, or ""."""
        return ""

    def _drop(self) -> None:
        """Lets go of what is open after a fault."""

    def _attempt(self, action: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            action()
        except Exception as error:  # whatever it is, the training has no part in it
            self._broken = True
            told = (
                f"{self.title}: {first_line(error)}; the run goes on without it, its own record is in {self.directory}."
            )
            print(f"{told}{self._remedy()}")
            self._drop()


def first_line(error: Exception) -> str:
    """Returns the first line of what an error says, without a full stop."""
    return (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
