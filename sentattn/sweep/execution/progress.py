"""Progress of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sentattn.config.types import as_typed
from sentattn.sweep.execution.interfaces import RunningTrial, SweepCallback, TrialOutcome, TrialSource

LOG_LINES = 3
"""Lines of a failed trial's log that are printed."""
REFRESH = 0.5


class SweepProgress(SweepCallback):
    """Prints a line for each trial that ends; on a terminal, running trials are a table under these lines.

    Args:
        studies: The studies.
        slots: How many trials run at once.
        console: Where it prints.
    """

    def __init__(self, studies: Sequence[TrialSource], slots: int, console: Console | None = None) -> None:
        self._studies = studies
        self._slots = slots
        self._console = console or Console()
        is_terminal = self._console.is_terminal
        self._table = Live(console=self._console, auto_refresh=False, transient=True) if is_terminal else None
        self._drawn = 0.0
        self._running: dict[str, RunningTrial] = {}
        self._seconds: list[float] = []

    def __enter__(self) -> SweepProgress:
        if self._table:
            self._table.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._table:
            self._table.stop()

    def started(self, trial: RunningTrial) -> None:
        """Adds a trial to the table, or prints its values."""
        self._running[trial.key] = trial
        self._drawn = 0.0
        if self._table is None:
            values = "" if trial.task.name else f": {format_values(trial.task.values)}"
            self.message(f"{self._name(trial)} on {trial.slot.name}{values}")

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Prints how a trial ended, and why if it failed."""
        self._running.pop(trial.key, None)
        self._drawn = 0.0
        study, seconds = trial.source, time.monotonic() - trial.since
        if outcome.state == "failed":
            log = "".join(f"\n    {line}" for line in outcome.log_lines[-LOG_LINES:])
            self.message(f"{self._name(trial)} failed: {outcome.error.rstrip('.')} (log: {trial.log}){log}")
            return
        self._seconds.append(seconds)
        if outcome.state == "complete":
            best = ", the best so far" if next(iter(study.best_values), None) == trial.task.number else ""
            result = f"{_objectives(study, outcome.values or ())} in {seconds:.0f} s{best}"
        else:
            value = f" at {trial.value:.4f}" if trial.value is not None else ""
            result = f"pruned after {trial.epoch}{value} in {seconds:.0f} s"
        state = self._state(study)
        if self._table:  # which holds the time left
            state = state.partition(",")[0]
        self.message(f"{self._name(trial)}: {result}; {state}")

    def message(self, text: str) -> None:
        if self._table:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:  # in a notebook, rich would show each line as an output of its own
            print(text, file=self._console.file, flush=True)

    def tick(self) -> float | None:
        """Draws the table if the one on the screen is old."""
        if self._table is None:
            return None
        if time.monotonic() - self._drawn >= REFRESH:
            self._drawn = time.monotonic()
            self._table.update(Group(self._rows(), *map(self._summary, self._studies)), refresh=True)
        return REFRESH

    def _rows(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("trial", "where", "state", "epoch", "value", "for", "varies"):
            table.add_column(name, no_wrap=name != "varies")
        for trial in self._running.values():
            name, taken = self._number(trial).removeprefix("trial "), duration(time.monotonic() - trial.since)
            state = "starting" if trial.first_batch is None else "training"
            state = "ending" if trial.killed or trial.stopped else state
            epoch = f"{trial.epoch}/{trial.epochs}" if trial.epochs else "-"
            value = f"{trial.value:.4f}" if trial.value is not None else "-"
            cells = (name, trial.slot.name, state, epoch, value, taken, format_values(trial.task.values))
            table.add_row(*map(Text, cells))
        return table

    def _summary(self, study: TrialSource) -> Text:
        """Returns how far a study is, and its best trial; the last one also the time that all have left."""
        number, values = next(iter(study.best_values.items()), (None, ()))
        best = f"; best: trial {number}, {_objectives(study, values)}" if number is not None else ""
        name = f"{study.plan.study}: " if len(self._studies) > 1 else ""
        state = self._state(study)
        return Text(f"{name}{state if study is self._studies[-1] else state.partition(',')[0]}{best}")

    def _name(self, trial: RunningTrial) -> str:
        return trial.task.name or self._number(trial)

    def _number(self, trial: RunningTrial) -> str:
        return f"{trial.source.plan.study if len(self._studies) > 1 else 'trial'} {trial.task.number}"

    def _state(self, study: TrialSource) -> str:
        """Returns how many trials are finished, and the time left if trials take as long as those before."""
        trials = study.plan.trials
        text = f"{study.finished()} of {trials} finished" if trials else f"{study.finished()} finished"
        budgets = [(source.plan.trials, source.finished()) for source in self._studies]
        left = sum(max(0, trials - finished) for trials, finished in budgets if trials)
        if not self._seconds or not left or not all(trials for trials, _ in budgets):
            return text
        at_once = self._slots + sum(study.elsewhere() for study in self._studies)
        return f"{text}, about {duration(left * sum(self._seconds) / len(self._seconds) / at_once)} left"


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Returns the shortest unique end of each key."""
    paths = {key: f".{key.replace('/', '.')}" for key in keys}
    names = {}
    for key, path in paths.items():
        ends = [path[place + 1 :] for place, sign in enumerate(path) if sign == "."]
        unique = (end for end in reversed(ends) if sum(other.endswith(f".{end}") for other in paths.values()) == 1)
        names[key] = next(unique, ends[0])
    return names


def format_values(values: Mapping[str, object]) -> str:
    """Returns the values of a trial in short, each with the shortest unique end of its key."""
    texts = {key: f"{value:.4g}" if isinstance(value, float) else as_typed(value) for key, value in values.items()}
    return ", ".join(f"{name}={texts[key]}" for key, name in short_names(values).items())


def _objectives(study: TrialSource, values: Iterable[float]) -> str:
    pairs = zip(study.plan.objectives, values, strict=True)
    return ", ".join(f"{objective.metric} {format_objective(value)}" for objective, value in pairs)


def format_objective(value: float) -> str:
    """Formats an objective: four decimals, integers such as parameters without."""
    return f"{value:,.0f}" if abs(value) > 1 and value == round(value) else f"{value:,.4f}"


def duration(seconds: float) -> str:
    """Formats a duration."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
