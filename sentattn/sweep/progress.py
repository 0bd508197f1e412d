"""The progress of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sentattn.config.types import as_typed
from sentattn.sweep.callbacks import RunningTrial
from sentattn.sweep.records import TrialOutcome
from sentattn.sweep.study import SweepStudy

REFRESH = 0.5
LINES = 3
"""Lines of a failed trial's log that are shown."""


def progress(studies: Sequence[SweepStudy], slots: int, console: Console | None = None) -> Lines:
    """Returns the callback that suits the place where the output goes."""
    console = console or Console()
    return (Board if console.is_terminal else Lines)(studies, slots, console)


class Lines:
    """A line for each trial that starts or ends.

    Args:
        studies: The studies.
        slots: How many trials run at once.
        console: Where it is shown.
    """

    def __init__(self, studies: Sequence[SweepStudy], slots: int, console: Console) -> None:
        self._studies = studies
        self._slots = slots
        self._console = console
        self._taken: list[float] = []
        self._named = len(studies) > 1

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: Any) -> None:
        return

    def started(self, trial: RunningTrial) -> None:
        """Prints the values of a trial."""
        self._print(f"{self._name(trial)} on {trial.slot.name}: {format_values(trial.values)}")

    def moved(self, trial: RunningTrial, metrics: Mapping[str, float]) -> None:
        """Does nothing: each epoch is a line of the trial's log."""

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Prints how a trial ended, and why if it failed."""
        if outcome.state != "failed":
            self._taken.append(time.monotonic() - trial.since)
        seconds = f"in {time.monotonic() - trial.since:.0f} s"
        study = trial.study
        match outcome.state:
            case "complete":
                best = ", the best so far" if next(iter(study.best_values), None) == trial.number else ""
                text = f": {_objectives(study, outcome.values or ())} {seconds}{best}; {self._standing(study)}"
            case "pruned":
                value = f" at {trial.value:.4f}" if trial.value is not None else ""
                text = f": pruned after {trial.epoch}{value} {seconds}; {self._standing(study)}"
            case _:
                shown = "".join(f"\n    {line}" for line in outcome.log_lines[-LINES:])
                text = f" failed: {outcome.error.rstrip('.')} (log: {trial.log}){shown}"
        self._print(f"{self._name(trial)}{text}")

    def message(self, text: str) -> None:
        """Prints a message."""
        self._print(text)

    def tick(self) -> float | None:
        """Does nothing."""
        return None

    def _name(self, trial: RunningTrial) -> str:
        return f"{trial.study.plan.study} {trial.number}" if self._named else f"trial {trial.number}"

    def _standing(self, study: SweepStudy) -> str:
        finished, trials = study.finished(), study.plan.budget.trials
        return f"{finished} of {trials} finished{self._left()}" if trials else f"{finished} finished"

    def _left(self) -> str:
        """Returns the time left if trials take as long as those before."""
        budgets = [(one.plan.budget.trials, one.finished()) for one in self._studies]
        if not self._taken or any(trials is None for trials, _ in budgets):
            return ""
        left = sum(max(0, (trials or 0) - finished) for trials, finished in budgets)
        seconds = left * sum(self._taken) / len(self._taken) / self._slots
        return f", about {duration(seconds)} left" if left else ""

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class Board(Lines):
    """A table of the trials that run, under the lines of those that have ended."""

    def __init__(self, studies: Sequence[SweepStudy], slots: int, console: Console) -> None:
        super().__init__(studies, slots, console)
        self._running: dict[str, RunningTrial] = {}
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._shown = 0.0

    def __enter__(self) -> Board:
        self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._live.stop()

    def started(self, trial: RunningTrial) -> None:
        """Adds a trial to the table."""
        self._running[trial.key] = trial
        self._shown = 0.0

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Removes a trial from the table."""
        del self._running[trial.key]
        super().ended(trial, outcome)
        self._shown = 0.0

    def tick(self) -> float | None:
        """Draws the table if the one on the screen is old."""
        if time.monotonic() - self._shown >= REFRESH:
            self._shown = time.monotonic()
            self._live.update(Group(self.table(), *self.summary()), refresh=True)
        return REFRESH

    def table(self) -> Table:
        """Returns a row for each trial that runs."""
        table = Table(box=None, pad_edge=False)
        for name in ("trial", "where", "state", "epoch", "value", "for", "varies"):
            table.add_column(name, no_wrap=name != "varies")
        for trial in self._running.values():
            epoch = f"{trial.epoch}/{trial.epochs}" if trial.epochs else "-"
            value = f"{trial.value:.4f}" if trial.value is not None else "-"
            state = "ending" if trial.killed else "starting" if trial.first_batch is None else "training"
            taken = duration(time.monotonic() - trial.since)
            own = (self._name(trial).removeprefix("trial "), trial.slot.name, state, epoch, value, taken)
            table.add_row(*map(Text, (*own, format_values(trial.values))))
        return table

    def summary(self) -> Iterable[Text]:
        """Yields a line for each study: how far it is, and its best trial."""
        for study in self._studies:
            number, values = next(iter(study.best_values.items()), (None, ()))
            best = f"; best: trial {number}, {_objectives(study, values)}" if number is not None else ""
            name = f"{study.plan.study}: " if self._named else ""
            yield Text(f"{name}{self._standing(study)}{best}")


def format_values(values: Any) -> str:
    """Returns the values of a trial in short, each with the shortest unique end of its key."""
    return ", ".join(f"{short}={_short(value)}" for short, value in zip(_names(values), values.values(), strict=True))


def _names(keys: Iterable[str]) -> list[str]:
    keys = [key.replace("/", ".") for key in keys]
    names = []
    for key in keys:
        parts = key.split(".")
        endings = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        alone = (e for e in endings if sum(other == e or other.endswith(f".{e}") for other in keys) == 1)
        names.append(next(alone, key))
    return names


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else as_typed(value)


def _objectives(study: SweepStudy, values: Sequence[float]) -> str:
    named = zip(study.plan.objectives, values, strict=True)
    return ", ".join(f"{one.metric} {format_objective(value)}" for one, value in named)


def format_objective(value: float) -> str:
    """Returns an objective as one reads it: four places, and counts such as parameters whole."""
    return f"{value:,.0f}" if abs(value) > 1 and value == round(value) else f"{value:,.4f}"


def duration(seconds: float) -> str:
    """Returns a time for people."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
