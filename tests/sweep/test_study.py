"""A study on disk: what is asked, how it goes on after whatever ended it, and how its space may change."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import PRUNE, SPACE, plan

from sentattn.errors import RunError, SettingError
from sentattn.sweep import storage
from sentattn.sweep.objective import Objective
from sentattn.sweep.plan import Budget, Plan
from sentattn.sweep.pruners import default_pruner
from sentattn.sweep.records import Record, best, read
from sentattn.sweep.study import Study


def run(one: Plan, folder: Path, most: int = 1000) -> list[int]:
    """Runs trials whose objective is their number of hops over 100; returns their numbers."""
    numbers = []
    with Study.open(one, folder) as study:
        while len(numbers) < most and (asked := study.ask()):
            study.tell(asked.number, [float(str(asked.values.get("model.attention.hops", 4))) / 100])
            numbers.append(asked.number)
    return numbers


def states(folder: Path) -> Counter[str]:
    return Counter(record.state for record in read(folder))


def test_the_budget_is_met_exactly_and_another_start_does_nothing(tmp_path: Path) -> None:
    assert run(plan(), tmp_path) == list(range(10))
    assert run(plan(), tmp_path) == []
    assert run(plan(budget=Budget(12, None)), tmp_path) == [10, 11]
    assert states(tmp_path) == {"complete": 12}


def test_no_more_is_asked_than_the_budget_may_need(tmp_path: Path) -> None:
    with Study.open(plan(budget=Budget(3, None)), tmp_path) as study:
        asked = [study.ask() for _ in range(3)]
        assert study.ask() is None
        assert not study.done()
        assert asked[0]
        study.tell(asked[0].number, state="failed")
        assert study.ask()
        assert study.ask() is None


def test_values_and_arguments_of_what_is_asked(tmp_path: Path) -> None:
    with Study.open(plan(), tmp_path) as study:
        asked = study.ask()
    assert asked
    assert asked.arguments[0] == "model=structured"
    assert f"model.attention.hops={asked.values['model.attention.hops']}" in asked.arguments
    assert ("model.pooling.p" in asked.values) == (asked.values["model/pooling"] == "prune")


def test_a_continued_study_draws_on_instead_of_anew(tmp_path: Path) -> None:
    for part in range(3):
        run(plan(budget=Budget(4 * part + 4, None)), tmp_path)
    drawn = [tuple(record.values.items()) for record in read(tmp_path)]
    assert len(set(drawn)) == 12


@pytest.mark.parametrize("name", ["qmc", "grid", "brute_force", "nsgaii", "tpe"])
def test_samplers_go_on_where_they_were(tmp_path: Path, name: str) -> None:
    space = {"model.attention.hops": "choice(1,2,3)", "model/pooling": "choice(flatten,mean)"}
    if name not in ("grid", "brute_force"):
        space = {"optimizer.lr": "interval(0.001,1)", "loss.label_smoothing": "interval(0,1)"}
    whole, parts = plan(space, sampler={"name": name}, budget=Budget(6, None)), tmp_path / "parts"
    for count in (1, 2, 4, 6):
        run(replace(whole, budget=Budget(count, None)), parts)
    found = [tuple(record.values.items()) for record in read(parts)]
    assert len(set(found)) == 6
    if name == "qmc":
        run(whole, tmp_path / "whole")
        rest = [tuple(record.values.items()) for record in read(tmp_path / "whole")]
        assert found[1:] == rest[1:]  # the first is drawn before the sequence


@pytest.mark.parametrize("name", ["grid", "brute_force"])
def test_every_point_once_and_then_no_more(tmp_path: Path, name: str) -> None:
    space = {"model.attention.hops": "range(1,4)", "model/pooling": "choice(flatten,mean)"}
    one = plan(space, sampler={"name": name}, budget=Budget(100, None), retries=1)
    with Study.open(one, tmp_path) as study:
        first = study.ask()
        assert first
        study.tell(first.number, state="failed", again=True)
        while asked := study.ask():
            study.tell(asked.number, [0.5])
        assert "all 6 points" in study.ended()
        assert study.done()
    found = [tuple(r.values.values()) for r in read(tmp_path) if r.state == "complete"]
    assert sorted(map(str, found)) == sorted(str((hops, way)) for hops in (1, 2, 3) for way in ("flatten", "mean"))


def test_brute_force_knows_conditions(tmp_path: Path) -> None:
    space = {"model/pooling": "choice(flatten,prune)", "model.pooling.p": ("range(8,11)", PRUNE)}
    run(plan(space, sampler={"name": "brute_force"}, budget=Budget(100, None)), tmp_path)
    assert len(read(tmp_path)) == 1 + 3


def test_a_dead_trial_is_tried_again_with_its_values_and_uses_no_budget(tmp_path: Path) -> None:
    one = plan(budget=Budget(2, None), retries=2, failures=9)
    with Study.open(one, tmp_path) as study:
        tries = []
        for again in (True, True, False):
            asked = study.ask()
            assert asked
            tries.append(asked)
            assert study.tell(asked.number, state="failed", note="killed", again=True) is again
        assert [one.values for one in tries] == [tries[0].values] * 3
        other = study.ask()
        assert other
        assert other.values != tries[0].values
    first, second, third, _ = read(tmp_path)
    assert [(r.again_of, r.attempt, r.note) for r in (first, second, third)] == [
        (None, 0, "killed"),
        (0, 1, "killed"),
        (1, 2, "killed"),
    ]


def test_what_waits_to_be_tried_again_waits_on_disk(tmp_path: Path) -> None:
    with Study.open(plan(), tmp_path) as study:
        asked = study.ask()
        assert asked
        study.tell(asked.number, state="failed", again=True)
    for _ in range(2):
        with Study.open(plan(), tmp_path) as study:
            assert study.waiting() == 1
    with Study.open(plan(), tmp_path) as study:
        again = study.ask()
        assert again
        assert (again.values, study.waiting()) == (asked.values, 0)


def test_failures_in_a_row_end_it_and_a_new_start_begins_counting_anew(tmp_path: Path) -> None:
    one = plan(failures=2)
    for _ in range(2):
        with Study.open(one, tmp_path) as study:
            for _ in range(2):
                asked = study.ask()
                assert asked
                study.tell(asked.number, state="failed")
            assert study.ended() == "2 trials in a row have failed"
            assert study.ask() is None


def test_what_is_given_up_is_run_again_and_counts_as_no_retry(tmp_path: Path) -> None:
    one = plan(retries=0)
    with Study.open(one, tmp_path) as study:
        asked = study.ask()
        assert asked
        study.give_up(asked.number)
        assert study.done() is False
    with Study.open(one, tmp_path) as study:
        again = study.ask()
        assert again
        assert again.values == asked.values
        assert study.tell(again.number, state="failed", note="killed", again=True) is False
    assert states(tmp_path) == {"interrupted": 1, "failed": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_trial_without_a_figure_has_failed(tmp_path: Path, value: float | None) -> None:
    with Study.open(plan(), tmp_path) as study:
        asked = study.ask()
        assert asked
        study.tell(asked.number, None if value is None else [value])
        assert (study.finished(), study.best()) == (0, [])
    assert states(tmp_path) == {"failed": 1}


def test_the_default_spares_all_but_the_lowest_quarter(tmp_path: Path) -> None:
    """Of 0.2, 0.4, 0.6 and 0.8 the 25th percentile is 0.35; with two complete trials nothing is compared yet."""
    one = plan(pruner={"name": default_pruner(1, 1)}, budget=Budget(9, None))
    with Study.open(one, tmp_path) as study:

        def ends_early(value: float) -> bool:
            asked = study.ask()
            assert asked
            ended = study.report(asked.number, 1, value)
            study.tell(asked.number, *([None, "pruned"] if ended else [[value]]))
            return ended

        assert [ends_early(value) for value in (0.8, 0.6, 0.2, 0.4)] == [False] * 4
        assert [ends_early(value) for value in (0.34, 0.36)] == [True, False]


def test_the_median_prunes(tmp_path: Path) -> None:
    one = plan(pruner={"name": "median", "n_startup_trials": 2}, budget=Budget(3, None))
    with Study.open(one, tmp_path) as study:
        for value in (0.8, 0.9):
            asked = study.ask()
            assert asked
            assert study.report(asked.number, 1, value) is False
            study.tell(asked.number, [value])
    with Study.open(one, tmp_path) as study:
        asked = study.ask()
        assert asked
        assert study.report(asked.number, 1, 0.1) is True
        study.tell(asked.number, state="pruned")
        assert study.ended() == "3 trials are finished"
    last = read(tmp_path)[-1]
    assert (last.state, last.steps, last.objectives) == ("pruned", {1: 0.1}, None)


def test_hours_are_counted_over_all_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    one = plan(budget=Budget(None, 1.0))
    for _ in range(2):
        with Study.open(one, tmp_path) as study:
            assert study.ask()
            now[0] += 1799.0
            assert study.ended() == ""
    with Study.open(one, tmp_path) as study:
        now[0] += 3.0
        assert study.ended() == "the budget of 1 hours is used up"


def test_best_and_front() -> None:
    def record(number: int, *objectives: float) -> Record:
        return Record(number, "complete", {}, objectives, {}, "", None, 0, None, None)

    single = [record(0, 0.5), record(1, 0.9), record(2, 0.9)]
    assert [one.number for one in best(single, ["max"])] == [1]
    assert [one.number for one in best(single, ["min"])] == [0]
    several = [record(0, 0.9, 5.0), record(1, 0.8, 2.0), record(2, 0.8, 3.0), record(3, 0.1, 1.0)]
    assert [one.number for one in best(several, ["max", "min"])] == [0, 1, 3]


def test_several_objectives(tmp_path: Path) -> None:
    two = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    with Study.open(plan(objectives=two, budget=Budget(2, None)), tmp_path) as study:
        for values in ([0.9, 10.0], [0.8, 5.0]):
            asked = study.ask()
            assert asked
            assert study.report(asked.number, 1, 0.1) is False
            study.tell(asked.number, values)
        assert [record.number for record in study.best()] == [0, 1]


def test_one_owner(tmp_path: Path) -> None:
    with Study.open(plan(), tmp_path):
        assert storage.owner(tmp_path) == os.getpid()
        with pytest.raises(RunError, match=f"process {os.getpid()}"):
            Study.open(plan(), tmp_path)
        assert states(tmp_path) == {}
    assert storage.owner(tmp_path) is None


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plans import plan
from sentattn.sweep.study import Study
study = Study.open(plan(), Path(sys.argv[1]))
first, second, third = (study.ask() for _ in range(3))
study.tell(second.number, [0.5])
study.report(third.number, 1, 0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_owner_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    broken = {r.number: r.values for r in read(tmp_path) if r.state == "running"}
    assert set(broken) == {0, 2}
    with Study.open(plan(), tmp_path) as study:
        assert (study.finished(), study.waiting()) == (1, 2)
        again = [study.ask(), study.ask()]
        assert [one.values for one in again if one] == [broken[0], broken[2]]
    assert run(plan(), tmp_path)
    assert states(tmp_path)["complete"] == 10


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with Study.open(plan(), tmp_path) as study:
        asked = study.ask()
        assert asked
        blocker = sqlite3.connect(tmp_path / storage.DATABASE)
        blocker.execute("ALTER TABLE trial_values RENAME TO gone")
        blocker.commit()
        with pytest.raises(RunError, match="the same command goes on"):
            study.tell(asked.number, [0.5])
        blocker.execute("ALTER TABLE gone RENAME TO trial_values")
        blocker.commit()
    with Study.open(plan(), tmp_path) as study:
        assert study.waiting() == 1


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_optuna_alone_would_not_look_beyond_the_old_range() -> None:
    """Why a changed space is carried over: within one study the sampler keeps to the range it saw first."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=0, multivariate=True, group=True, n_startup_trials=1)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    for high in [10] * 10 + [100] * 30:
        trial = study.ask()
        study.tell(trial, trial.suggest_int("x", 1, high))
    assert max(trial.params["x"] for trial in study.trials) <= 10


