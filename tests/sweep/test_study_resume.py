"""A study is opened by one scheduler at a time, after any end of the last one, and also with a changed space."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from plans import SPACE, plan
from studies import run, states, tell

from sentattn.config.request import Request, read_request
from sentattn.errors import RunError, SettingError
from sentattn.sweep import storage
from sentattn.sweep.config import read_plan
from sentattn.sweep.owner import owner
from sentattn.sweep.plan import Budget, Objective
from sentattn.sweep.records import read
from sentattn.sweep.study import SweepStudy

FIXTURES = Path(__file__).parents[1] / "fixtures" / "before_lean"


def test_one_owner(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path):
        assert owner(tmp_path) == os.getpid()
        with pytest.raises(RunError) as caught, SweepStudy.open(plan(), tmp_path):
            pass
        [fault] = caught.value.faults
        assert (fault.key, fault.kind) == ("study", "busy")
        assert f"process {os.getpid()}" in fault.message
        assert states(tmp_path) == {}
    assert owner(tmp_path) is None


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plans import plan
from sentattn.sweep.records import TrialOutcome
from sentattn.sweep.study import SweepStudy
opened = SweepStudy.open(plan(), Path(sys.argv[1]))
study = opened.__enter__()
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
    with pytest.raises(SettingError) as caught, SweepStudy.open(plan(**others), tmp_path):
        pass
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
    message = r"loss\.penalty=0\.5, not loss\.penalty=0\.4"
    with pytest.raises(SettingError, match=message), SweepStudy.open(elsewhere, tmp_path):
        pass


def test_a_folder_of_classes_that_only_the_study_names_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"model.attention.hops": "range(1,31)"}
    run(plan(few, overrides=("--config-dir=/foreign", "model=structured", "loss.penalty=0.25")), tmp_path)
    composed: list[str] = []

    def record_request(arguments: Sequence[str]) -> Request:
        composed.extend(arguments)
        return read_request(arguments)

    monkeypatch.setattr("sentattn.sweep.resume.read_request", record_request)
    run(plan({**few, "loss.penalty": "interval(0,1)"}), tmp_path)
    assert "loss.penalty=0.25" in composed
    assert not [word for word in composed if word.startswith("--config-dir")]
    assert {record.values["loss.penalty"] for record in read(tmp_path)} == {0.25}


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
        wider = plan({**SPACE, "model.attention.hops": "range(1,61)"})
        with pytest.raises(KeyboardInterrupt), SweepStudy.open(wider, tmp_path):
            pass
    assert read(tmp_path) == before
    with SweepStudy.open(plan(), tmp_path) as study:
        assert study.finished() == 10
    assert len(storage.open_storage(tmp_path).get_all_studies()) == 1


KILLED_BEFORE = [
    *("study=killed", "model=structured", "data=demo", "data.limit=200", "trainer.max_epochs=12"),
    *(
        "model.embedding.size=4",
        "model.encoder.hidden=4",
        "model.attention.hidden=4",
        "model.attention.hops=range(1,5)",
    ),
    *("loss.penalty=tag(log,zero,interval(1e-3,1))", "model/pooling=choice(flatten,mean)", "trials=4", "slots=1"),
    *("pruner=none", "data.batch_size=8", "optimizer.lr=0.02", "model.embedding.dropout=0.1"),
    *("model.embedding.word_dropout=0.0", "logger=none", "threads=1", "output_dir=outputs"),
]
"""The command of a study that the revision before the rebuild left when it was killed."""


def test_a_study_that_an_earlier_revision_left_is_resumed_by_the_same_command(tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / "study_as_killed.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    [database] = tmp_path.glob(f"**/{storage.DATABASE}")
    folder = database.parent
    expected = json.loads((FIXTURES / "expected.json").read_text())["studies"]["study"]
    assert [(one.state, dict(one.values), dict(one.steps)) for one in read(folder)] == [
        (one["state"], one["parameters"], {int(step): value for step, value in one["steps"].items()})
        for one in expected["before"]["trials"]
    ]
    assert owner(folder) is None
    with SweepStudy.open(read_plan(KILLED_BEFORE), folder) as study:
        assert (study.finished(), study.waiting()) == (2, 1)
        for one in expected["continued"]["trials"][3:]:
            asked = study.ask()
            assert asked
            assert (asked.number, dict(asked.values)) == (one["number"], one["parameters"])
            tell(study, asked.number, *one["objectives"])
        assert study.ask() is None
    assert [(one.number, one.state, one.retry_of) for one in read(folder)] == [
        (one["number"], one["state"], one["again_of"]) for one in expected["continued"]["trials"]
    ]


def test_attributes_of_earlier_revisions_are_read(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path) as study:
        asked = [study.ask() for _ in range(3)]
        for _ in asked:
            study.tick()
    database = storage.open_storage(tmp_path)
    old = optuna.load_study(study_name="mine", storage=database)
    study_id = database.get_study_id_from_name("mine")
    attributes = [
        {"note": "it was broken off with the sweep", "next_attempt": 0},
        {"note": "killed\na line", "next_attempt": 1},
        {"note": "x=1 is not legal."},
    ]
    for number, attrs in enumerate(attributes):
        for key, value in attrs.items():
            database.set_trial_user_attr(database.get_trial_id_from_study_id_trial_number(study_id, number), key, value)
        old.tell(number, state=optuna.trial.TrialState.FAIL)
    assert [one.state for one in read(tmp_path)] == ["interrupted", "failed", "failed"]
    with SweepStudy.open(plan(), tmp_path) as study:
        assert study.waiting() == 2
        assert [study.ask(), study.ask()]
    assert [(one.retry_of, one.attempt) for one in read(tmp_path)[3:]] == [(0, 0), (1, 1)]
