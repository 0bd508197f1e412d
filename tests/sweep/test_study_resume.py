"""A study is opened by one scheduler at a time, after any end of the last one, and also with a changed space."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from plans import SPACE, plan
from studies import run, states

from sentattn.errors import RunError, SettingError
from sentattn.sweep import storage
from sentattn.sweep.config import Budget
from sentattn.sweep.objective import Objective
from sentattn.sweep.records import read
from sentattn.sweep.study import SweepStudy


def test_one_owner(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path):
        assert storage.owner(tmp_path) == os.getpid()
        with pytest.raises(RunError) as caught:
            SweepStudy.open(plan(), tmp_path)
        [fault] = caught.value.faults
        assert (fault.key, fault.kind) == ("study", "busy")
        assert f"process {os.getpid()}" in fault.message
        assert states(tmp_path) == {}
    assert storage.owner(tmp_path) is None


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plans import plan
from sentattn.sweep.callbacks import TrialOutcome
from sentattn.sweep.study import SweepStudy
study = SweepStudy.open(plan(), Path(sys.argv[1]))
first, second, third = (study.ask() for _ in range(3))
study.tell(second.number, TrialOutcome("complete", [0.5]))
study.report(third.number, 1, 0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_owner_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    broken = {r.number: r.values for r in read(tmp_path) if r.state == "running"}
    assert set(broken) == {0, 2}
    with SweepStudy.open(plan(), tmp_path) as study:
        assert (study.finished(), study.waiting()) == (1, 2)
        again = [study.ask(), study.ask()]
        assert [one.values for one in again if one] == [broken[0], broken[2]]
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
    with pytest.raises(SettingError) as caught:
        SweepStudy.open(plan(**others), tmp_path)
    assert {(fault.key, fault.kind) for fault in caught.value.faults} == {("study", "conflict")}
    assert said in str(caught.value)
    run(plan(overrides=("model=structured", "logger=none", "threads=2")), tmp_path)


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
    with SweepStudy.open(narrow, tmp_path) as study:
        assert study.finished() == 10 - len(outside)
        assert all(r.values["model/pooling"] != "prune" for r in study.best())
    assert [r.number for r in read(tmp_path) if r.state == "outside"] == outside
    with SweepStudy.open(plan(), tmp_path) as study:
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
    with SweepStudy.open(back, tmp_path) as study:
        assert study.finished() == 10
    elsewhere = replace(back, overrides=("model=structured", "loss.penalty=0.4"))
    with pytest.raises(SettingError, match=r"loss\.penalty=0\.5, not loss\.penalty=0\.4"):
        SweepStudy.open(elsewhere, tmp_path)


def test_a_killed_change_of_the_space_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(plan(), tmp_path)
    before = read(tmp_path)
    with monkeypatch.context() as patched:
        calls = iter(range(5))
        real = optuna.Study.add_trial

        def dies(*args: object, **others: object) -> None:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            real(*args, **others)  # type: ignore[arg-type]

        patched.setattr(optuna.Study, "add_trial", dies)
        with pytest.raises(KeyboardInterrupt):
            SweepStudy.open(plan({**SPACE, "model.attention.hops": "range(1,61)"}), tmp_path)
    assert read(tmp_path) == before
    with SweepStudy.open(plan(), tmp_path) as study:
        assert study.finished() == 10
    assert len(storage.open_storage(tmp_path).get_all_studies()) == 1
