"""A study is opened after any end of its scheduler, with the settings that it began with, or with trials of another."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from plans import HOPS, PRUNE, SPACE, plan
from refusals import assert_refused, fault_of
from studies import ask, read, refused, report, run, states, tell, train

from sentattn.config.request import Request, read_request
from sentattn.errors import Fault, RunError, TrainingError
from sentattn.sweep.plan import Objective
from sentattn.sweep.study import SweepStudy


def begin(sweep_plan: Any, folder: Path) -> None:
    """Opens a study without running a trial."""
    with SweepStudy.open(sweep_plan, folder, train):
        pass


def said(sweep_plan: Any, folder: Path) -> str:
    """The message with which a plan is refused that is not that of the study."""
    fault = fault_of(lambda: begin(sweep_plan, folder))
    assert (fault.key, fault.kind) == ("study", "conflict")
    return fault.message


def test_a_scheduler_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    if not (pid := os.fork()):
        study = SweepStudy.open(plan(), tmp_path, train).__enter__()
        _, second, third = (ask(study) for _ in range(3))
        tell(study, second, 0.5)
        report(third).step(1, 0.25)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    broken = {record.number: record.values for record in read(tmp_path) if record.state == "running"}
    assert {*broken} == {0, 2}
    with SweepStudy.open(plan(), tmp_path, train) as study:
        assert study.finished() == 1
        assert [ask(study).values, ask(study).values] == [broken[0], broken[2]]
    assert [record.steps for record in read(tmp_path)][:3] == [{}, {}, {1: 0.25}]
    assert run(plan(), tmp_path)
    assert states(tmp_path)["complete"] == 10


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of one trial."""
    folder = tmp_path_factory.mktemp("study")
    run(plan(HOPS), folder, most=1)
    return folder


MANY = ("optimizer.lr", "optimizer.weight_decay", "loss.label_smoothing", "loss.penalty", "model.head.dropout")


@pytest.mark.parametrize(
    ("others", "difference"),
    [
        ({"objectives": (Objective("val/f1_macro", "max"),)}, "objectives="),
        ({"repeats": 3}, "repeats=1, not 3"),
        ({"seed": 3}, "seed=0, not 3"),
        ({"overrides": ("model=structured", "optimizer.lr=0.5")}, "optimizer.lr="),
        ({"overrides": ("model=structured", "data.limit=100")}, "data.limit="),
        ({"overrides": ("model=structured", *(f"{key}=0.625" for key in MANY)), "seed": 3, "repeats": 3}, "2 more"),
    ],
)
def test_what_would_make_trials_incomparable_is_refused(begun: Path, others: dict[str, Any], difference: str) -> None:
    assert difference in said(plan(HOPS, **others), begun)


def test_a_setting_that_acts_at_other_points_than_the_first_is_compared(tmp_path: Path) -> None:
    space = {"optimizer.weight_decay": "choice(0,0.1)"}
    typed = plan(space, overrides=("model=structured", "weight_decay_on=attention_and_head"))
    run(plan(space), tmp_path, most=1)
    assert "weight_decay_on=" in said(typed, tmp_path)
    run(plan(space, overrides=("model=structured", "weight_decay_on=all")), tmp_path, most=1)
    file = tmp_path / "study.journal"  # of a version that did not keep such settings
    lines = [line for line in file.read_text().splitlines(keepends=True) if "all_settings" not in line]
    file.write_text("".join(lines))
    run(typed, tmp_path, most=1)
    assert states(tmp_path) == {"complete": 3}


def test_what_is_typed_at_its_default_or_has_no_effect_is_the_same(tmp_path: Path) -> None:
    run(plan(HOPS), tmp_path, most=1)
    typed = ("data=demo", "optimizer.weight_decay=0.0", "logger=none", "threads=2")
    run(plan(HOPS, overrides=("model=structured", *typed)), tmp_path, most=1)
    assert states(tmp_path) == {"complete": 2}


