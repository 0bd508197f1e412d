"""A study: which trials it starts, and how their ends are recorded."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState
from plans import HOPS, plan
from refusals import assert_refused, refused
from studies import ask, read, report, run, states, tell, train

from sentattn.errors import Fault, TrainingError
from sentattn.jobs.pool import LOST, REFUSED, explain
from sentattn.sweep.plan import Objective
from sentattn.sweep.records import TrialTask, front
from sentattn.sweep.study import SweepStudy

pytestmark = pytest.mark.usefixtures("composed_once")


def opened(folder: Path, **others: Any) -> Any:
    return SweepStudy.open(plan(HOPS, **others), folder, train)


def test_the_budget_is_met_exactly_and_another_start_does_nothing(tmp_path: Path) -> None:
    assert run(plan(), tmp_path) == list(range(10))
    assert run(plan(), tmp_path) == []
    assert run(plan(trials=12), tmp_path) == [10, 11]
    assert states(tmp_path) == {"complete": 12}


def test_what_the_process_of_a_trial_gets(tmp_path: Path) -> None:
    pruner = {"name": "median", "n_warmup_steps": 3}
    with SweepStudy.open(plan(repeats=2, pruner=pruner, output_dir="out", seed=4), tmp_path, train) as study:
        job = ask(study)
    [task] = job.arguments
    assert isinstance(task, TrialTask)
    assert (job.function, job.folder, job.values, job.metric) == (train, task.folder, task.values, "val/accuracy")
    assert task.folder == tmp_path / "trials" / "0"
    assert task.arguments[0] == "model=structured"
    searched = f"model.attention.hops={job.values['model.attention.hops']}"
    assert {searched, "output_dir=out", "group=mine", "test=false", "seed=4"} <= {*task.arguments}
    assert ("model.pooling.p" in job.values) == (job.values["model/pooling"] == "prune")
    assert (task.objectives, task.repeats, task.pruner) == (["val/accuracy"], 2, pruner)


def test_a_trial_that_fails_is_tried_again_with_its_values_and_uses_no_budget(tmp_path: Path) -> None:
    tries = []
    for again in (True, True, False):  # each start knows it from the files
        with opened(tmp_path, trials=2, retries=2, failures=9) as study:
            job = ask(study)
            tries.append(job.values)
            tell(study, job, state="failed", retry=True)
            assert (study.finished(), study.waiting()) == (0, again)
    assert tries == [tries[0]] * 3
    with opened(tmp_path, trials=2, retries=2, failures=9) as study:
        assert study.waiting() == 0
        assert ask(study).values != tries[0]
    retries = [(record.retry_of, record.error) for record in read(tmp_path)[:3]]
    assert retries == [(None, "it failed"), (0, "it failed"), (1, "it failed")]


def test_choices_alone_without_a_number_of_trials_end_with_their_combinations(tmp_path: Path) -> None:
    choices = plan({"model/pooling": "choice(flatten,mean,max)"}, trials=None, hours=1.0, retries=0)
    assert run(choices, tmp_path, most=1) == [0]
    with SweepStudy.open(choices, tmp_path, train) as study:
        last, failed = ask(study), ask(study)
        assert (study.next(), study.over()) == (None, "")
        tell(study, last, 0.5)
        tell(study, failed, state="failed")
        assert study.over()
    assert run(choices, tmp_path) == []


def test_failures_in_a_row_end_a_study_and_are_counted_from_each_start(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path, failures=2) as study:
            tell(study, ask(study), state="failed")
            tell(study, ask(study), 0.5)
            study.require_success()
            for _ in range(2):
                assert not study.over()
                tell(study, ask(study), state="failed")
            assert "2 trials" in study.over()
            assert study.next() is None
            assert refused(study.require_success) == [("failures", "failed")]


def test_an_interrupted_trial_runs_again_and_counts_as_no_retry(tmp_path: Path) -> None:
    with opened(tmp_path, retries=0) as study:
        job = ask(study)
        study.interrupt(job)
        assert study.waiting() == 1
    with opened(tmp_path, retries=0) as study:
        again = ask(study)
        assert again.values == job.values
        tell(study, again, state="failed", retry=True)
        assert study.waiting() == 0
    assert states(tmp_path) == {"interrupted": 1, "failed": 1}


def test_what_is_said_of_the_end_of_a_trial(tmp_path: Path) -> None:
    with opened(tmp_path, failures=99, retries=0) as study:
        assert tell(study, ask(study), 0.5) == "val/accuracy 0.5000, the best so far"
        assert study.best() == "trial 0, val/accuracy 0.5000"
        assert tell(study, ask(study), 0.25) == "val/accuracy 0.2500"
        job = ask(study)
        report(job).step(3, 0.125)
        assert tell(study, job, state="pruned") == "pruned after 3 at 0.1250"
        job = ask(study)
        assert tell(study, job, state="failed") == f"failed: it failed (log: {job.log})"
        job = ask(study)
        job.log.write_text("a\nb\n\nc\nd\n")
        assert study.has_ended(job, 1, "").splitlines()[1:] == ["b", "c", "d"], "its process has recorded nothing"
        job = ask(study)
        study.optuna_study.tell(job.number, state=TrialState.FAIL)
        assert "another scheduler" in study.has_ended(job, 130, ""), "which took it for dead"
        assert study.failures == 0


@pytest.mark.parametrize(
    ("code", "killed", "again"),
    [
        (-9, "", True),
        (1, "", True),
        (REFUSED, "", False),
        (-9, "it took longer than limit_minutes=1", False),
        (0, "", True),
    ],
)
def test_a_trial_whose_process_has_recorded_no_end(tmp_path: Path, code: int, killed: str, again: bool) -> None:
    with opened(tmp_path) as study:
        job = ask(study)
        assert study.has_ended(job, code, killed).startswith("failed: ")
        assert study.waiting() == again
    [record] = read(tmp_path)
    assert record.state == "failed"
    assert record.error.startswith(killed or "it ")


def test_trials_whose_machine_or_server_has_died_were_interrupted_and_are_one_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with opened(tmp_path, retries=0, failures=3) as study:
        for failures in (1, 2, 3):
            now[0] += 100.0
            for job in [ask(study) for _ in range(3)]:
                assert study.has_ended(job, LOST, "").startswith("interrupted: ")
            assert (study.waiting(), study.failures) == (3, failures)
        assert study.over().startswith("3 trials "), "as where each attempt takes the server along"
        assert_refused(study.require_success, "failures", "failed", explain(LOST))
    assert states(tmp_path) == {"interrupted": 9}


def test_a_trial_that_diverged_is_pruned_for_the_sampler_and_an_error_to_people(tmp_path: Path) -> None:
    with opened(tmp_path, trials=3) as study:
        jobs = [ask(study) for _ in range(3)]
        tell(study, jobs[0], 0.5)
        report(jobs[1]).fail(TrainingError(Fault("optimizer.lr", "diverged", "Its loss became NaN.")))
        assert study.has_ended(jobs[1], REFUSED, "").startswith("failed: Its loss became NaN")
        assert tell(study, jobs[2], float("nan")).startswith("failed: ")
        assert (study.finished(), study.failures, study.waiting()) == (3, 2, 0)
        assert [record.number for record in front(study.optuna_study)] == [0]
    found = read(tmp_path)
    assert [record.state for record in found] == ["complete", "pruned", "pruned"]
    assert found[1].error == "Its loss became NaN."
    assert "finite" in found[2].error


def test_hours_are_counted_over_all_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for _ in range(2):
        with opened(tmp_path, trials=None, hours=1.0) as study:
            assert study.next()
            now[0] += 1799.0
            assert study.over() == ""
    with opened(tmp_path, trials=None, hours=1.0) as study:
        now[0] += 3.0
        assert "1 hours" in study.over()
        assert study.next() is None


def test_several_objectives_have_a_front(tmp_path: Path) -> None:
    two = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    with opened(tmp_path, objectives=two, trials=3) as study:
        texts = [tell(study, ask(study), *values) for values in ([0.9, 10.0], [0.8, 5.0], [0.7, 20.0])]
        assert {record.number for record in front(study.optuna_study)} == study.front == {0, 1}
    assert texts[1:] == ["val/accuracy 0.8000, parameters.total 5, the best so far", texts[2]]
    assert not texts[2].endswith("so far")


def prepare_run(folder: Path) -> Path:
    """What a training leaves; returns its checkpoint."""
    checkpoint = folder / "checkpoints" / "last.ckpt"
    for name in ("checkpoints", "model"):
        (folder / name).mkdir(parents=True)
    checkpoint.write_text("state")
    (folder / "result.json").touch()
    return checkpoint


@pytest.mark.parametrize("mode", ["max", "min"])
def test_only_the_best_keep_checkpoints_and_models(tmp_path: Path, mode: Literal["max", "min"]) -> None:
    (tmp_path / "trials" / "3-old").mkdir(parents=True)  # no trial
    objectives = (Objective("val/accuracy", mode),)
    with opened(tmp_path, keep=2, objectives=objectives) as study:
        for value in (1.0, 3.0, 2.0, 3.0):
            job = ask(study)
            prepare_run(job.folder / "seed-0")
            tell(study, job, value)

    def kept() -> list[int]:
        folders = [tmp_path / "trials" / str(number) / "seed-0" for number in range(4)]
        assert all((folder / "result.json").is_file() for folder in folders)
        assert all((folder / "model").exists() == (folder / "checkpoints").exists() for folder in folders)
        return [number for number, folder in enumerate(folders) if (folder / "model").exists()]

    assert kept() == ([1, 3] if mode == "max" else [0, 2])
    with opened(tmp_path, keep=1, objectives=objectives):
        assert kept() == ([1] if mode == "max" else [0])
    with opened(tmp_path, keep=0, objectives=objectives):
        assert kept() == []


@pytest.mark.parametrize("end", ["interrupt", "killed", "failed", "last"])
def test_the_next_attempt_resumes_from_a_checkpoint_unless_the_trial_itself_failed(tmp_path: Path, end: str) -> None:
    with opened(tmp_path, retries=int(end != "last")) as study:
        job = ask(study)
        checkpoint = prepare_run(job.folder / "seed-0")
        job.log.write_text("epoch 1")
        if end == "interrupt":
            study.interrupt(job)
        elif end == "failed":
            tell(study, job, state="failed", retry=True)
        else:
            study.has_ended(job, -9, "")
        again = ask(study)
    resumes = end in ("interrupt", "killed")
    assert (again.values == job.values) == (end != "last")
    assert (again.folder / "seed-0" / "checkpoints" / "last.ckpt").is_file() == resumes
    assert not checkpoint.exists()
    assert job.log.is_file()
    assert again.log.is_file() == resumes


def test_checkpoints_of_trials_that_run_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path, keep=0) as study:
        checkpoint = prepare_run(ask(study).folder)
        with opened(tmp_path, keep=0):
            assert checkpoint.exists()


def test_folders_of_unknown_trials_are_kept(tmp_path: Path) -> None:
    """As after a power cut, which may take the last lines of the journal."""
    unknown = tmp_path / "trials" / "1"
    run(plan(HOPS, trials=1), tmp_path)
    checkpoint = prepare_run(unknown)
    with opened(tmp_path, keep=0) as study:
        assert checkpoint.exists()
        assert ask(study).folder == unknown
        assert not [*unknown.iterdir()]
    [kept] = tmp_path.glob("trials/1-old-*/checkpoints/last.ckpt")
    assert kept.read_text() == "state"


def test_what_runs_at_any_scheduler_is_reserved_in_the_budget(tmp_path: Path) -> None:
    with opened(tmp_path, trials=3) as first, opened(tmp_path, trials=3) as second:
        assert (first.number, second.number) == (0, 1)
        jobs = [ask(first), ask(second), ask(first)]
        assert [job.number for job in jobs] == [0, 1, 2]
        assert first.next() is second.next() is None
        assert (first.elsewhere(), second.elsewhere()) == (1, 2)
        tell(second, jobs[1], 0.5)
        tell(first, jobs[2], 0.7)
        tell(first, jobs[0], state="failed", retry=True)
        again = ask(second)
        assert again.values == jobs[0].values
        assert first.next() is None
        tell(second, again, 0.6)
        assert first.over() == second.over() != ""
        assert (first.elsewhere(), second.elsewhere()) == (0, 0)
        best = [[record.number for record in front(study.optuna_study)] for study in (first, second)]
        assert best == [[2], [2]]


def test_the_first_of_several_schedulers_leads(tmp_path: Path) -> None:
    with opened(tmp_path) as second:
        with opened(tmp_path) as third:
            assert (second.is_leader(), third.is_leader()) == (True, False)
        with opened(tmp_path) as third:
            assert third.number == 1, "the number of one that has left is given again"
    with opened(tmp_path) as third:
        assert third.is_leader()


def test_schedulers_draw_other_values(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path, train) as first, SweepStudy.open(plan(), tmp_path, train) as second:
        values = [ask(study).values for study in (first, second) for _ in range(3)]
    assert len({str(value) for value in values}) == 6
    with SweepStudy.open(plan(), tmp_path, train) as first:
        again = [ask(first).values for _ in range(6)]
        assert again == values, "those that were interrupted"
        new = ask(first).values
        assert new not in values


def test_a_quasi_random_sequence_is_shared(tmp_path: Path) -> None:
    qmc = plan(trials=6, sampler={"name": "qmc"})
    with SweepStudy.open(qmc, tmp_path / "a", train) as first, SweepStudy.open(qmc, tmp_path / "a", train) as second:
        shared = [ask(study).values for study in (first, second) * 3]
    with SweepStudy.open(qmc, tmp_path / "alone", train) as study:
        assert [ask(study).values for _ in range(6)] == shared


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["ask", "complete", "pruned", "fail", "retry", "die", "break"]), max_size=25))
def test_no_trial_is_lost_or_doubled(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    folder = tmp_path_factory.mktemp("study")
    stack = ExitStack()
    study: SweepStudy = stack.enter_context(opened(folder, trials=6, failures=1000))
    running, recorded = list[Any](), dict[int, str]()
    for step in [*steps, "break", *["ask", "complete"] * 8]:
        if step == "ask" and (job := study.next()):
            assert job.number not in recorded
            running.append(job)
        elif step == "break":
            stack.close()
            running.clear()
            study = stack.enter_context(opened(folder, trials=6, failures=1000))
        elif running and step not in ("ask", "break"):
            job = running.pop(0)
            state = {"complete": "complete", "pruned": "pruned"}.get(step, "failed")
            if step == "die":
                study.has_ended(job, -9, "")
            else:
                tell(study, job, *([0.5] if step == "complete" else []), state=state, retry=step == "retry")
            recorded[job.number] = state
    stack.close()
    found = {record.number: record for record in read(folder)}
    assert all(found[number].state == state for number, state in recorded.items())
    assert sum(record.state in ("complete", "pruned") for record in found.values()) == 6
    successors = Counter(record.retry_of for record in found.values() if record.retry_of is not None)
    assert max(successors.values(), default=1) == 1
    for record in found.values():
        if record.retry_of is not None:
            assert record.values == found[record.retry_of].values


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_study_of_choices_tries_each_combination_once(tmp_path: Path, sampler: str) -> None:
    space = {"model": "structured,mean,lstm_max", "ema_decay": "0.9,0.99"}
    numbers = run(plan(space, trials=6, overrides=(), sampler={"name": sampler}), tmp_path)
    assert len({*map(str, (record.values for record in read(tmp_path)))}) == len(numbers) == 6
