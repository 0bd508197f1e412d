"""A study: which trials it starts, and how it records their ends."""

from __future__ import annotations

import inspect
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, Literal

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState
from plans import SPACE, plan
from studies import ask, refused, run, states, tell

from sentattn.errors import RunError, SettingError
from sentattn.sweep.execution.interfaces import TrialOutcome
from sentattn.sweep.report.callback import ReportCallback
from sentattn.sweep.spec.components import DEFAULTS
from sentattn.sweep.spec.plan import Objective
from sentattn.sweep.study import storage
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy


def test_the_budget_is_met_exactly_and_another_start_does_nothing(tmp_path: Path) -> None:
    assert run(plan(), tmp_path) == list(range(10))
    assert run(plan(), tmp_path) == []
    assert run(plan(trials=12), tmp_path) == [10, 11]
    assert states(tmp_path) == {"complete": 12}


@pytest.mark.parametrize(
    "change", ["update study_user_attributes set value_json = '2'", "delete from study_user_attributes"]
)
def test_a_study_of_another_format_or_without_format_is_refused(tmp_path: Path, change: str) -> None:
    run(plan(), tmp_path, most=2)
    assert storage.load(tmp_path).user_attrs["format"] == 1
    with sqlite3.connect(tmp_path / storage.DATABASE) as database:
        database.execute(f"{change} where key = 'format'")
    for attempt in (lambda: storage.load(tmp_path), lambda: run(plan(), tmp_path)):
        with pytest.raises(RunError) as caught:
            attempt()
        assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("format", "unsupported")]


@pytest.mark.parametrize(
    ("end", "resumes"),
    [
        ("interrupt", True),
        ("death", True),
        (TrialOutcome("failed", error="it was killed", retry=True, killed=True), True),
        (TrialOutcome("failed", error="no memory", retry=True), False),
    ],
)
def test_the_next_attempt_resumes_from_a_checkpoint_unless_the_trial_itself_failed(
    tmp_path: Path, end: TrialOutcome | str, resumes: bool
) -> None:
    study = SweepStudy(plan(), tmp_path)
    first = ask(study)
    checkpoint = first.folder / "seed-0" / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("state")
    (first.folder / "log.txt").write_text("epoch 1")
    if isinstance(end, TrialOutcome):
        study.tell(first.number, end)
    elif end == "interrupt":
        study.interrupt(first.number)
    else:
        study = SweepStudy(plan(), tmp_path)
    again = ask(study)
    assert (again.values, again.number) == (first.values, 1)
    copied = again.folder / "seed-0" / "checkpoints" / "last.ckpt"
    assert copied.is_file() == resumes
    assert not checkpoint.exists()
    assert (first.folder / "log.txt").is_file()
    assert (again.folder / "log.txt").is_file() == resumes


def test_no_attempt_is_left_for_a_killed_trial_without_its_checkpoint(tmp_path: Path) -> None:
    study = SweepStudy(plan(retries=0), tmp_path)
    asked = ask(study)
    (asked.folder / "checkpoints").mkdir()
    study.tell(asked.number, TrialOutcome("failed", error="it was killed", retry=True, killed=True))
    assert not (asked.folder / "checkpoints").exists()


def test_no_more_trials_start_than_the_budget_may_need(tmp_path: Path) -> None:
    with SweepStudy.open(plan(trials=3), tmp_path) as study:
        asked = [study.ask() for _ in range(3)]
        assert study.ask() is None
        assert study.running() == 3
        assert asked[0]
        tell(study, asked[0].number, state="failed")
        assert study.ask()
        assert study.ask() is None