def test_a_file_of_settings_that_was_edited_is_refused_with_the_setting(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"

    def write(*overrides: str) -> None:
        base.write_text(yaml.safe_dump({"overrides": [*overrides]}))

    from_base = plan(HOPS, overrides=(f"from={base}",))
    write("model=structured")
    run(from_base, tmp_path / "mine", most=1)
    write("model=structured", "trainer.max_epochs=3")
    assert "trainer.max_epochs=" in said(from_base, tmp_path / "mine")
    write("model=structured", "logger=none")
    run(from_base, tmp_path / "mine", most=1)
    assert states(tmp_path / "mine") == {"complete": 2}


def test_trials_of_another_study_are_of_the_same_rows(tmp_path: Path) -> None:
    with SweepStudy.open(plan(HOPS), tmp_path / "old", train) as study:
        study.require_data("0123")
        tell(study, ask(study), 0.5)
    with SweepStudy.open(plan(HOPS, warm_start="old"), tmp_path / "new", train) as study:
        assert_refused(lambda: study.require_data("4567"), "study", "conflict", "0123", "4567")
        study.require_data("0123")


@pytest.fixture(scope="module")
def begun_over_several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `begun`, of a study over several settings."""
    folder = tmp_path_factory.mktemp("study")
    run(plan(), folder, most=1)
    return folder


@pytest.mark.parametrize(
    ("space", "key"),
    [
        ({**SPACE, "model.attention.hops": "range(1,61)"}, "model.attention.hops=range(1,31), not range(1,61)"),
        ({**SPACE, "model/pooling": "choice(flatten,prune)"}, "model/pooling="),
        ({key: SPACE[key] for key in SPACE if key != "loss.penalty"}, "loss.penalty="),
        ({**SPACE, "optimizer.lr": "interval(0.001,0.01)"}, "optimizer.lr=None, not interval(0.001,0.01)"),
        (
            {**SPACE, "model.pooling.p": ("range(8,129)", {**PRUNE, "loss.penalty": (0,)})},
            "model.pooling.p=range(8,129) ",
        ),
    ],
)
def test_a_changed_space_is_refused(begun_over_several: Path, space: Any, key: str) -> None:
    assert key in said(plan(space), begun_over_several)


def test_a_study_is_resumed_after_a_plan_was_refused(begun_over_several: Path) -> None:
    before = len(read(begun_over_several))
    assert said(plan(HOPS), begun_over_several)
    run(plan(), begun_over_several, most=1)
    assert len(read(begun_over_several)) == before + 1


def outcomes(folder: Path) -> list[tuple[Any, ...]]:
    return [(record.values, record.objectives, record.state) for record in read(folder)]


def test_a_warm_start_adds_the_trials_that_fit(tmp_path: Path) -> None:
    """Zero stays zero, choices may change, and a sampler that groups settings looks beyond the old range."""
    tpe = {"name": "tpe", "n_startup_trials": 1}
    run(plan(), tmp_path / "old")
    wide = {**SPACE, "model.attention.hops": "range(1,101)", "loss.penalty": "tag(log,zero,interval(1e-6,10))"}
    warm = plan({**wide, "model/pooling": "choice(mean,max,flatten)"}, warm_start="old", sampler=tpe)
    fitting = [record for record in outcomes(tmp_path / "old") if record[0]["model/pooling"] != "prune"]
    assert 1 < len(fitting) < 10
    assert len(run(replace(warm, trials=12), tmp_path / "new")) == 12
    added = read(tmp_path / "new")[: len(fitting)]
    for record, (values, objectives, state) in zip(added, fitting, strict=True):
        penalties = record.values["loss.penalty"], values["loss.penalty"]
        assert penalties[0] == pytest.approx(penalties[1], rel=1e-12)
        assert {**record.values, "loss.penalty": 0} == {**values, "loss.penalty": 0}
        assert (record.objectives, record.state) == (objectives, state)
    assert any(record.values["loss.penalty"] == 0 for record in added)
    assert states(tmp_path / "new") == {"complete": 12 + len(fitting)}, "those of the old study are no budget"
    assert max(int(str(record.values["model.attention.hops"])) for record in read(tmp_path / "new")) > 30
    run(replace(warm, trials=13), tmp_path / "new")
    assert len(read(tmp_path / "new")) == 13 + len(fitting), "trials are added once"


def test_a_setting_that_becomes_a_range_had_its_fixed_value(tmp_path: Path) -> None:
    run(plan(HOPS, overrides=("model=structured", "loss.penalty=0.5"), trials=2), tmp_path / "old")
    wide = {**HOPS, "loss.penalty": "interval(0,1)", "model/pooling": "choice(flatten,mean)"}
    begin(plan(wide, warm_start="old", trials=2), tmp_path / "new")
    assert states(tmp_path / "new") == {"complete": 2}
    assert {(r.values["loss.penalty"], r.values["model/pooling"]) for r in read(tmp_path / "new")} == {(0.5, "flatten")}
    back = plan(HOPS, overrides=("model=structured", "loss.penalty=0.5", "model/pooling=flatten"), warm_start="new")
    begin(back, tmp_path / "back")
    assert states(tmp_path / "back") == {"complete": 2}
    elsewhere = replace(back, overrides=("model=structured", "loss.penalty=0.4"))
    assert refused(elsewhere, tmp_path / "elsewhere") == [("warm_start", "conflict")]


def test_a_warm_start_of_a_study_whose_file_has_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "base.yaml"
    file.write_text("overrides: [model=structured]")
    typed = (f"from={file}",)
    run(plan(HOPS, overrides=typed), tmp_path / "old", most=1)
    file.write_text("overrides: [model=structured, optimizer.lr=0.5]")
    assert refused(plan(HOPS, overrides=typed, warm_start="old"), tmp_path / "new") == [("warm_start", "conflict")]


def test_a_warm_start_of_what_cannot_be_compared_or_is_not_there(tmp_path: Path) -> None:
    run(plan(HOPS), tmp_path / "old", most=2)
    other = plan(HOPS, objectives=(Objective("val/f1_macro", "max"),), warm_start="old")
    assert refused(other, tmp_path / "new") == [("warm_start", "conflict")]
    apart = plan({"model.attention.hops": "range(40,50)"}, warm_start="old")
    assert refused(apart, tmp_path / "new") == [("warm_start", "conflict")]
    assert refused(plan(HOPS, warm_start="old"), tmp_path / "old") == [("study", "conflict")]
    assert refused(plan(HOPS, warm_start="absent"), tmp_path / "new") == [("study", "not_found")]
    run(plan(HOPS), tmp_path / "new", most=1)


def test_pruned_and_diverged_trials_of_a_warm_start(tmp_path: Path) -> None:
    with SweepStudy.open(plan(HOPS), tmp_path / "old", train) as study:
        tell(study, ask(study), 0.5)
        pruned, diverged = ask(study), ask(study)
        report(pruned).step(1, 0.25)
        tell(study, pruned, state="pruned")
        report(diverged).fail(TrainingError(Fault("", "diverged", "NaN")))
        tell(study, ask(study), state="failed")
    assert run(plan(HOPS, warm_start="old", trials=1), tmp_path / "new") == [3]
    added = read(tmp_path / "new")
    assert [record.state for record in added] == ["complete", "pruned", "pruned", "complete"]
    assert (added[1].steps, added[2].error) == ({1: 0.25}, "NaN")


def test_a_folder_of_classes_that_only_the_study_names_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    old = plan(HOPS, overrides=(f"--config-dir={own}", "model=structured", "loss.penalty=0.25"), trials=1)
    run(old, tmp_path / "old")
    composed: list[str] = []

    def record_request(arguments: Sequence[str]) -> Request:
        composed.extend(arguments)
        return read_request(arguments)

    monkeypatch.setattr("sentattn.sweep.resume.read_request", record_request)
    begin(plan({**HOPS, "loss.penalty": "interval(0,1)"}, warm_start="old", trials=1), tmp_path / "new")
    assert "loss.penalty=0.25" in composed
    assert not [word for word in composed if word.startswith("--config-dir")]
    assert {record.values["loss.penalty"] for record in read(tmp_path / "new")} == {0.25}


def test_a_study_whose_creation_was_killed_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(plan(HOPS, trials=4), tmp_path / "old")
    warm = plan(HOPS, warm_start="old", trials=4)
    with monkeypatch.context() as patched:
        calls = iter(range(2))
        real = optuna.Study.add_trial

        def dies(*args: Any, **others: Any) -> None:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            real(*args, **others)

        patched.setattr(optuna.Study, "add_trial", dies)
        with pytest.raises(KeyboardInterrupt), SweepStudy.open(warm, tmp_path / "new", train):
            pass
    with pytest.raises(RunError):
        read(tmp_path / "new")
    begin(warm, tmp_path / "new")
    assert outcomes(tmp_path / "new") == outcomes(tmp_path / "old")


def test_a_folder_may_be_renamed(tmp_path: Path) -> None:
    run(plan(HOPS, trials=1), tmp_path / "mine")
    (tmp_path / "mine").rename(tmp_path / "renamed")
    assert run(plan(HOPS, study="renamed", trials=3), tmp_path / "renamed") == [1, 2]
