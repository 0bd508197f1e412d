"""The scheduler: keeps every slot busy with the jobs of studies or of a grid.

The state of a study or a grid is in its files, so that any process may die at any line and the same command resumes.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from sentattn.console import plural
from sentattn.errors import Interruption
from sentattn.jobs import pool as pools
from sentattn.jobs.job import JobSource, RunningJob
from sentattn.jobs.pool import Pool
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.slots import Slot

WAIT = 0.5
"""Seconds between two looks for signals, and for jobs that other schedulers leave."""


def run(
    sources: Sequence[JobSource],
    slots: Sequence[Slot],
    pool: Pool,
    progress: JobProgress,
    tick: Callable[[], None] = lambda: None,
) -> int | None:
    """Runs jobs until there are none, those of the source with the fewest first.

    Args:
        sources: Studies, or a grid.
        slots: Where jobs run.
        pool: What starts their processes.
        progress: What shows them.
        tick: Is called after jobs have ended, and at least once a second.

    Returns:
        The number of a signal that has come, if any; the jobs have met the budget nevertheless.

    Raises:
        Interruption: If a signal ended it. Ctrl-C once lets jobs finish, or stops after a step what can be resumed;
            twice, or SIGTERM, ends them.
    """
    running: dict[Slot, RunningJob] = {}
    announced: set[str] = set()
    stops_at_signal = all(source.stops_at_signal for source in sources)
    with _StopSignals(set() if stops_at_signal else {signal.SIGTERM}) as stop:
        try:
            while not stop.at_once:
                if not stop.received:
                    _fill(sources, slots, pool, progress, running)
                for source in sources:
                    busy = any(each.source is source for each in running.values())
                    if not busy and source.name not in announced and (reason := source.over()):
                        announced.add(source.name)
                        progress.message(f"{source.name}: {reason}.")
                if not running and (stop.received or all(source.over() for source in sources)):
                    break
                if stop.received and not stop.is_announced:
                    stop.is_announced = True
                    _stop(running, progress)
                if not running:  # other schedulers run the rest, or no process could be started
                    time.sleep(WAIT)
                by_process = {each.process: slot for slot, each in running.items()}
                for process in pool.ended(by_process, WAIT) if running else ():
                    each = running.pop(by_process[process])
                    code = process.join()
                    if each.stopped and code:
                        each.source.interrupt(each.job)
                    else:
                        progress.ended(each, each.source.has_ended(each.job, code, each.killed))
                _kill_late(running)
                progress.draw([*running.values()])
                tick()
        finally:
            for each in running.values():
                each.process.join()
                each.source.interrupt(each.job)
    if stop.received and not (all(source.over() for source in sources) and not running):
        again = f"{plural(len(running), 'trial')} will be run again; " if running else ""
        raise Interruption(stop.received, f"{again}the same command resumes.")
    return stop.received


def _fill(
    sources: Sequence[JobSource],
    slots: Sequence[Slot],
    pool: Pool,
    progress: JobProgress,
    running: dict[Slot, RunningJob],
) -> None:
    """Starts jobs in the free slots."""
    for slot in [slot for slot in slots if slot not in running]:
        counts = {id(source): source.finished() for source in sources}
        for each in running.values():
            counts[id(each.source)] += 1
        ordered = sorted(sources, key=lambda source: counts[id(source)])
        found = next(((source, job) for source in ordered if (job := source.next())), None)
        if found is None:
            return
        source, job = found
        arguments = (*job.arguments, slot.threads, max(1, len(slot.gpus)))
        try:
            process = pool.start(job.function, arguments, job.log, slot)
        except OSError as error:  # no memory, too many processes, or the server has died
            progress.message(f"{job.name}: no process could be started ({error}).")
            source.has_ended(job, pools.TRY_AGAIN, "")
            return  # and try again after a while
        running[slot] = RunningJob(source, job, slot, process)
        progress.started(running[slot])


def _stop(running: Mapping[Slot, RunningJob], progress: JobProgress) -> None:
    """Stops what can be resumed; nothing else is started."""
    for each in running.values():
        if each.source.stops_at_signal:
            each.stopped = True
            each.process.stop()
    end = "stop after their step" if any(each.stopped for each in running.values()) else "finish"
    progress.message(f"No new trials; {len(running)} running ones {end}. Ctrl-C again ends at once.")


def _kill_late(running: Mapping[Slot, RunningJob]) -> None:
    for each in running.values():
        limit = each.source.limit_minutes
        if limit and not each.killed and time.monotonic() - each.since > 60 * limit:
            each.killed = f"it took longer than limit_minutes={limit:g}"
            each.process.kill()


class _StopSignals:
    """Notes signals while it is entered: `received` is the last one, `at_once` whether jobs are to be ended too."""

    def __init__(self, at_once: set[signal.Signals]) -> None:
        self._ends = at_once
        self.received: int | None = None
        self.at_once = self.is_announced = False

    def __enter__(self) -> _StopSignals:
        is_main = threading.current_thread() is threading.main_thread()  # Python allows handlers in no other thread
        handled = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        self._before = {number: signal.signal(number, self._receive) for number in handled}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.at_once = number in self._ends or self.received is not None
        self.received = number