def test_values_and_arguments_of_a_trial(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = study.ask()
    assert asked
    assert asked.arguments[0] == "model=structured"
    assert f"model.attention.hops={asked.values['model.attention.hops']}" in asked.arguments
    assert ("model.pooling.p" in asked.values) == (asked.values["model/pooling"] == "prune")


def test_a_dead_trial_is_tried_again_with_its_values_and_uses_no_budget(tmp_path: Path) -> None:
    sweep_plan = plan(trials=2, retries=2, failures=9)
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        tries = []
        for again in (True, True, False):
            asked = ask(study)
            tries.append(asked)
            tell(study, asked.number, state="failed", retry=True)
            assert study.waiting() == again
        assert [trial.values for trial in tries] == [tries[0].values] * 3
        other = ask(study)
        assert other.values != tries[0].values
    first, second, third, _ = read(tmp_path)
    assert [(r.retry_of, r.error) for r in (first, second, third)] == [
        (None, "it failed"),
        (0, "it failed"),
        (1, "it failed"),
    ]


def test_trials_to_be_tried_again_are_known_on_disk(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = ask(study)
        tell(study, asked.number, state="failed", retry=True)
    for _ in range(2):
        with SweepStudy.open(plan(), tmp_path) as study:
            assert study.waiting() == 1
    with SweepStudy.open(plan(), tmp_path) as study:
        again = ask(study)
        assert (again.values, study.waiting()) == (asked.values, 0)


def test_failures_in_a_row_end_a_study_and_are_counted_from_each_start(tmp_path: Path) -> None:
    sweep_plan = plan(failures=2)
    for _ in range(2):
        with SweepStudy.open(sweep_plan, tmp_path) as study:
            for _ in range(2):
                tell(study, ask(study).number, state="failed")
            assert study.ended() == "2 trials in a row have failed"
            assert study.ask() is None


def test_an_interrupted_trial_runs_again_and_counts_as_no_retry(tmp_path: Path) -> None:
    sweep_plan = plan(retries=0)
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        asked = ask(study)
        study.interrupt(asked.number)
        assert study.waiting() == 1
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        again = ask(study)
        assert again.values == asked.values
        tell(study, again.number, state="failed", retry=True)
        assert study.waiting() == 0
    assert states(tmp_path) == {"interrupted": 1, "failed": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_trial_without_a_finite_value_has_failed(tmp_path: Path, value: float | None) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        tell(study, ask(study).number, *([] if value is None else [value]))
        assert (study.finished(), study.best()) == (0, [])
    assert states(tmp_path) == {"failed": 1}


def test_hours_are_counted_over_all_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    sweep_plan = plan(trials=None, hours=1.0)
    for _ in range(2):
        with SweepStudy.open(sweep_plan, tmp_path) as study:
            assert study.ask()
            now[0] += 1799.0
            assert study.ended() == ""
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        now[0] += 3.0
        assert "1 hours" in study.ended()


def test_several_objectives(tmp_path: Path) -> None:
    two = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    with SweepStudy.open(plan(objectives=two, trials=2), tmp_path) as study:
        for values in ([0.9, 10.0], [0.8, 5.0]):
            asked = ask(study)
            tell(study, asked.number, *values)
        assert [record.number for record in study.best()] == [0, 1]


def test_a_database_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = ask(study)
        blocker = sqlite3.connect(tmp_path / storage.DATABASE)
        blocker.execute("ALTER TABLE trial_values RENAME TO gone")
        blocker.commit()
        with pytest.raises(RunError) as caught:
            tell(study, asked.number, 0.5)
        assert (caught.value.faults[0].key, caught.value.faults[0].kind) == ("storage", "unwritable")
        blocker.execute("ALTER TABLE gone RENAME TO trial_values")
        blocker.commit()
    with SweepStudy.open(plan(), tmp_path) as study:
        assert study.waiting() == 1


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["ask", "complete", "pruned", "fail", "retry", "break"]), max_size=25))
def test_no_trial_is_lost_or_doubled(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    folder = tmp_path_factory.mktemp("study")
    sweep_plan = plan(trials=6, failures=1000, retries=1)
    stack = ExitStack()
    study, running, recorded = stack.enter_context(SweepStudy.open(sweep_plan, folder)), list[int](), dict[int, str]()
    for step in [*steps, "break", *["ask", "complete"] * 8]:
        if step == "ask" and (asked := study.ask()):
            assert asked.number not in recorded
            running.append(asked.number)
        elif step == "break":
            stack.close()
            running.clear()
            study = stack.enter_context(SweepStudy.open(sweep_plan, folder))
        elif running and step not in ("ask", "break"):
            number = running.pop(0)
            state = {"complete": "complete", "pruned": "pruned"}.get(step, "failed")
            tell(study, number, *([0.5] if step == "complete" else []), state=state, retry=step == "retry")
            recorded[number] = state
    stack.close()
    found = {record.number: record for record in read(folder)}
    assert all(found[number].state == state for number, state in recorded.items())
    assert sum(record.state in ("complete", "pruned") for record in found.values()) == 6
    successors = Counter(record.retry_of for record in found.values() if record.retry_of is not None)
    assert max(successors.values(), default=1) == 1
    for record in found.values():
        if record.retry_of is not None:
            assert record.values == pytest.approx(found[record.retry_of].values)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_only_the_best_keep_checkpoints_and_models(tmp_path: Path, mode: Literal["max", "min"]) -> None:
    (tmp_path / "trials" / "3-old").mkdir(parents=True)  # no trial
    with SweepStudy.open(plan(keep=2, objectives=(Objective("val/accuracy", mode),)), tmp_path) as study:
        for value in (1.0, 3.0, 2.0, 3.0):
            asked = ask(study)
            run = tmp_path / "trials" / str(asked.number) / "seed-0"
            for name in ("checkpoints", "model"):
                (run / name).mkdir(parents=True)
            (run / "result.json").touch()
            tell(study, asked.number, value)
        assert [*study.best_values] == ([1, 3] if mode == "max" else [0, 2])
        kept = [*study.best_values]
    for number in range(4):
        found = {file.name for file in (tmp_path / "trials" / str(number) / "seed-0").iterdir()}
        assert found == {"result.json", *(["checkpoints", "model"] if number in kept else [])}
    with SweepStudy.open(plan(keep=1, objectives=(Objective("val/accuracy", mode),)), tmp_path) as study:
        assert [*study.best_values] == kept[:1]


def test_running_trials_reach_the_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[TrialState]] = []
    real = optuna.samplers.TPESampler.infer_relative_search_space

    def spy(self: Any, study: optuna.Study, trial: Any) -> Any:
        seen.append([other.state for other in study.get_trials(deepcopy=False) if other.number != trial.number])
        return real(self, study, trial)

    monkeypatch.setattr(optuna.samplers.TPESampler, "infer_relative_search_space", spy)
    with SweepStudy.open(plan(sampler={"name": "tpe"}), tmp_path) as study:
        assert study.ask()
        assert study.ask()
    assert seen == [[], [TrialState.RUNNING]]


