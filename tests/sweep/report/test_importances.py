"""Importances on trials whose answer is known."""

from __future__ import annotations

import random

import pytest
from made import record
from plans import plan

from sentattn.sweep.records import Record
from sentattn.sweep.report import importances as module
from sentattn.sweep.report.importances import caution, importances

SPACE = {
    "optimizer.lr": "tag(log,interval(1e-4,1))",
    "loss.penalty": "tag(log,zero,interval(1e-3,1))",
    "model/pooling": "choice(flatten,prune)",
    "model.pooling.p": ("range(1,9)", {"model/pooling": ("prune",)}),
}


def drawn(count: int, sign: float = 1.0) -> list[Record]:
    """Random trials in which the learning rate alone decides."""
    source = random.Random(0)
    found = []
    for number in range(count):
        power = source.uniform(-4, 0)
        pooling = source.choice(["flatten", "prune"])
        values = {"optimizer.lr": 10**power, "loss.penalty": source.choice([0.0, 1e-3, 0.1]), "model/pooling": pooling}
        values |= {"model.pooling.p": source.randint(1, 8)} if pooling == "prune" else {}
        found.append(record(number, -sign * (power + 2) ** 2, values=values))
    return found


@pytest.mark.parametrize("mode", ["max", "min"])
def test_what_alone_decides_comes_first_by_both(mode: str) -> None:
    found = importances(
        drawn(60, 1.0 if mode == "max" else -1.0), plan(SPACE).space, "val/accuracy", mode, sampler="random"
    )
    assert found is not None
    assert found.fanova is not None
    assert next(iter(found.ped_anova)) == next(iter(found.fanova)) == "optimizer.lr"
    assert found.fanova["optimizer.lr"] > 0.9
    assert set(found.ped_anova) == set(SPACE)
    assert set(found.fanova) == set(SPACE) - {"model.pooling.p"}
    assert sum(found.ped_anova.values()) == pytest.approx(1)
    assert sum(found.fanova.values()) == pytest.approx(1)
    assert found.caution == ""
    assert found.most(1) == ["optimizer.lr"]


def test_few_or_equal_trials_have_none() -> None:
    space = plan(SPACE).space
    assert importances(drawn(3), space, "val/accuracy", "max", sampler="tpe") is None
    same = [record(one.number, 0.5, values=one.values) for one in drawn(20)]
    assert importances(same, space, "val/accuracy", "max", sampler="tpe") is None
    failed = [record(one.number, None, values=one.values) for one in drawn(20)]
    assert importances(failed, space, "val/accuracy", "max", sampler="tpe") is None


def test_without_scikit_learn_there_is_one_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    def missing(**_: object) -> None:
        raise ImportError("scikit-learn")

    monkeypatch.setattr(optuna.importance, "FanovaImportanceEvaluator", missing)
    found = importances(drawn(20), plan(SPACE).space, "val/accuracy", "max", sampler="tpe")
    assert found is not None
    assert found.fanova is None
    assert found.most(2) == list(found.ped_anova)[:2]


def test_of_many_trials_a_forest_looks_at_an_even_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(module, "MOST", 10)
    monkeypatch.setattr(module, "_fanova", lambda study: seen.extend(trial.value for trial in study.trials))
    found = drawn(35)
    importances(found, plan(SPACE).space, "val/accuracy", "max", sampler="tpe")
    assert seen == [one.objectives[0] for one in found[::4] if one.objectives]


@pytest.mark.parametrize(
    ("ped", "fanova", "says"),
    [
        ({"a": 0.6, "b": 0.4}, {"a": 0.7, "b": 0.3}, ""),
        ({"a": 0.78, "b": 0.22}, {"a": 0.01, "b": 0.99}, "PED-ANOVA puts a first (0.78; fANOVA: 0.01), fANOVA b"),
        (
            {"a": 0.9, "b": 0.06, "c": 0.04},
            {"a": 0.5, "b": 0.25, "c": 0.25},
            "They differ on a: 0.90 by PED-ANOVA, 0.50",
        ),
        # A setting under a condition has no part in the comparison: 0.3 and 0.1 of 0.4 are 0.75 and 0.25.
        ({"c": 0.6, "a": 0.3, "b": 0.1}, {"a": 0.75, "b": 0.25}, ""),
    ],
)
def test_where_the_measures_do_not_agree_it_is_said(ped: dict[str, float], fanova: dict[str, float], says: str) -> None:
    told = caution(ped, fanova, "tpe")
    assert told.startswith(says)
    assert bool(told) == bool(says)
    assert ("crowds" in told) == bool(says)
    assert "crowds" not in caution(ped, fanova, "random")
