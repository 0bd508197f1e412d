"""Keeps what comes out of a study up to date while it runs: best setting, table, report."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sentattn.errors import RunError
from sentattn.run import write_atomically
from sentattn.sweep.callbacks import RunningTrial, TrialOutcome
from sentattn.sweep.records import Record
from sentattn.sweep.report import confirming
from sentattn.sweep.report.best import BEST, front, write_best
from sentattn.sweep.report.cautions import cautions
from sentattn.sweep.report.html import Findings, page
from sentattn.sweep.report.importances import Importances, importances
from sentattn.sweep.report.surface import Surface, surface
from sentattn.sweep.report.trials import TABLE, Reader, write_table

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan
    from sentattn.sweep.study import SweepStudy

REPORT = "report.html"
PAUSE = 60.0
SHARE = 50
"""A report that took a second is written again after as many seconds at the earliest."""


class Outcome:
    """Looks on at a study and writes what comes out of it into its folder.

    `best.yaml` is written at once when the best trial changes; table and report now and then, in a thread of their own,
    and as a context at its end, however the study ended. What cannot be written while it runs is told once.

    Args:
        study: The study.

    Attributes:
        findings: What was known when the report was last written.
    """

    def __init__(self, study: SweepStudy) -> None:
        self._study = study
        self._plan: Plan = study.plan
        self._reader = Reader(study.folder)
        self._front = front(study.records(), study.plan.objectives)
        self._changed = False
        self._due = time.monotonic() + PAUSE
        self._writing: threading.Thread | None = None
        self._told = False
        self.findings: Findings | None = None

    def __enter__(self) -> Outcome:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if self._writing:
            self._writing.join()
        try:
            self.write()
        except RunError as error:
            if kind is None:
                raise
            print(error)  # the study ends with another fault, which is told too

    def started(self, trial: RunningTrial) -> None:
        """Nothing: what begins changes no result."""

    def moved(self, trial: RunningTrial, metrics: Mapping[str, float]) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def ended(self, trial: RunningTrial, how: TrialOutcome) -> None:
        """Writes the best setting where a trial of this study has changed it."""
        if trial.study is not self._study:
            return
        self._changed = True
        if how.state == "complete":
            self._attempt(self._compare, record_of(trial, how))

    def tick(self) -> float | None:
        """Writes table and report, if there is something new and the last ones are old."""
        if not self._changed:
            return None
        now = time.monotonic()
        if now < self._due or (self._writing and self._writing.is_alive()):
            return max(1.0, self._due - now)
        self._changed, self._due = False, now + PAUSE
        records = self._study.records()
        self._writing = threading.Thread(target=self._attempt, args=(self._write_all, records), daemon=True)
        self._writing.start()
        return None

    def confirm(self) -> str | None:
        """Trains the best setting with the seeds that the plan asks for.

        Returns:
            What it came to, in a line; None where nothing is to be confirmed.

        Raises:
            UserError: If a training is at fault.
        """
        if not self._plan.confirm or not self._front or len(self._plan.objectives) > 1:
            return None
        self.write()
        return confirming.line(self._plan, confirming.confirm(self._plan, self._study.folder, self._front[0]))

    def write(self) -> None:
        """Writes everything as it is now.

        Raises:
            RunError: If it cannot be written.
        """
        folder = self._study.folder
        try:
            records = self._study.records()
            self._front = front(records, self._plan.objectives)
            write_best(self._plan, folder, self._front)
            self._write_all(records)
        except OSError as error:
            raise RunError(
                f"{folder}: {BEST}, {TABLE} and {REPORT} cannot be written ({error.strerror or error}). "
                "Make room, and the same command writes them."
            ) from error

    def _compare(self, new: Record) -> None:
        # Trials end in any order, and of equals the one that began first is the best.
        there = front(sorted([*self._front, new], key=lambda one: one.number), self._plan.objectives)
        if any(one is new for one in there):
            self._front = there
            write_best(self._plan, self._study.folder, there)

    def _write_all(self, records: Sequence[Record]) -> None:
        began = time.monotonic()
        folder, plan = self._study.folder, self._plan
        write_table(folder / TABLE, records, list(plan.space), plan.objectives, self._reader)
        self.findings = findings(plan, folder, records, self._reader)
        write_atomically(folder / REPORT, page(self.findings))
        self._due = max(self._due, time.monotonic() + SHARE * (time.monotonic() - began))

    def _attempt(self, write: Any, *arguments: Any) -> None:
        try:
            write(*arguments)
        except Exception as error:  # whatever it is, the study has no part in it, and the end writes all again
            if not self._told:
                self._told = True
                reason = " ".join(str(error).split()) or type(error).__name__
                print(f"{self._study.folder}: the report waits for the end of the sweep ({reason}).")


def record_of(trial: RunningTrial, how: TrialOutcome) -> Record:
    """Returns a trial that has just ended as the study has it, without reading all of them."""
    return Record(
        number=trial.number,
        state=how.state,
        values=trial.values,
        objectives=tuple(how.values) if how.values else None,
        steps={},
        error=how.report,
        retry_of=None,
        attempt=0,
        started=None,
        ended=datetime.now(),
    )


def findings(plan: Plan, folder: Path, records: Sequence[Record], reader: Reader) -> Findings:
    """Works out what the report shows.

    Args:
        plan: The sweep.
        folder: The study's folder.
        records: Its trials.
        reader: Of its runs.
    """
    there = front(records, plan.objectives)
    measured: list[Importances | None] = []
    surfaces: list[Surface | None] = []
    for place, one in enumerate(plan.objectives):
        found = importances(records, plan.space, one.metric, one.mode, place=place, sampler=plan.sampler["name"])
        measured.append(found)
        pair = found.most(2) if found else []
        surfaces.append(surface(records, plan.space, *pair, place=place) if len(pair) == 2 else None)
    confirmed = confirming.read(folder)
    if confirmed and not (there and confirmed["trial"] == there[0].number):
        confirmed = None
    told = cautions(plan, folder, records, there, confirmed)
    return Findings(plan, folder, records, there, measured, surfaces, told, confirmed, reader)