def test_a_widened_space_is_looked_at_as_a_whole(tmp_path: Path) -> None:
    tpe = {"name": "tpe", "n_startup_trials": 1}
    run(plan({"model.attention.hops": "range(1,11)"}, sampler=tpe), tmp_path)
    before = read(tmp_path)
    run(plan({"model.attention.hops": "range(1,101)"}, sampler=tpe, budget=Budget(40, None)), tmp_path)
    after = read(tmp_path)
    assert [(r.number, r.values, r.objectives) for r in after[:10]] == [
        (r.number, r.values, r.objectives) for r in before
    ]
    assert max(int(str(r.values["model.attention.hops"])) for r in after) > 10


def test_choices_may_change(tmp_path: Path) -> None:
    run(plan({"model/pooling": "choice(flatten,mean)"}), tmp_path)
    kept = [r.values for r in read(tmp_path)]
    run(plan({"model/pooling": "choice(mean,max,flatten)"}, budget=Budget(20, None)), tmp_path)
    assert [r.values for r in read(tmp_path)][:10] == kept
    assert states(tmp_path) == {"complete": 20}


def test_a_zero_stays_a_zero_where_the_range_is_widened(tmp_path: Path) -> None:
    run(plan(), tmp_path)
    kept = [r.values for r in read(tmp_path)]
    assert any(values["loss.penalty"] == 0 for values in kept)
    run(plan({**SPACE, "loss.penalty": "tag(log,zero,interval(1e-6,10))"}), tmp_path)
    found = [r.values["loss.penalty"] for r in read(tmp_path)]
    assert found == pytest.approx([values["loss.penalty"] for values in kept], rel=1e-12)