def test_the_sampler_keeps_away_from_running_trials() -> None:
    signature = inspect.signature(optuna.samplers.TPESampler)
    assert signature.parameters["constant_liar"].default is True
    assert "constant_liar" not in DEFAULTS["tpe"]


def test_a_password_is_never_printed(tmp_path: Path) -> None:
    sweep_plan = plan(storage="postgresql+nodriver://me:secret@host/db")
    assert "secret" not in repr(sweep_plan)
    with pytest.raises(SettingError) as caught, SweepStudy.open(sweep_plan, tmp_path):
        pass
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_study_in_a_database_elsewhere(tmp_path: Path) -> None:
    sweep_plan = plan(storage=f"sqlite:///{tmp_path / 'shared.db'}")
    for name in ("mine", "other"):
        with SweepStudy.open(replace(sweep_plan, study=name), tmp_path / name) as study:
            tell(study, ask(study).number, 0.5)
    assert [record.state for record in read(tmp_path / "mine", sweep_plan.storage)] == ["complete"]
    assert not (tmp_path / "mine" / storage.DATABASE).exists()
    wider = plan(
        {**SPACE, "model.attention.hops": "range(1,61)"}, study="new", warm_start="mine", storage=sweep_plan.storage
    )
    with SweepStudy.open(wider, tmp_path / "new") as study:
        assert study.finished() == 1
    assert len(read(tmp_path / "other", sweep_plan.storage)) == 1


def test_a_scheduler_of_another_machine_is_not_disturbed(tmp_path: Path) -> None:
    sweep_plan = plan(storage=f"sqlite:///{tmp_path / 'shared.db'}")
    with SweepStudy.open(sweep_plan, tmp_path / "here") as study:
        assert study.ask()
    shared = storage.load(tmp_path / "mine", sweep_plan.storage)
    process = {"pid": 7, "host": "elsewhere", "machine": "another", "started": "1"}
    shared.set_user_attr("scheduler 7", {"process": process, "heartbeat": 20, "seen": time.time()})
    assert refused(sweep_plan, tmp_path / "there") == [("study", "busy")]
    shared.set_user_attr("scheduler 7", {"process": process, "heartbeat": 20, "seen": time.time() - 3600})
    with SweepStudy.open(sweep_plan, tmp_path / "there") as study:
        assert study.waiting() == 1


