"""The results of a sweep: a table of its trials, its best setting, and a report."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sentattn.sweep.report.callback import ReportCallback
from sentattn.sweep.report.wandb import StudyLogger

if TYPE_CHECKING:
    from sentattn.sweep.study.study import SweepStudy


def report_callbacks(study: SweepStudy, stack: ExitStack) -> tuple[ReportCallback, StudyLogger]:
    """Returns the callbacks that write and log the results of a study; the stack closes both, the report first."""
    report = ReportCallback(study)
    logger = stack.enter_context(StudyLogger(study, report))
    return stack.enter_context(report), logger
