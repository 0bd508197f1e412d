"""Updates the files of a study while it runs: best setting, table, and a report that needs no network."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sentattn.errors import Fault, RunError
from sentattn.run import REPORT, TRIALS, write_atomically
from sentattn.sweep.execution.interfaces import RunningTrial, SweepCallback, TrialOutcome
from sentattn.sweep.report.analysis import Findings, reason
from sentattn.sweep.report.artifacts import BEST, confirm, describe_confirmed, find_confirmed, write_best, write_table
from sentattn.sweep.report.wandb import StudyLogger
from sentattn.sweep.study.records import Record, front

if TYPE_CHECKING:
    from sentattn.sweep.study.study import SweepStudy

PAUSE = 60.0
LOAD = 50
"""A report that took a second is written again after as many seconds at the earliest."""


class ReportCallback(SweepCallback):
    """Writes the results of a study into its folder, and logs them to W&B if its trials are logged there.

    `best.yaml` is written as soon as the best trial changes; table, report and W&B's run now and then, in a thread, and
    when the context ends, however the study ended. What cannot be written while the study runs is printed once.

    Attributes:
        findings: The analysis in the last report.
    """

    def __init__(self, study: SweepStudy) -> None:
        self._study = study
        self._plan = study.plan
        self._changed = False
        self._due = time.monotonic() + PAUSE
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="report")
        self._writing: Future[None] | None = None
        self._printed = False
        self._failed: set[str] = set()
        self._is_logged, self._resumed = study.is_first(), study.finished() > 0  # of several schedulers one logs it
        self._logger: StudyLogger | None = None
        self.findings: Findings | None = None

    def __enter__(self) -> ReportCallback:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.write(wait=kind is None)
        except RunError as error:
            if kind is None:
                raise
            print(error)  # the study ends with another error, which is printed too
        finally:
            if self._logger:
                self._executor.submit(self._logger.finish)
            self._executor.shutdown()

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Writes the best setting where a trial of this study has changed it."""
        if trial.source is self._study:
            self._changed = True
            if trial.task.number in self._study.front:
                with self._written_later():
                    records = self._study.records(wait=False)
                    write_best(self._plan, self._study.folder, front(records, self._plan.modes))

    def tick(self) -> float | None:
        """Writes table and report if anything has changed and the last ones are old; returns seconds to wait."""
        now = time.monotonic()
        if not self._changed:
            return None
        if now < self._due or not self.is_idle():
            return max(1.0, self._due - now)
        self._due = now + PAUSE
        with self._written_later():
            records = self._study.records(wait=False)
            self._changed = False
            self._writing = self._executor.submit(self._written_later()(self._write_all), records)
        return None

    def is_idle(self) -> bool:
        """Whether the thread writes nothing at the moment."""
        return self._writing is None or self._writing.done()

    def confirm(self) -> str | None:
        """Trains the best setting with the seeds of `confirm`; returns the result in lines, None where there is none.

        Only one of several schedulers trains it, once.

        Raises:
            UserError: If a training fails.
        """
        plan, study = self._plan, self._study
        if not plan.confirm or len(plan.objectives) > 1 or not study.is_first() or not (best := study.best()):
            return None
        self.write()
        winner = best[0]
        with study.confirming(winner.number) as is_due:
            known = None if is_due else find_confirmed(study.folder, winner.number, plan.confirm)
            confirmed = confirm(plan, study.folder, winner) if is_due else known
        return None if confirmed is None else describe_confirmed(plan, confirmed)

    def write(self, *, wait: bool = True) -> None:
        """Writes everything as it is now, and waits for a database that does not answer.

        Raises:
            RunError: If the study cannot be read, or its results cannot be written.
        """
        folder, records = self._study.folder, self._study.records(wait=wait)
        try:
            write_best(self._plan, folder, front(records, self._plan.modes))
            self._executor.submit(self._write_all, records).result()
        except OSError as error:
            files = f"{BEST}, {TRIALS} and {REPORT} cannot be written ({error.strerror or error})"
            message = f"{folder}: {files}. Free some space, and the same command writes them."
            raise RunError(Fault(str(folder), "unwritable", message)) from error
        except Exception as error:  # no report may keep a sweep from its best setting and from `confirm`
            print(f"{folder}: {REPORT} is not up to date ({reason(error)}).")

    def _write_all(self, records: Sequence[Record]) -> None:
        from sentattn.sweep.report.page import page  # imports plotly

        began, folder = time.monotonic(), self._study.folder
        write_table(folder, records, self._plan)
        findings = self.findings = Findings(self._plan, folder, records)
        if self._is_logged and findings.front and self._logger is None:
            open_logger = partial(StudyLogger.open, self._study, findings, resumed=self._resumed)
            self._logger = findings.attempt("W&B", None, open_logger)
            self._is_logged = self._logger is not None
        if self._logger:
            self._logger.log(findings)
        write_atomically(folder / REPORT, page(findings))
        for name, message in findings.failures.items():
            if name not in self._failed:
                print(f"{folder / REPORT}: {name} is missing ({message}).")
            self._failed.add(name)
        self._due = max(self._due, time.monotonic() + LOAD * (time.monotonic() - began))

    @contextmanager
    def _written_later(self) -> Iterator[None]:
        """Prints the first error of what is written in the block, which is written again later."""
        try:
            yield
        except Exception as error:
            if not self._printed:
                print(f"{self._study.folder}: the report is written later ({reason(error)}).")
            self._printed = True