def test_a_folder_refuses_another_storage_or_study(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'first.db'}"
    sweep_plan = plan(storage=url)
    with SweepStudy.open(sweep_plan, tmp_path / "mine") as study:
        asked = ask(study)
        tell(study, asked.number, 0.5)
    (asked.folder / "model").mkdir()
    others = [
        replace(sweep_plan, storage=f"sqlite:///{tmp_path / 'second.db'}"),
        replace(sweep_plan, storage=None),
        replace(sweep_plan, study="other"),
    ]
    for other in others:
        with pytest.raises(SettingError) as caught, SweepStudy.open(other, tmp_path / "mine"):
            pass
        assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("storage", "conflict")]
        assert url in str(caught.value)
    assert not (tmp_path / "mine" / storage.DATABASE).exists()
    assert storage.sweeps(url) == ["mine"]
    assert (asked.folder / "model").exists()
    with SweepStudy.open(sweep_plan, tmp_path / "mine") as study:
        assert study.finished() == 1


def test_a_folder_with_a_file_refuses_a_database_and_may_be_renamed(tmp_path: Path) -> None:
    run(plan(trials=1), tmp_path / "mine")
    elsewhere = plan(storage=f"sqlite:///{tmp_path / 'first.db'}")
    assert refused(elsewhere, tmp_path / "mine") == [("storage", "conflict")]
    assert run(plan(trials=2), tmp_path / "mine") == [1]
    (tmp_path / "mine").rename(tmp_path / "renamed")
    assert run(plan(study="renamed", trials=3), tmp_path / "renamed") == [2]


def test_a_storage_that_has_lost_the_study_is_refused(tmp_path: Path) -> None:
    sweep_plan = plan(storage=f"sqlite:///{tmp_path / 'first.db'}")
    with SweepStudy.open(sweep_plan, tmp_path / "mine"):
        pass
    (tmp_path / "first.db").unlink()
    assert refused(sweep_plan, tmp_path / "mine") == [("storage", "conflict")]


def test_no_password_is_kept_in_the_folder(tmp_path: Path) -> None:
    url = "postgresql://me:s3cret@host/db"
    storage.record_storage(tmp_path, url, "mine", "1")
    with pytest.raises(SettingError) as caught:
        storage.open_storage(tmp_path)
    assert "s3cret" not in (tmp_path / storage.RECORD).read_text() + str(caught.value)
    before = storage.read_record(tmp_path)
    storage.record_storage(tmp_path, url.replace("s3cret", "another"), "mine", "1")
    assert storage.read_record(tmp_path) == before


def test_folders_of_unknown_trials_are_kept(tmp_path: Path) -> None:
    """As after a power cut, which may take the last trials from the database."""
    unknown, finished = tmp_path / "trials" / "1", tmp_path / "trials" / "0"
    run(plan(trials=1), tmp_path)
    for folder in (unknown, finished):
        (folder / "checkpoints").mkdir(parents=True)
    (unknown / "metrics.jsonl").write_text("{}\n")
    with SweepStudy.open(plan(keep=0), tmp_path) as study:
        assert (unknown / "checkpoints").exists()
        assert not (finished / "checkpoints").exists()
        asked = study.ask()
    assert asked
    assert asked.folder == unknown
    assert not [*asked.folder.iterdir()]
    [kept] = tmp_path.glob("trials/1-old-*/metrics.jsonl")
    assert kept.read_text() == "{}\n"


def test_checkpoints_of_trials_that_have_not_finished_are_kept(tmp_path: Path) -> None:
    sweep_plan = plan(storage=f"sqlite:///{tmp_path / 'shared.db'}", keep=0)
    with SweepStudy.open(sweep_plan, tmp_path / "mine") as study:
        asked = ask(study)
        (asked.folder / "checkpoints").mkdir()
    with SweepStudy.open(sweep_plan, tmp_path / "mine"):
        assert (asked.folder / "checkpoints").exists()


