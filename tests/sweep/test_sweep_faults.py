"""Errors of a sweep are reported before its first trial."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from sweep_words import faults, kinds, write

from sentattn.sweep.config import read_plan

LR = "optimizer.lr=tag(log,interval(1e-3,1e-2))"


def test_all_faults_at_once() -> None:
    words = {
        "model=structured": None,
        "model.attention.hops=range(0,31)": ("model.attention.hops", "range"),
        "loss.penalty=tag(log,interval(0,1))": ("loss.penalty", "range"),
        "model/pooling=choice(flatten,men)": ("model/pooling", "unknown"),
        "trails=3": ("trails", "unknown"),
        "sampler=tpee": ("sampler", "unknown"),
        "data.clip=range(1,5)": ("data.clip", "range"),
        "test=false": ("test", "unsupported"),
        "pruner.n_statup_trials=3": ("pruner.n_statup_trials", "unknown"),
        "optimizer.lr=interval(3,1)": ("optimizer.lr", "range"),
        "model.attention.hidden=interval(8,64)": ("model.attention.hidden", "type"),
    }
    assert sorted(kinds(*words)) == sorted(fault for fault in words.values() if fault)


@pytest.mark.parametrize(
    ("words", "key", "kind"),
    [
        *((f"{key}=true", key, "unsupported") for key in ("seeds", "resume", "check", "trainer.devices", "test")),
        ("data=choice(demo,imdb)", "data", "unsupported"),
        ("data.limit=range(100,300,100)", "data.limit", "unsupported"),
        ("data.folds=3,5", "data.folds", "unsupported"),
        ("data=table data.train=a.csv data.folds=5", "data.folds", "unsupported"),
        ("threads=range(1,3)", "threads", "unsupported"),
        ("seed=1,2", "seed", "unsupported"),
        ("logger.project=a,b", "logger.project", "unsupported"),
        ("objective.metric=test/accuracy", "objective.metric", "unknown"),
        ("objective.mode=min", "objective.mode", "range"),
        ("--trials=3", "--trials", "unknown"),
        ("trials=", "trials", "missing"),
        ("trials=0", "trials", "range"),
        ("study=a/b", "study", "type"),
        ("study=.", "study", "type"),
        ("slots_per_gpu=1", "slots", "conflict"),
        ("sampler._target_=optuna.samplers.RandomSampler", "sampler._target_", "unknown"),
        ("sampler=[]", "sampler", "unknown"),
        ("sampler.multivariate=3", "sampler.multivariate", "type"),
        ("sampler.multivariate=false sampler.group=true", "sampler", "conflict"),
        ("sampler=random sampler.seed=3", "sampler.seed", "unknown"),
        ("sampler=nsgaii sampler.population_size=1", "sampler", "conflict"),
        ("pruner=medain", "pruner", "unknown"),
        ("pruner=wilcoxon", "pruner", "conflict"),
        ("pruner=median repeats=3", "pruner", "conflict"),
        ("pruner=median objective.metric=val/accuracy,latency_ms.one", "pruner", "conflict"),
        ("pruner=percentile pruner.percentile=120", "pruner", "conflict"),
        ("pruner=threshold", "pruner", "conflict"),
        ("pruner=none pruner.x=1", "pruner.x", "unknown"),
        ("engine=rai", "engine", "range"),
        ("engine.address=head:6379", "engine.address", "unknown"),
        ("stats", "stats", "missing"),
        ("model.atention.hops=choice(1,2)", "model.atention", "unknown"),
    ],
)
def test_keys_of_the_sweep(words: str, key: str, kind: str) -> None:
    assert set(kinds(LR, "slots=2", *words.split())) == {(key, kind)}


@pytest.mark.parametrize("option", [["-m"], ["--cfg", "job"], ["--cfg=job"]])
def test_options_of_a_training_have_one_fault(option: list[str]) -> None:
    assert kinds(LR, *option) == [(" ".join(option).replace("=", " "), "unsupported")]


def test_a_command_without_a_range_says_that_the_default_sweep_is_read() -> None:
    assert {("sweep", "conflict"), ("sampler", "unknown")} <= {*kinds("model=mean", "sampler=tpee")}
    assert ("sweep", "conflict") not in kinds("sampler=tpee")
    assert ("sweep", "conflict") not in kinds("sweep=default", "model=mean")


def test_settings_of_a_named_sweep_are_faults_each() -> None:
    expected = {"model.attention.hops", "loss.penalty"}
    assert {key for key, _ in kinds("sweep=default", "model=mean")} == expected


def test_more_trials_than_combinations_of_choices_name_the_grid() -> None:
    words = ["model/pooling=choice(flatten,mean)", "loss.class_weights=choice(none,balanced)"]
    [fault] = faults(*words, "trials=5")
    assert (fault.key, fault.kind) == ("trials", "range")
    assert "python -m sentattn.train -m" in fault.message
    assert "trials=4" in fault.message
    assert kinds(*words) == [("trials", "range")]  # 20 by default
    for enough in (["trials=4"], ["trials=null", "hours=1"], ["trials=9", "model.attention.hops=range(1,9)"]):
        assert len(read_plan([*words, *enough]).space) >= 2


def test_of_choices_with_conditions_only_those_that_can_be_drawn_count(tmp_path: Path) -> None:
    p = {"space": "choice(4,8)", "when": {"model/pooling": "prune"}}
    q = {"space": "choice(2)", "when": {"model/pooling": "prune"}}
    space = {"model/pooling": "choice(flatten,prune)", "model.pooling.p": p, "model.pooling.q": q}
    [fault] = faults(write(tmp_path, overrides=["model=structured"], space=space))
    assert "trials=3" in fault.message


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert kinds(LR, "engine=ray") == [("engine", "package")]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("trails=3", "Did you mean 'trials'?"),
        ("sampler.multivariat=true", "Did you mean 'multivariate'?"),
        ("objective.metric=val/acuracy", "Did you mean 'val/accuracy'?"),
        ("seeds=3", "repeats=3"),
        ("trainer.devices=2", "gpus_per_trial=2"),
        ("repeats=3 pruner=median", "pruner=wilcoxon"),
        ("model.attention.hidden=interval(8,64)", "int(interval(8,64))"),
    ],
)
def test_the_message_says_what_to_type(word: str, hint: str) -> None:
    assert hint in faults(LR, *word.split())[0].message


RANGE = "interval(1e-3,1e-2)"


@pytest.mark.parametrize(
    ("content", "key", "kind"),
    [
        ({"spce": {}}, "sweep", "unknown"),
        ({"budget": {"trails": 3}}, "sweep", "type"),
        ({"overrides": "model=mean"}, "sweep", "type"),
        ({"overrides": ["trust=true"], "space": {"optimizer.lr": RANGE}}, "sweep", "unsupported"),
        ({"overrides": ["--config-dir=x"], "space": {"optimizer.lr": RANGE}}, "sweep", "unsupported"),
        ({"overrides": ["seed=1", "seed=2"], "space": {"optimizer.lr": RANGE}}, "seed", "conflict"),
        ({"studies": {"a": ["seed=1"]}, "space": {"optimizer.lr": RANGE}}, "sweep", "unsupported"),
        ({"space": {"model.attention.hops": 4}}, "sweep", "type"),
        ({"space": {"model.attention.hops": [1, 2]}}, "sweep", "type"),
        ({"space": {"model.attention.hops": {"space": "range(1,9)", "wenn": {}}}}, "sweep", "unknown"),
        ({"space": {"optimizer.lr": {"space": RANGE, "when": {"model/pooling": "prune"}}}}, "optimizer.lr", "unknown"),
        (
            {
                "space": {
                    "optimizer.lr": {"space": RANGE, "when": {"model/pooling": "max"}},
                    "model/pooling": "choice(flatten,mean)",
                }
            },
            "optimizer.lr",
            "range",
        ),
        ({"objective": "val/accuracy"}, "sweep", "type"),
        ({"sampler": 3, "space": {"optimizer.lr": RANGE}}, "sampler", "unknown"),
        ({}, "space", "missing"),
    ],
)
def test_faults_of_a_file(tmp_path: Path, content: dict[str, object], key: str, kind: str) -> None:
    [fault] = faults(write(tmp_path, **content))
    assert (fault.key, fault.kind) == (key, kind)
    assert "spce" not in content or "Did you mean 'space'?" in fault.message


def test_conditions_in_a_circle(tmp_path: Path) -> None:
    one = {"space": "choice(flatten,mean)", "when": {"loss.class_weights": "none"}}
    other = {"space": "choice(none,balanced)", "when": {"model/pooling": "mean"}}
    words = write(tmp_path, space={"model/pooling": one, "loss.class_weights": other})
    assert kinds(words) == [("space", "conflict")]


def test_broken_yaml_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("space: {a: [")
    assert kinds(f"sweep={tmp_path / 'broken.yaml'}") == [(str(tmp_path / "broken.yaml"), "unreadable")]
    (fault,) = faults("sweep=defalt")
    assert (fault.key, fault.kind) == ("sweep", "not_found")
    assert "Did you mean 'default'?" in fault.message
