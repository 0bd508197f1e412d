"""A study in memory that takes its trials from a list, and slots that need no machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sentattn.sweep.callbacks import RunningTrial, TrialOutcome
from sentattn.sweep.member import Member
from sentattn.sweep.owner import Owner
from sentattn.sweep.slots import Slot

FAKE = "fake_trial"


class Listed:
    """Asks for the trials of a list, each as the arguments of a fake trial."""

    def __init__(
        self, trials: list[list[str]], *, retries: int = 1, prune: Any = lambda number, step, value: False
    ) -> None:
        self.trials = trials
        self.retries = retries
        self.prune = prune
        self.told: dict[int, tuple[str, Any, str]] = {}
        self.reports: list[tuple[int, int, float]] = []
        self.retried: list[int] = []
        self.broken_off: list[int] = []
        self.given: dict[int, list[str]] = {}
        self.over = ""
        self.plan: Any = None
        self.folder: Path | None = None

    def ask(self) -> Any:
        number = len(self.given)
        self.given[number] = self.trials.pop(0) if self.trials else ["x=0"]
        values = {word.partition("=")[0]: word.partition("=")[2] for word in self.given[number]}
        return SimpleNamespace(number=number, values=values, arguments=self.given[number])

    def report(self, number: int, step: int, value: float) -> bool:
        self.reports.append((number, step, value))
        return bool(self.prune(number, step, value))

    def tell(self, number: int, values: Any, state: str, note: str, *, again: bool) -> None:
        assert number not in self.told
        self.told[number] = (state, values, note)
        if state == "failed" and again and len(self.retried) < self.retries:
            self.retried.append(number)
            self.trials.insert(0, self.given[number])

    def give_up(self, number: int) -> None:
        self.broken_off.append(number)

    def finished(self) -> int:
        return sum(state != "failed" for state, _, _ in self.told.values())

    def records(self) -> list[Any]:
        return [SimpleNamespace(number=n, state=s, objectives=v) for n, (s, v, _) in self.told.items()]

    def ended(self) -> str:
        trials = self.plan.budget.trials
        return self.over or ("enough" if trials is not None and self.finished() >= trials else "")


class Noted:
    """Notes what happens."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.starts: list[tuple[int, str]] = []
        self.endings: list[tuple[int, TrialOutcome]] = []
        self.most = 0
        self._running = 0

    def started(self, trial: RunningTrial) -> None:
        self.starts.append((trial.number, trial.slot.name))
        self._running += 1
        self.most = max(self.most, self._running)

    def moved(self, trial: RunningTrial, metrics: Mapping[str, float]) -> None:
        pass

    def ended(self, trial: RunningTrial, how: TrialOutcome) -> None:
        self.endings.append((trial.number, how))
        self._running -= 1

    def message(self, text: str) -> None:
        self.sentences.append(text)

    def tick(self) -> float | None:
        return None


def plan(**changed: Any) -> Any:
    """A plan with what the owner reads of it."""
    objective = SimpleNamespace(metric="val/accuracy", mode="max")
    usual = {"study": "fake", "objectives": (objective,), "failures": 3, "repeats": 1, "limit_minutes": None, "keep": 1}
    return SimpleNamespace(**{**usual, "budget": SimpleNamespace(trials=changed.pop("trials", 3)), **changed})


def member(folder: Path, listed: Listed, **changed: Any) -> Member:
    """A stand-in for a study, with its plan and its folder."""
    listed.plan, listed.folder = plan(**changed), folder
    return Member(listed)  # type: ignore[arg-type]  # it has what a member needs


def slots(count: int) -> list[Slot]:
    return [Slot(f"CPU {number}", (), 1) for number in range(1, count + 1)]


def owner(
    folder: Path, study: Any, *, count: int = 2, warming: Any = None, watchers: Sequence[Any] = (), **changed: Any
) -> tuple[Owner, Member]:
    """An owner of fake trials."""
    one = member(folder, study, **changed)
    return Owner([one], slots(count), module=FAKE, warming=warming, folder=folder, watchers=watchers), one
