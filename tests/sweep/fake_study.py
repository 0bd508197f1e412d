"""A study in memory that takes its trials from a list, and slots that need no machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sentattn.sweep.execution.interfaces import RunningTrial, SweepCallback, TrialOutcome, TrialTask
from sentattn.sweep.execution.local import LocalEngine
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler

FAKE = "fake_trial"


def prune_nothing(number: int, step: int, value: float) -> bool:
    return False


class Listed:
    """Asks for the trials of a list, each as the arguments of a fake trial."""

    resumable = False

    def __init__(self, trials: list[list[str]], *, retries: int = 1, prune: Any = prune_nothing) -> None:
        self.trials = trials
        self.retries = retries
        self.prune = prune
        self.results: dict[int, tuple[str, Any, str]] = {}
        self.reports: list[tuple[int, int, float]] = []
        self.retried: list[int] = []
        self.interrupted: list[int] = []
        self.assigned: dict[int, list[str]] = {}
        self.over = ""
        self.plan: Any = plan()
        self.folder = Path()
        self.failures = 0
        self.best_values: dict[int, Sequence[float]] = {}

    def ask(self) -> Any:
        trials = self.plan.trials
        if self.ended() or (trials is not None and self.finished() + self.running() >= trials):
            return None
        number = len(self.assigned)
        self.assigned[number] = self.trials.pop(0) if self.trials else ["x=0"]
        folder = self.folder / "trials" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        values = {word.partition("=")[0]: word.partition("=")[2] for word in self.assigned[number]}
        metrics = [objective.metric for objective in self.plan.objectives]
        return TrialTask(
            number, values, self.assigned[number], folder, metrics, repeats=self.plan.repeats, study=self.plan.study
        )

    def report(self, number: int, step: int, value: float) -> bool:
        self.reports.append((number, step, value))
        return bool(self.prune(number, step, value))

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        assert number not in self.results
        note = "\n".join([outcome.error, *outcome.log_lines])
        self.results[number] = (outcome.state, outcome.values, note)
        self.failures = self.failures + 1 if outcome.state == "failed" else 0
        if outcome.state == "failed" and outcome.retry and len(self.retried) < self.retries:
            self.retried.append(number)
            self.trials.insert(0, self.assigned[number])

    def interrupt(self, number: int) -> None:
        self.interrupted.append(number)

    def tick(self) -> float | None:
        return None

    def running(self) -> int:
        return len(self.assigned) - len(self.results) - len(self.interrupted)

    def elsewhere(self) -> int:
        return 0

    def finished(self) -> int:
        return sum(state != "failed" for state, _, _ in self.results.values())

    def ended(self) -> str:
        if self.failures >= self.plan.failures:
            return "too many failures"
        trials = self.plan.trials
        return self.over or ("enough" if trials is not None and self.finished() >= trials else "")


class Noted(SweepCallback):
    """Notes what happens."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.starts: list[tuple[int, str]] = []
        self.outcomes: list[tuple[int, TrialOutcome]] = []
        self.most = 0
        self._running = 0

    def started(self, trial: RunningTrial) -> None:
        self.starts.append((trial.task.number, trial.slot.name))
        self._running += 1
        self.most = max(self.most, self._running)

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        self.outcomes.append((trial.task.number, outcome))
        self._running -= 1

    def message(self, text: str) -> None:
        self.messages.append(text)


def plan(**changed: Any) -> Any:
    """A plan with what the scheduler reads of it."""
    objective = SimpleNamespace(metric="val/accuracy", mode="max")
    usual = {"study": "fake", "objectives": (objective,), "failures": 3, "repeats": 1, "limit_minutes": None, "keep": 1}
    return SimpleNamespace(**{**usual, "trials": 3, **changed})


def prepared(folder: Path, listed: Listed, **changed: Any) -> Any:
    """A stand-in for a study, with its plan and its folder."""
    listed.plan, listed.folder = plan(**changed), folder
    return listed


def slots(count: int) -> list[Slot]:
    return [Slot(f"CPU {number}", (), 1) for number in range(1, count + 1)]


def engine(folder: Path, studies: Any = (), module: str = FAKE) -> LocalEngine:
    folder.mkdir(parents=True, exist_ok=True)
    return LocalEngine(module, studies, folder / "server.txt")


def scheduler(folder: Path, study: Any, *, count: int = 2, callbacks: Sequence[Any] = (), **changed: Any) -> Scheduler:
    """A scheduler of fake trials."""
    return Scheduler([prepared(folder, study, **changed)], slots(count), engine(folder), callbacks)
