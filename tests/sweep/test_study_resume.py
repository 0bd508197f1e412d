"""A study is opened after any end of its scheduler, with the settings that it began with, or with trials of another."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from plans import HOPS, PRUNE, SPACE, plan
from refusals import fault_of
from studies import ask, read, report, run, states, tell, train

from sentattn.errors import RunError
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


def test_a_study_whose_creation_was_killed_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        calls = iter(range(2))
        real = optuna.Study.set_user_attr

        def dies(*args: Any, **others: Any) -> None:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            real(*args, **others)

        patched.setattr(optuna.Study, "set_user_attr", dies)
        with pytest.raises(KeyboardInterrupt), SweepStudy.open(plan(HOPS), tmp_path / "new", train):
            pass
    with pytest.raises(RunError):
        read(tmp_path / "new")
    assert run(plan(HOPS, trials=2), tmp_path / "new") == [0, 1]


def test_a_folder_may_be_renamed(tmp_path: Path) -> None:
    run(plan(HOPS, trials=1), tmp_path / "mine")
    (tmp_path / "mine").rename(tmp_path / "renamed")
    assert run(plan(HOPS, study="renamed", trials=3), tmp_path / "renamed") == [1, 2]
