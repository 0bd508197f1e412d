"""What comes out of a sweep: a table of its trials, its best setting, and a page to look at."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sentattn.sweep.report.keeping import Outcome
from sentattn.sweep.report.mirror import StudyMirror

if TYPE_CHECKING:
    from sentattn.sweep.study import SweepStudy


def look_on(study: SweepStudy, held: ExitStack) -> tuple[Outcome, StudyMirror]:
    """Returns what writes down and shows what comes out of a study; both close with the stack, the record first."""
    outcome = Outcome(study)
    mirror = held.enter_context(StudyMirror(study, outcome))
    return held.enter_context(outcome), mirror
