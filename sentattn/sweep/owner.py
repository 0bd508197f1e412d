"""The owner of a study: asks for a trial whenever a slot is free, hands it over, and takes in what comes of it."""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.errors import RunError
from sentattn.sweep.callbacks import RunningTrial, SweepCallback, TrialOutcome
from sentattn.sweep.channel import ADDRESS
from sentattn.sweep.hub import Hub
from sentattn.sweep.member import Member
from sentattn.sweep.running import ending
from sentattn.sweep.serving import Warm
from sentattn.sweep.slots import Slot
from sentattn.sweep.stopping import Stop

if TYPE_CHECKING:
    from sentattn.sweep.study import Asked

SERVER_LOG = "server.txt"
MINUTE = 60.0


class Owner:
    """Runs trials until all budgets are met.

    Args:
        members: The studies; those with the fewest trials come first.
        slots: Where trials run.
        module: What trials run, by its name.
        warming: Arguments that trials have in common, for each study.
        folder: Where the server's own log is kept.
        watchers: Look on.
    """

    def __init__(
        self,
        members: Sequence[Member],
        slots: Sequence[Slot],
        *,
        module: str,
        warming: Any,
        folder: Path,
        watchers: Sequence[SweepCallback],
    ) -> None:
        self._members = members
        self._free = list(slots)
        self._watchers = watchers
        self._running: dict[str, RunningTrial] = {}
        self._last: dict[str, dict[str, Any]] = {}
        self._selector = selectors.DefaultSelector()
        self._stop = Stop(self._selector)
        self._server = Warm(module, warming, folder / SERVER_LOG)
        self._hub = Hub(self._selector)
        self._given_up = ""

    def run(self) -> None:
        """Runs trials until the budgets are met.

        Raises:
            RunError: If too many trials have failed one after another, or a study cannot be written.
            SettingError: If what all trials have in common is at fault.
            Interruption: If a signal ended it.
        """
        with ExitStack() as held:
            held.callback(self._selector.close)
            held.enter_context(self._hub)
            held.enter_context(self._stop)
            if all(member.study.ended() for member in self._members):
                return
            held.enter_context(self._server)
            self._selector.register(self._server, selectors.EVENT_READ)
            self._hand_out()
            while self._running and not self._stop.at_once:
                self._wait()
                self._listen()
                self._kill_late()
                self._hand_out()
            self._selector.unregister(self._server)
        if self._stop:
            raise self._stop.interruption(self._broken_off())
        if self._given_up:
            raise RunError(self._given_up)

    def _broken_off(self) -> str:
        """Gives up the trials that still ran, which have ended with the server; returns what is to be said."""
        for trial in self._running.values():
            trial.study.give_up(trial.number)
        several = len(self._running) > 1
        ended = f"{len(self._running)} trial{'s' if several else ''} will be run again; " if self._running else ""
        return f"{ended}the same command goes on where it was."

    def _hand_out(self) -> None:
        """Gives every free slot a trial, if there is one to be had."""
        for member in self._members:
            if not member.closed and (reason := member.study.ended()):
                member.closed = True
                self._say(f"{member.plan.study}: {reason}.")
        while self._free and not self._stop and (found := self._next()):
            member, asked = found
            trial = RunningTrial(member.study, asked.number, asked.values, asked.arguments, self._free.pop(0))
            _make(trial.folder)
            self._running[trial.key] = trial
            member.running += 1
            environment = {**trial.slot.environment(), ADDRESS: self._hub.address}
            self._server.begin(trial.key, _task(trial), log=trial.log, environment=environment)
            for watcher in self._watchers:
                watcher.started(trial)

    def _next(self) -> tuple[Member, Asked] | None:
        """Asks the studies for a trial, those with the fewest first."""
        for member in sorted(self._members, key=lambda one: one.study.finished() + one.running):
            if asked := member.ask():
                return member, asked
        return None

    def _wait(self) -> None:
        """Waits until something happens."""
        moments = [trial.since + limit * MINUTE for trial in self._running.values() if (limit := _limit(trial))]
        waits = [max(0.0, moment - time.monotonic()) for moment in moments]
        waits += [pause for watcher in self._watchers if (pause := watcher.tick()) is not None]
        ready = [key.fileobj for key, _ in self._selector.select(min(waits, default=None))]
        if self._stop.look() and not self._stop.at_once:
            count = len(self._running)
            self._say(f"No new trials; waiting for {count} that run{'s' * (count == 1)}. Ctrl-C again ends at once.")
        if self._server in ready:
            self._hear_server()

    def _hear_server(self) -> None:
        events = self._server.events()
        self._listen()  # the last words of those that have ended were spoken before
        for event in events or ():
            if "started" in event and event["started"] in self._running:
                trial = self._running[event["started"]]
                trial.has_process, trial.since = True, time.monotonic()
            elif "ended" in event and event["ended"] in self._running:
                trial = self._running[event["ended"]]
                self._end(trial, ending(trial, self._last.pop(trial.key, {}), event["code"], event.get("reason", "")))
        if events is None:
            self._replace_server()

    def _replace_server(self) -> None:
        """Starts another server in the place of one that has died, and whose trials have died with it."""
        self._say("The process that starts trials has died; another is started.")
        self._selector.unregister(self._server)
        self._server.restart()
        self._selector.register(self._server, selectors.EVENT_READ)
        for trial in [*self._running.values()]:
            self._end(trial, ending(trial, {}, 1, "the process that had started it has died"))

    def _listen(self) -> None:
        """Takes in what trials tell, and answers."""
        for key, message in self._hub.heard():
            if (trial := self._running.get(key)) is None:
                continue
            if "end" in message:
                self._last[key] = message
            elif "began" in message:
                trial.first_batch, trial.epochs = message["began"], message["epochs"]
                self._moved(trial, {})
            elif "step" in message:
                trial.epoch, trial.value = message["step"], message["value"]
                compared = trial.value is not None
                prune = compared and trial.study.report(trial.number, trial.epoch, trial.value)
                self._hub.answer(key, prune=prune)
                self._moved(trial, message["figures"])

    def _end(self, trial: RunningTrial, how: TrialOutcome) -> None:
        """Keeps what became of a trial, and frees its slot."""
        member = next(one for one in self._members if one.study is trial.study)
        del self._running[trial.key]
        self._free.append(trial.slot)
        member.running -= 1
        member.end(trial.number, how)
        for watcher in self._watchers:
            watcher.ended(trial, how)
        if member.failures >= member.plan.failures and not member.closed:
            member.closed = True
            self._given_up = f"{member.failures} trials failed one after another; the last one: {how.error}"

    def _kill_late(self) -> None:
        """Ends trials that take longer than they may."""
        for trial in self._running.values():
            limit = _limit(trial)
            if limit and time.monotonic() >= trial.since + limit * MINUTE:
                trial.killed = f"it took longer than limit_minutes={limit:g}"
                self._server.kill(trial.key)

    def _moved(self, trial: RunningTrial, figures: dict[str, float]) -> None:
        for watcher in self._watchers:
            watcher.moved(trial, figures)

    def _say(self, sentence: str) -> None:
        for watcher in self._watchers:
            watcher.message(sentence)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"{folder} cannot be made ({error.strerror}). Nothing that was told is lost; "
            "make room, and the same command goes on."
        ) from error


def _limit(trial: RunningTrial) -> float | None:
    """The minutes that a trial may take; none before it has begun, and once it is being ended."""
    return trial.study.plan.limit_minutes if trial.has_process and not trial.killed else None


def _task(trial: RunningTrial) -> dict[str, Any]:
    plan = trial.study.plan
    return {
        "key": trial.key,
        "arguments": list(trial.arguments),
        "values": dict(trial.values),
        "repeats": plan.repeats,
        "directory": str(trial.folder),
        "study": plan.study,
        "metrics": [one.metric for one in plan.objectives],
        "threads": trial.slot.threads,
        "devices": max(1, len(trial.slot.gpus)),
    }
