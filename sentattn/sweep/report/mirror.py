"""The study itself on W&B: a run with the best so far, importances, contours and the table of trials.

Everything that concerns W&B happens in a thread of its own: the owner of a study waits for nothing but the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sentattn.sweep.callbacks import RunningTrial, TrialOutcome
from sentattn.sweep.records import Record
from sentattn.sweep.report.callback import ReportCallback, record_of
from sentattn.sweep.report.html import Findings

if TYPE_CHECKING:
    from sentattn.sweep.report.study_run import StudyRun
    from sentattn.sweep.study import SweepStudy

WANDB = "sentattn.loggers.wandb_logger"


class StudyMirror:
    """Looks on at a study and mirrors it to W&B, where its trials are mirrored too.

    Each trial that ends is a row at once; what the report shows follows whenever that was written anew.

    Args:
        study: The study.
        outcome: What writes its report.
    """

    def __init__(self, study: SweepStudy, outcome: ReportCallback) -> None:
        self._study = study
        self._outcome = outcome
        self._shown: Findings | None = None
        self._run: StudyRun | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> StudyMirror:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._thread:
            self._show()
            self._do(lambda run: run.end(_summary(self._study)))
            self._thread.shutdown()

    def started(self, trial: RunningTrial) -> None:
        """Opens W&B's run with the first trial, whose settings say where to."""
        if self._thread is None and trial.study is self._study:
            self._thread = ThreadPoolExecutor(max_workers=1)
            self._thread.submit(self._open, list(trial.arguments), self._study.records())

    def moved(self, trial: RunningTrial, metrics: Mapping[str, float]) -> None:
        """Nothing: the trial has a run of its own."""

    def message(self, text: str) -> None:
        """Nothing."""

    def ended(self, trial: RunningTrial, how: TrialOutcome) -> None:
        """Shows how a trial ended."""
        if trial.study is self._study and self._thread:
            record = record_of(trial, how)
            self._do(lambda run: run.row(record))

    def tick(self) -> float | None:
        """Shows what the report shows, if that is new."""
        if self._thread:
            self._show()
        return None

    def _show(self) -> None:
        findings = self._outcome.findings
        if findings is not None and findings is not self._shown:
            self._shown = findings
            self._do(lambda run: run.picture(findings))

    def _do(self, action: Callable[[StudyRun], None]) -> None:
        assert self._thread is not None
        self._thread.submit(lambda: action(self._run) if self._run else None)

    def _open(self, arguments: Sequence[str], found: Sequence[Record]) -> None:
        from sentattn.config.request import read_request

        settings = read_request(arguments).settings
        if settings["logger"]["_target_"] != WANDB:
            return
        from sentattn.sweep.report.study_run import StudyRun  # brings Lightning

        began = next(one.started for one in found if one.started)
        past = [one for one in found if one.state != "running"]
        self._run = StudyRun(self._study.plan, self._study.folder, settings, began, past)


def _summary(study: SweepStudy) -> dict[str, Any]:
    counts = Counter(one.state for one in study.records())
    there = study.best()
    best = (
        {f"best/{key}": value for key, value in there[0].values.items()} | {"best_trial": there[0].number}
        if there
        else {}
    )
    return {**{f"trials/{state}": count for state, count in counts.items()}, **best}
