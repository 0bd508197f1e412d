"""What is wrong with a sweep is told before its first trial."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_words import faults, write

from sentattn.errors import SettingError
from sentattn.sweep.config import read_plan


def test_all_faults_at_once_in_the_order_typed() -> None:
    words = [
        "model=structured",
        "model.attention.hops=range(0,31)",
        "loss.penalty=tag(log,interval(0,1))",
        "model/pooling=choice(flatten,men)",
        "loss.class_weight_power=interval(0,1)",
        "trails=3",
        "sampler=tpee",
        "data.clip=range(1,5)",
        "test=false",
        "pruner.n_statup_trials=3",
        "optimizer.lr=interval(3,1)",
        "model.attention.hidden=interval(8,64)",
    ]
    found = faults(*words)
    said = [
        "model.attention.hops must be",
        "tag zero",
        "Did you mean 'mean'?",
        "no effect with loss.class_weights=none",
        "Did you mean 'trials'?",
        "Did you mean 'tpe'?",
        "data.clip must be head, tail or both",
        "a sweep decides test itself",
        "type interval(1.0,3.0)",
        "Type model.attention.hidden=int(interval(8,64))",
        "Did you mean 'n_startup_trials'?",
    ]
    assert len(found) == len(said)
    assert all(any(part in sentence for sentence in found) for part in said)
    order = [next(at for at, sentence in enumerate(found) if part in sentence) for part in said[:-1]]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("seeds=3", "repeats=3"),
        ("resume=auto", "the same command again"),
        ("check=true", "before the first trial"),
        ("trainer.devices=2", "gpus_per_trial=2"),
        ("data=choice(demo,imdb)", "a study for each"),
        ("data.limit=range(100,300,100)", "different rows"),
        ("threads=range(1,3)", "belongs to the sweep"),
        ("objective.metric=test/accuracy", "the test set is for the end"),
        ("objective.metric=val/acuracy", "Did you mean 'val/accuracy'?"),
        ("objective.mode=min", "worst"),
        ("budget.trials=3", "type trials=3"),
        ("--trials=3", "type trials=3"),
        ("trials=0", "an integer >= 1"),
        ("study=a/b", "type study=a-b"),
        ("study=.", "type study=my-study"),
        ("sampler=grid", "sampler=grid needs ranges of single values"),
        ("sampler=gp", None),
        ("pruner=wilcoxon", "repeats"),
        ("repeats=3", None),
        ("model.atention.hops=choice(1,2)", "atention"),
    ],
)
def test_keys_of_the_sweep(word: str, said: str | None) -> None:
    words = ["optimizer.lr=tag(log,interval(1e-3,1e-2))", word]
    if said is None:
        read_plan(words)
    else:
        assert any(said in sentence for sentence in faults(*words))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"spce": {}}, "there is no key 'spce'. Did you mean 'space'?"),
        ({"trials": 3}, "under budget"),
        ({"budget": {"trails": 3}}, "it has trials and hours"),
        ({"overrides": "model=mean"}, "overrides is a list"),
        ({"overrides": ["model.attention.hops=range(1,3)"]}, "it stands under space"),
        ({"overrides": ["seed=3"]}, "beside overrides"),
        ({"space": {"model.attention.hops": 4}}, "stands among the overrides, as model.attention.hops=4"),
        ({"space": {"model.attention.hops": [1, 2]}}, "choice(1,2)"),
        ({"space": {"model.attention.hops": {"space": "range(1,9)", "wenn": {}}}}, "a range with a condition"),
        (
            {"space": {"optimizer.lr": {"space": "interval(1e-3,1e-2)", "when": {"model/pooling": "prune"}}}},
            "not in the space",
        ),
        (
            {
                "space": {
                    "optimizer.lr": {"space": "interval(1e-3,1e-2)", "when": {"model/pooling": "max"}},
                    "model/pooling": "choice(flatten,mean)",
                }
            },
            "model/pooling is never max",
        ),
        ({"objective": "val/accuracy"}, "objective is a list"),
        ({"sampler": 3}, "holds lines"),
        ({}, "there is nothing to search"),
    ],
)
def test_faults_of_a_file(tmp_path: Path, content: dict[str, object], said: str) -> None:
    assert any(said in sentence for sentence in faults(write(tmp_path, **content)))


def test_conditions_in_a_circle(tmp_path: Path) -> None:
    one = {"space": "choice(flatten,mean)", "when": {"loss.class_weights": "none"}}
    other = {"space": "choice(none,balanced)", "when": {"model/pooling": "mean"}}
    found = faults(write(tmp_path, space={"model/pooling": one, "loss.class_weights": other}))
    assert any("in a circle" in sentence for sentence in found)


def test_broken_yaml_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("space: {a: [")
    assert "cannot be read" in faults(f"sweep={tmp_path / 'broken.yaml'}")[0]
    assert "Did you mean 'default'?" in faults("sweep=defalt")[0]


def test_faults_have_a_key_and_a_kind() -> None:
    words = ["model.attention.hops=range(5,1)", "trails=3", "trials=0", "test=false", "sampler=tpee"]
    with pytest.raises(SettingError) as caught:
        read_plan(words)
    kinds = {fault.key: fault.kind for fault in caught.value.faults}
    assert kinds["model.attention.hops"] == "range"
    assert kinds["trails"] == "unknown"
    assert kinds["test"] == "unsupported"
    assert kinds["sampler"] == "conflict"
    assert "trials" in kinds