def test_trials_outside_of_a_narrowed_space_come_back_with_it(tmp_path: Path) -> None:
    run(plan(), tmp_path)
    whole = read(tmp_path)
    narrow = plan({**SPACE, "model/pooling": "choice(flatten,mean)"})
    outside = [r.number for r in whole if r.values["model/pooling"] == "prune"]
    assert outside
    with Study.open(narrow, tmp_path) as study:
        assert study.finished() == 10 - len(outside)
        assert all(r.values["model/pooling"] != "prune" for r in study.best())
    assert [r.number for r in read(tmp_path) if r.state == "outside"] == outside
    with Study.open(plan(), tmp_path) as study:
        assert study.finished() == 10
    assert read(tmp_path) == whole


def test_a_setting_that_becomes_a_range_had_its_fixed_value(tmp_path: Path) -> None:
    few = {"model.attention.hops": "range(1,31)"}
    run(plan(few, overrides=("model=structured", "loss.penalty=0.5")), tmp_path)
    more = plan({**few, "loss.penalty": "interval(0,1)", "model/pooling": "choice(flatten,mean)"})
    run(more, tmp_path)
    assert states(tmp_path) == {"complete": 10}
    assert {(r.values["loss.penalty"], r.values["model/pooling"]) for r in read(tmp_path)} == {(0.5, "flatten")}
    back = plan({**few, "model/pooling": "choice(flatten,mean)"}, overrides=("model=structured", "loss.penalty=0.5"))
    with Study.open(back, tmp_path) as study:
        assert study.finished() == 10
    elsewhere = replace(back, overrides=("model=structured", "loss.penalty=0.4"))
    with pytest.raises(SettingError, match=r"loss\.penalty=0\.5 where now stands loss\.penalty=0\.4"):
        Study.open(elsewhere, tmp_path)


