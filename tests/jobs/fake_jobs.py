"""Jobs in memory: a source of numbered jobs, and a pool whose processes end as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentattn.errors import UserError
from sentattn.jobs.job import Job, RunningJob
from sentattn.jobs.pool import REFUSED, TRY_AGAIN, may_succeed_again
from sentattn.jobs.slots import Slot


@dataclass(eq=False)
class FakeProcess:
    """A process with its exit code, which is None while it runs, and with what was done to it."""

    number: int
    slot: Slot
    code: int | None
    acts: list[str] = field(default_factory=list)

    def stop(self) -> None:
        self.acts.append("stop")
        self.code = 130 if self.code is None else self.code

    def kill(self) -> None:
        self.acts.append("kill")
        self.code = -9

    def join(self) -> int:
        self.acts.append("join")
        return -9 if self.code is None else self.code


class FakePool:
    """Starts no process. The oldest job that has an exit code ends at each wait.

    Args:
        codes: Exit codes by number; others are 0.
        meanwhile: Is called at each wait with the processes that run.
        refused: How many starts fail.
    """

    def __init__(
        self,
        codes: Mapping[int, int | None] | None = None,
        meanwhile: Callable[[list[Any]], object] = lambda _: None,
        refused: int = 0,
    ) -> None:
        self._codes, self._meanwhile, self._refused = codes or {}, meanwhile, refused
        self.processes: list[FakeProcess] = []
        self.calls: list[tuple[Any, ...]] = []
        self.running: list[int] = []

    def start(self, function: Any, arguments: tuple[object, ...], log: Path, slot: Slot) -> FakeProcess:
        self._refused -= 1
        if self._refused >= 0:
            raise OSError("Resource temporarily unavailable")
        number = int(log.parent.name)
        self.calls.append((function, arguments, log))
        self.processes.append(FakeProcess(number, slot, self._codes.get(number, 0)))
        return self.processes[-1]

    def ended(self, running: Iterable[Any], seconds: float) -> list[Any]:
        processes = [*running]
        self.running.append(len(processes))
        self._meanwhile(processes)
        return [process for process in processes if process.code is not None][:1]


class FakeSource:
    """Gives jobs until so many have succeeded; each that has failed is followed by another.

    Args:
        total: How many.
        name: Its name.
        stops_at_signal: As a grid's.
        limit_minutes: Of a job.
        waits: How often it says at first that another scheduler runs one of its jobs.
    """

    def __init__(
        self,
        total: int,
        name: str = "fake",
        *,
        stops_at_signal: bool = False,
        limit_minutes: float | None = None,
        waits: int = 0,
    ) -> None:
        self.total, self.name = total, name
        self.stops_at_signal, self.limit_minutes = stops_at_signal, limit_minutes
        self.started = 0
        self.results: dict[int, tuple[int, str]] = {}
        self.interrupted: list[int] = []
        self._waits = waits

    def next(self) -> Job | None:
        running = self.started - len(self.results) - len(self.interrupted)
        self._waits -= 1
        if self.finished() + running + self.elsewhere() >= self.total:
            return None
        self.started += 1
        return make_job(self.started - 1, Path(self.name))

    def has_ended(self, job: Job, code: int, killed: str) -> str:
        self.results[job.number] = code, killed
        return f"code {code}"

    def interrupt(self, job: Job) -> None:
        self.interrupted.append(job.number)

    def over(self) -> str:
        return "enough" if self.finished() >= self.total else ""

    def finished(self) -> int:
        return sum(code == 0 for code, _ in self.results.values())

    def elsewhere(self) -> int:
        return int(self._waits > 0)

    def best(self) -> str:
        return ""


class Noted:
    """A progress that notes what it is to show."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.starts: list[tuple[str, int]] = []
        self.ends: list[tuple[int, str]] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def started(self, running: RunningJob) -> None:
        self.starts.append((running.source.name, running.job.number))

    def ended(self, running: RunningJob, text: str) -> None:
        self.ends.append((running.job.number, text))

    def draw(self, running: Sequence[RunningJob]) -> None:
        pass


def work(*_: object) -> None:
    """What no process does."""


def make_job(number: int, folder: Path = Path("fake"), **changed: Any) -> Job:
    """A job in the folder of its number."""
    usual: dict[str, Any] = {
        "name": f"trial {number}",
        "folder": folder / str(number),
        "function": work,
        "arguments": ("task",),
        "values": {"x": number},
        "metric": "val/accuracy",
    }
    return Job(number, **{**usual, **changed})


def make_slots(count: int) -> list[Slot]:
    return [Slot(f"CPU {number}", (), 1) for number in range(1, count + 1)]


class InlinePool:
    """Runs jobs in this process, one after another."""

    def start(self, function: Any, arguments: tuple[object, ...], log: Path, slot: Slot) -> FakeProcess:
        try:
            function(*arguments)
        except UserError as error:
            log.write_text(f"{error}\n")
            return FakeProcess(0, slot, TRY_AGAIN if may_succeed_again(error) else REFUSED)
        return FakeProcess(0, slot, 0)

    def ended(self, running: Iterable[Any], seconds: float) -> list[Any]:
        return [*running][:1]