def calls(work: Callable[[], object]) -> int:
    """Counts the calls of functions in this thread."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("is_on_front", [False, True])
def test_the_end_of_a_trial_costs_no_comparison_of_all_trials(tmp_path: Path, is_on_front: bool) -> None:
    two = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    sweep_plan = plan({"model.attention.hops": "range(1,31)"}, objectives=two, trials=None, hours=1.0)
    counts = []
    for size in (30, 300):
        folder = tmp_path / str(size)
        with SweepStudy.open(sweep_plan, folder):
            pass
        study = storage.load(folder)
        space = sweep_plan.space["model.attention.hops"]
        for number in range(size):
            values = [number / size, float(number)] if is_on_front else [1 - number / size, float(number)]
            study.add_trial(
                optuna.create_trial(values=values, params={space.key: 1}, distributions={space.key: space.distribution})
            )
        with SweepStudy.open(sweep_plan, folder) as opened, ReportCallback(opened) as report:
            assert len(opened.best_values) == (3 if is_on_front else 1)
            asked = ask(opened)
            trial: Any = SimpleNamespace(task=asked, source=opened)
            outcome = TrialOutcome("complete", [2.0, size / 2 - 0.5])
            counts.append(calls(lambda: opened.tell(asked.number, outcome)))  # noqa: B023
            counts.append(calls(lambda: report.ended(trial, outcome)))  # noqa: B023
            assert {record.number for record in opened.best()} >= {asked.number}
            assert asked.number in opened.best_values
    assert counts[2] < 12 * counts[0]
    assert counts[3] < 12 * counts[1]


@pytest.mark.parametrize("modes", [("max", "min"), ("min", "min", "max")])
def test_the_front_trial_by_trial_is_that_of_all(tmp_path: Path, modes: tuple[Literal["max", "min"], ...]) -> None:
    by_chance = random.Random(0)
    objectives = tuple(Objective(f"val/{number}", mode) for number, mode in enumerate(modes))
    sweep_plan = plan(objectives=objectives, trials=40, keep=40)
    known: dict[int, list[float]] = {}
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        while asked := study.ask():
            known[asked.number] = [float(by_chance.randrange(6)) for _ in modes]
            tell(study, asked.number, *known[asked.number])
            signed = {n: [v if m == "max" else -v for v, m in zip(vs, modes, strict=True)] for n, vs in known.items()}
            front = {
                number
                for number, point in signed.items()
                if not any(
                    all(a >= b for a, b in zip(other, point, strict=True)) and other != point
                    for other in signed.values()
                )
            }
            assert {*study.best_values} == front
            assert {record.number for record in study.best()} == front


def failed_with_nan(study: SweepStudy, number: int) -> None:
    study.tell(number, TrialOutcome("failed", error="its loss became NaN", diverged=True))


@pytest.mark.parametrize(("mode", "worst"), [("max", 0.1), ("min", 0.9)])
def test_a_trial_that_diverged_is_the_worst_to_the_sampler_and_failed_to_people(
    tmp_path: Path, mode: Literal["max", "min"], worst: float
) -> None:
    sweep_plan = plan(objectives=(Objective("val/accuracy", mode),), trials=3)
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        numbers = [asked.number for _ in range(3) if (asked := study.ask())]
        for number, value in zip(numbers[:2], (0.1, 0.9), strict=True):
            tell(study, number, value)
        failed_with_nan(study, numbers[2])
        assert (study.finished(), study.failures, study.waiting()) == (2, 1, 0)
        assert numbers[2] not in study.best_values
        asked = ask(study)
        tell(study, asked.number, float("nan"))
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        assert (study.finished(), study.waiting()) == (2, 0)
    seen = [(trial.state, trial.values) for trial in storage.load(tmp_path).get_trials()]
    assert seen[2:] == [(TrialState.COMPLETE, [worst])] * 2
    found = read(tmp_path)[2:]
    assert [(record.state, record.objectives) for record in found] == [("failed", None)] * 2
    assert found[0].error == "its loss became NaN"


def test_of_several_objectives_each_is_the_worst(tmp_path: Path) -> None:
    two = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    with SweepStudy.open(plan(objectives=two, trials=4), tmp_path) as study:
        numbers = [asked.number for _ in range(3) if (asked := study.ask())]
        tell(study, numbers[0], 0.9, 100.0)
        tell(study, numbers[1], 0.5, 10.0)
        failed_with_nan(study, numbers[2])
        assert sorted(record.number for record in study.best()) == numbers[:2]
    assert storage.load(tmp_path).get_trials()[2].values == [0.5, 100.0]


def test_before_anything_worse_was_seen_a_trial_that_diverged_has_no_value(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        numbers = [asked.number for _ in range(2) if (asked := study.ask())]
        tell(study, numbers[0], 0.5)
        failed_with_nan(study, numbers[1])
    assert [trial.state for trial in storage.load(tmp_path).get_trials()][1:] == [TrialState.FAIL]
