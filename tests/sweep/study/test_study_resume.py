"""A study is opened by one scheduler at a time, after any end of the last one, or starts with trials of another."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from plans import SPACE, plan
from studies import ask, refused, run, states, tell

from sentattn.config.request import Request, read_request
from sentattn.errors import RunError, SettingError
from sentattn.sweep.execution.interfaces import TrialOutcome
from sentattn.sweep.spec.plan import Objective
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy

KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plans import plan
from sentattn.sweep.execution.interfaces import TrialOutcome
from sentattn.sweep.study.study import SweepStudy
opened = SweepStudy.open(plan(), Path(sys.argv[1]))
study = opened.__enter__()
first, second, third = (study.ask() for _ in range(3))
study.tell(second.number, TrialOutcome("complete", [0.5]))
study.report(third.number, 1, 0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_owner_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(Path(__file__).parents[1])]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    broken = {r.number: r.values for r in read(tmp_path) if r.state == "running"}
    assert set(broken) == {0, 2}
    with SweepStudy.open(plan(), tmp_path) as study:
        assert (study.finished(), study.waiting()) == (1, 2)
        again = [study.ask(), study.ask()]
        assert [record.values for record in again if record] == [broken[0], broken[2]]
    assert run(plan(), tmp_path)
    assert states(tmp_path)["complete"] == 10


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"objectives": (Objective("val/f1_macro", "max"),)}, "objectives="),
        ({"repeats": 3}, "repeats=1, not 3"),
        ({"seed": 3}, "seed=0, not 3"),
        ({"overrides": ("model=structured", "trainer.max_epochs=2")}, "nothing, not trainer.max_epochs=2"),
    ],
)
def test_what_would_make_trials_incomparable_is_refused(tmp_path: Path, others: dict[str, object], said: str) -> None:
    run(plan(), tmp_path, most=1)
    with pytest.raises(SettingError) as caught, SweepStudy.open(plan(**others), tmp_path):
        pass
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("study", "conflict")]
    assert said in str(caught.value)
    run(plan(overrides=("model=structured", "logger=none", "threads=2")), tmp_path)


def outcomes(folder: Path) -> list[tuple[object, ...]]:
    return [(r.values, r.objectives, r.state) for r in read(folder)]


@pytest.mark.parametrize(
    "space",
    [
        {**SPACE, "model.attention.hops": "range(1,61)"},
        {**SPACE, "model/pooling": "choice(flatten,prune)"},
        {key: SPACE[key] for key in SPACE if key != "loss.penalty"},
        {**SPACE, "optimizer.lr": "interval(0.001,0.01)"},
        {**SPACE, "model.pooling.p": "range(8,129)"},
    ],
)
def test_a_changed_space_is_refused(tmp_path: Path, space: Any) -> None:
    run(plan(), tmp_path, most=1)
    assert refused(plan(space), tmp_path) == [("study", "conflict")]
    run(plan(), tmp_path, most=1)
    assert len(read(tmp_path)) == 2


def test_a_warm_start_adds_the_trials_that_fit(tmp_path: Path) -> None:
    """Zero stays zero, choices may change, and a sampler that groups settings looks beyond the old range."""
    tpe = {"name": "tpe", "n_startup_trials": 1}
    run(plan(), tmp_path / "old")
    wide = {**SPACE, "model.attention.hops": "range(1,101)", "loss.penalty": "tag(log,zero,interval(1e-6,10))"}
    warm = plan({**wide, "model/pooling": "choice(mean,max,flatten)"}, warm_start="old", sampler=tpe)
    fitting = [record for record in outcomes(tmp_path / "old") if record[0]["model/pooling"] != "prune"]  # type: ignore[index]
    assert 1 < len(fitting) < 10
    run(replace(warm, trials=40), tmp_path / "new")
    added = read(tmp_path / "new")[: len(fitting)]
    for record, (values, objectives, state) in zip(added, fitting, strict=True):
        penalties = record.values["loss.penalty"], values["loss.penalty"]  # type: ignore[index]
        assert penalties[0] == pytest.approx(penalties[1], rel=1e-12)
        assert {**record.values, "loss.penalty": 0} == {**values, "loss.penalty": 0}  # type: ignore[dict-item]
        assert (record.objectives, record.state) == (objectives, state)
    assert any(record.values["loss.penalty"] == 0 for record in added)
    assert states(tmp_path / "new") == {"complete": 40}, "those of the old study count toward the budget"
    assert max(int(str(r.values["model.attention.hops"])) for r in read(tmp_path / "new")) > 30
    run(replace(warm, trials=41), tmp_path / "new")
    assert len(read(tmp_path / "new")) == 41, "trials are added once"


def test_a_setting_that_becomes_a_range_had_its_fixed_value(tmp_path: Path) -> None:
    few = {"model.attention.hops": "range(1,31)"}
    run(plan(few, overrides=("model=structured", "loss.penalty=0.5")), tmp_path / "old")
    more = plan({**few, "loss.penalty": "interval(0,1)", "model/pooling": "choice(flatten,mean)"}, warm_start="old")
    run(more, tmp_path / "new")
    assert states(tmp_path / "new") == {"complete": 10}
    assert {(r.values["loss.penalty"], r.values["model/pooling"]) for r in read(tmp_path / "new")} == {(0.5, "flatten")}
    back = plan(few, overrides=("model=structured", "loss.penalty=0.5", "model/pooling=flatten"), warm_start="new")
    with SweepStudy.open(back, tmp_path / "back") as study:
        assert study.finished() == 10
    elsewhere = replace(back, overrides=("model=structured", "loss.penalty=0.4"))
    assert refused(elsewhere, tmp_path / "elsewhere") == [("warm_start", "conflict")]


def test_a_warm_start_of_what_cannot_be_compared_or_is_not_there(tmp_path: Path) -> None:
    run(plan(), tmp_path / "old", most=2)
    other = plan(objectives=(Objective("val/f1_macro", "max"),), warm_start="old")
    assert refused(other, tmp_path / "new") == [("warm_start", "conflict")]
    assert refused(plan({"model.attention.hops": "range(40,50)"}, warm_start="old"), tmp_path / "new") == [
        ("warm_start", "conflict")
    ]
    assert refused(plan(warm_start="old"), tmp_path / "old") == [("study", "conflict")]
    assert refused(plan(warm_start="absent"), tmp_path / "new") == [("study", "not_found")]
    run(plan(), tmp_path / "new", most=1)


def test_pruned_and_diverged_trials_of_a_warm_start(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path / "old") as study:
        for value in (0.5, 0.7):
            tell(study, ask(study).number, value)
        pruned, diverged = ask(study).number, ask(study).number
        study.report(pruned, 1, 0.25)
        tell(study, pruned, state="pruned")
        study.tell(diverged, TrialOutcome("failed", error="NaN", diverged=True))
        tell(study, ask(study).number, state="failed")
    run(plan(warm_start="old", trials=3), tmp_path / "new")
    added = read(tmp_path / "new")
    assert [record.state for record in added] == ["complete", "complete", "pruned", "failed"]
    assert added[2].steps == {1: 0.25}


def test_a_folder_of_classes_that_only_the_study_names_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"model.attention.hops": "range(1,31)"}
    run(plan(few, overrides=("--config-dir=/foreign", "model=structured", "loss.penalty=0.25")), tmp_path / "old")
    composed: list[str] = []

    def record_request(arguments: Sequence[str]) -> Request:
        composed.extend(arguments)
        return read_request(arguments)

    monkeypatch.setattr("sentattn.sweep.study.resume.read_request", record_request)
    run(plan({**few, "loss.penalty": "interval(0,1)"}, warm_start="old"), tmp_path / "new")
    assert "loss.penalty=0.25" in composed
    assert not [word for word in composed if word.startswith("--config-dir")]
    assert {record.values["loss.penalty"] for record in read(tmp_path / "new")} == {0.25}


def test_a_study_whose_creation_was_killed_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(plan(), tmp_path / "old")
    warm = plan(warm_start="old")
    with monkeypatch.context() as patched:
        calls = iter(range(5))
        real = optuna.Study.add_trial

        def dies(*args: object, **others: object) -> None:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            real(*args, **others)  # type: ignore[arg-type]

        patched.setattr(optuna.Study, "add_trial", dies)
        with pytest.raises(KeyboardInterrupt), SweepStudy.open(warm, tmp_path / "new"):
            pass
    with pytest.raises(RunError):
        read(tmp_path / "new")
    with SweepStudy.open(warm, tmp_path / "new") as study:
        assert study.finished() == 10
    assert outcomes(tmp_path / "new") == outcomes(tmp_path / "old")


def test_enqueued_points_are_tried_first_and_once(tmp_path: Path) -> None:
    points = ({"loss.penalty": 0, "model.attention.hops": 7}, {"model/pooling": "prune", "model.pooling.p": 9})
    with SweepStudy.open(plan(enqueue=points), tmp_path) as study:
        first = ask(study)
        assert (first.values["loss.penalty"], first.values["model.attention.hops"]) == (0.0, 7)
        tell(study, first.number, state="failed", retry=True)
    added = {"loss.penalty": 0.5}
    with SweepStudy.open(plan(enqueue=(*points, added)), tmp_path) as study:
        tasks = [study.ask() for _ in range(4)]
        values = [task.values for task in tasks if task]
        assert values[0]["model.pooling.p"] == 9
        assert values[1]["loss.penalty"] == 0.5, "points may be added later"
        assert values[2] == first.values, "it is tried again"
        assert values[3]["loss.penalty"] not in (0.0, 0.5)
        assert study.waiting() == 0
