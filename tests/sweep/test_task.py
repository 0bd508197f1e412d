"""What the process of a trial records in the journal of its study."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import HOPS, plan
from studies import ask, read, report, states, train

from sentattn.errors import Fault, SettingError, TrainingError
from sentattn.sweep import journal
from sentattn.sweep.records import RETRYABLE
from sentattn.sweep.study import SweepStudy

pytestmark = pytest.mark.usefixtures("composed_once")
MEDIAN = {"name": "median", "n_startup_trials": 1, "n_warmup_steps": 0}


def open_study(folder: Path, **others: object) -> SweepStudy:
    """A study that is not left."""
    return SweepStudy.open(plan(HOPS, **others), folder, train).__enter__()


def test_steps_are_recorded_and_the_worse_trial_is_pruned(tmp_path: Path) -> None:
    study = open_study(tmp_path, pruner=MEDIAN)
    good, bad = report(ask(study)), report(ask(study))
    assert [good.step(step, 0.5) for step in (1, 2)] == [False, False]
    good.end([0.5])
    assert bad.step(1, 0.25)
    bad.end(None)
    assert [(record.state, dict(record.steps)) for record in read(tmp_path)] == [
        ("complete", {1: 0.5, 2: 0.5}),
        ("pruned", {1: 0.25}),
    ]


def test_a_step_that_a_resumed_trial_reports_again_changes_nothing(tmp_path: Path) -> None:
    study = open_study(tmp_path)
    job = ask(study)
    report(job).step(1, 0.5)
    again = report(job)
    assert not again.step(1, 0.5)
    assert not again.step(2, float("nan")), "what is not finite is left out"
    again.end([0.5])
    assert dict(read(tmp_path)[0].steps) == {1: 0.5}


@pytest.mark.parametrize("values", [[float("inf")], [0.5, float("nan")]])
def test_a_trial_without_a_finite_value_has_diverged(tmp_path: Path, values: list[float]) -> None:
    report(ask(open_study(tmp_path))).end(values)
    [record] = read(tmp_path)
    assert (record.state, record.objectives) == ("pruned", None)
    assert "finite" in record.error


def out_of_memory() -> TrainingError:
    error = TrainingError(Fault("data.batch_size", "resources", "The memory is not enough."))
    error.__cause__ = RuntimeError("CUDA out of memory")
    return error


@pytest.mark.parametrize(
    ("error", "again"), [(SettingError(Fault("x", "range", "x must be 2.")), False), (out_of_memory(), True)]
)
def test_an_error_is_recorded_with_whether_another_attempt_may_succeed(
    tmp_path: Path, error: TrainingError, again: bool
) -> None:
    report(ask(open_study(tmp_path))).fail(error)
    [record] = read(tmp_path)
    assert (record.state, record.error) == ("failed", error.messages[0])
    assert journal.load(tmp_path).trials[0].user_attrs.get(RETRYABLE) is again


@pytest.mark.parametrize("end", ["end", "prune", "diverge", "fail"])
def test_a_trial_that_another_scheduler_took_for_dead_records_nothing(tmp_path: Path, end: str) -> None:
    study = open_study(tmp_path)
    job = ask(study)
    late = report(job)
    assert not late.step(1, 0.5)
    study.interrupt(job)
    again = ask(study)
    assert late.step(2, 0.75), "it ends the trial"
    match end:
        case "end":
            late.end([0.75])
        case "prune":
            late.end(None)
        case "diverge":
            late.end([float("nan")])
        case "fail":
            late.fail(out_of_memory())
    assert states(tmp_path) == {"interrupted": 1, "running": 1}
    report(again).end([0.5])
    first, second = read(tmp_path)
    assert (dict(first.steps), first.error, second.objectives) == ({1: 0.5}, "", (0.5,))