def test_a_killed_change_of_the_space_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(plan(), tmp_path)
    before = read(tmp_path)
    with monkeypatch.context() as patched:
        calls = iter(range(5))
        real = optuna.storages.RDBStorage.create_new_trial

        def dies(*args: object, **others: object) -> int:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return real(*args, **others)  # type: ignore[arg-type]

        patched.setattr(optuna.storages.RDBStorage, "create_new_trial", dies)
        with pytest.raises(KeyboardInterrupt):
            Study.open(plan({**SPACE, "model.attention.hops": "range(1,61)"}), tmp_path)
    assert read(tmp_path) == before
    with Study.open(plan(), tmp_path) as study:
        assert study.finished() == 10
    assert len(storage.open_storage(tmp_path).get_all_studies()) == 1


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"objectives": (Objective("val/f1_macro", "max"),)}, "objectives="),
        ({"repeats": 3}, "repeats=1 and not 3"),
        ({"seed": 3}, "seed=0 and not 3"),
        ({"overrides": ("model=structured", "trainer.max_epochs=2")}, "nothing where now stands trainer.max_epochs=2"),
    ],
)
def test_what_would_make_trials_incomparable_is_refused(tmp_path: Path, others: dict[str, object], said: str) -> None:
    run(plan(), tmp_path, most=1)
    with pytest.raises(SettingError, match="type study=NAME for another") as caught:
        Study.open(plan(**others), tmp_path)
    assert said in str(caught.value)
    run(plan(overrides=("model=structured", "logger=none", "threads=2")), tmp_path)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["ask", "complete", "pruned", "fail", "retry", "break", "widen"]), max_size=25))
def test_whatever_happens_no_trial_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder, high = tmp_path_factory.mktemp("study"), 31
    one = plan(budget=Budget(6, None), failures=1000, retries=1)
    study, running, told = Study.open(one, folder), list[int](), dict[int, str]()
    for step in [*steps, "break", *["ask", "complete"] * 8]:
        if step == "ask" and (asked := study.ask()):
            assert asked.number not in told
            running.append(asked.number)
        elif step in ("break", "widen"):
            study.close()
            high += step == "widen"
            running.clear()
            one = replace(one, space=plan({**SPACE, "model.attention.hops": f"range(1,{high})"}).space)
            study = Study.open(one, folder)
        elif running and step not in ("ask", "break", "widen"):
            number = running.pop(0)
            state = {"complete": "complete", "pruned": "pruned"}.get(step, "failed")
            study.tell(number, [0.5] if step == "complete" else None, state, again=step == "retry")  # type: ignore[arg-type]
            told[number] = state
    study.close()
    found = {record.number: record for record in read(folder)}
    assert all(found[number].state == state for number, state in told.items())
    assert sum(record.state in ("complete", "pruned") for record in found.values()) == 6
    successors = Counter(record.again_of for record in found.values() if record.again_of is not None)
    assert max(successors.values(), default=1) == 1
    for record in found.values():
        if record.again_of is not None:
            assert record.values == pytest.approx(found[record.again_of].values)
