"""What a study asks, and what becomes of what it is told."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import SPACE, plan
from studies import run, states

from sentattn.errors import RunError
from sentattn.sweep import storage
from sentattn.sweep.config import Budget
from sentattn.sweep.objective import Objective
from sentattn.sweep.records import read
from sentattn.sweep.study import SweepStudy


def test_the_budget_is_met_exactly_and_another_start_does_nothing(tmp_path: Path) -> None:
    assert run(plan(), tmp_path) == list(range(10))
    assert run(plan(), tmp_path) == []
    assert run(plan(budget=Budget(12, None)), tmp_path) == [10, 11]
    assert states(tmp_path) == {"complete": 12}


def test_no_more_is_asked_than_the_budget_may_need(tmp_path: Path) -> None:
    with SweepStudy.open(plan(budget=Budget(3, None)), tmp_path) as study:
        asked = [study.ask() for _ in range(3)]
        assert study.ask() is None
        assert not study.done()
        assert asked[0]
        study.tell(asked[0].number, state="failed")
        assert study.ask()
        assert study.ask() is None


def test_values_and_arguments_of_what_is_asked(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = study.ask()
    assert asked
    assert asked.arguments[0] == "model=structured"
    assert f"model.attention.hops={asked.values['model.attention.hops']}" in asked.arguments
    assert ("model.pooling.p" in asked.values) == (asked.values["model/pooling"] == "prune")


def test_a_dead_trial_is_tried_again_with_its_values_and_uses_no_budget(tmp_path: Path) -> None:
    one = plan(budget=Budget(2, None), retries=2, failures=9)
    with SweepStudy.open(one, tmp_path) as study:
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
    assert [(r.retry_of, r.attempt, r.error) for r in (first, second, third)] == [
        (None, 0, "killed"),
        (0, 1, "killed"),
        (1, 2, "killed"),
    ]


def test_what_waits_to_be_tried_again_waits_on_disk(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = study.ask()
        assert asked
        study.tell(asked.number, state="failed", again=True)
    for _ in range(2):
        with SweepStudy.open(plan(), tmp_path) as study:
            assert study.waiting() == 1
    with SweepStudy.open(plan(), tmp_path) as study:
        again = study.ask()
        assert again
        assert (again.values, study.waiting()) == (asked.values, 0)


def test_failures_in_a_row_end_it_and_a_new_start_begins_counting_anew(tmp_path: Path) -> None:
    one = plan(failures=2)
    for _ in range(2):
        with SweepStudy.open(one, tmp_path) as study:
            for _ in range(2):
                asked = study.ask()
                assert asked
                study.tell(asked.number, state="failed")
            assert study.ended() == "2 trials in a row have failed"
            assert study.ask() is None


def test_what_is_given_up_is_run_again_and_counts_as_no_retry(tmp_path: Path) -> None:
    one = plan(retries=0)
    with SweepStudy.open(one, tmp_path) as study:
        asked = study.ask()
        assert asked
        study.give_up(asked.number)
        assert study.done() is False
    with SweepStudy.open(one, tmp_path) as study:
        again = study.ask()
        assert again
        assert again.values == asked.values
        assert study.tell(again.number, state="failed", note="killed", again=True) is False
    assert states(tmp_path) == {"interrupted": 1, "failed": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_trial_without_a_figure_has_failed(tmp_path: Path, value: float | None) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = study.ask()
        assert asked
        study.tell(asked.number, None if value is None else [value])
        assert (study.finished(), study.best()) == (0, [])
    assert states(tmp_path) == {"failed": 1}


def test_hours_are_counted_over_all_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    one = plan(budget=Budget(None, 1.0))
    for _ in range(2):
        with SweepStudy.open(one, tmp_path) as study:
            assert study.ask()
            now[0] += 1799.0
            assert study.ended() == ""
    with SweepStudy.open(one, tmp_path) as study:
        now[0] += 3.0
        assert study.ended() == "the budget of 1 hours is used up"


def test_several_objectives(tmp_path: Path) -> None:
    two = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    with SweepStudy.open(plan(objectives=two, budget=Budget(2, None)), tmp_path) as study:
        for values in ([0.9, 10.0], [0.8, 5.0]):
            asked = study.ask()
            assert asked
            assert study.report(asked.number, 1, 0.1) is False
            study.tell(asked.number, values)
        assert [record.number for record in study.best()] == [0, 1]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = study.ask()
        assert asked
        blocker = sqlite3.connect(tmp_path / storage.DATABASE)
        blocker.execute("ALTER TABLE trial_values RENAME TO gone")
        blocker.commit()
        with pytest.raises(RunError, match="the same command goes on"):
            study.tell(asked.number, [0.5])
        blocker.execute("ALTER TABLE gone RENAME TO trial_values")
        blocker.commit()
    with SweepStudy.open(plan(), tmp_path) as study:
        assert study.waiting() == 1


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["ask", "complete", "pruned", "fail", "retry", "break", "widen"]), max_size=25))
def test_whatever_happens_no_trial_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder, high = tmp_path_factory.mktemp("study"), 31
    one = plan(budget=Budget(6, None), failures=1000, retries=1)
    study, running, told = SweepStudy.open(one, folder), list[int](), dict[int, str]()
    for step in [*steps, "break", *["ask", "complete"] * 8]:
        if step == "ask" and (asked := study.ask()):
            assert asked.number not in told
            running.append(asked.number)
        elif step in ("break", "widen"):
            study.close()
            high += step == "widen"
            running.clear()
            one = replace(one, space=plan({**SPACE, "model.attention.hops": f"range(1,{high})"}).space)
            study = SweepStudy.open(one, folder)
        elif running and step not in ("ask", "break", "widen"):
            number = running.pop(0)
            state = {"complete": "complete", "pruned": "pruned"}.get(step, "failed")
            study.tell(number, [0.5] if step == "complete" else None, state, again=step == "retry")  # type: ignore[arg-type]
            told[number] = state
    study.close()
    found = {record.number: record for record in read(folder)}
    assert all(found[number].state == state for number, state in told.items())
    assert sum(record.state in ("complete", "pruned") for record in found.values()) == 6
    successors = Counter(record.retry_of for record in found.values() if record.retry_of is not None)
    assert max(successors.values(), default=1) == 1
    for record in found.values():
        if record.retry_of is not None:
            assert record.values == pytest.approx(found[record.retry_of].values)
