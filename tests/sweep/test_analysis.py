"""Importances of settings on trials whose answer is known, and cautions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal

import pytest
from fake_records import record, study_of
from optuna.trial import FrozenTrial
from plans import HOPS, plan

from sentattn.config.groups import Choices
from sentattn.config.search_space import Value, read_dimension
from sentattn.sweep.artifacts import Confirmed, Reached
from sentattn.sweep.plan import Objective
from sentattn.sweep.report import Findings, edge, importances

ENOUGH = [record(number, 0.5, values={"model.attention.hops": 10 + number}) for number in range(12)]
SPACE = {
    "optimizer.lr": "tag(log,interval(1e-4,1))",
    "loss.penalty": "tag(log,zero,interval(1e-3,1))",
    "model/pooling": "choice(flatten,prune)",
    "model.pooling.p": ("range(1,9)", {"model/pooling": ("prune",)}),
}


def random_trials(count: int, sign: float = 1.0) -> list[FrozenTrial]:
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
def test_the_only_setting_that_matters_comes_first(mode: Literal["max", "min"]) -> None:
    trials = random_trials(60, 1.0 if mode == "max" else -1.0)
    found = importances(study_of(plan(SPACE, objectives=(Objective("val/accuracy", mode),)), trials))
    assert next(iter(found)) == "optimizer.lr"
    assert set(found) == set(SPACE)
    assert sum(found.values()) == pytest.approx(1)


def test_few_or_equal_trials_have_none() -> None:
    same = [record(trial.number, 0.5, values=trial.params) for trial in random_trials(20)]
    failed = [record(trial.number, None, values=trial.params) for trial in random_trials(20)]
    for trials in (random_trials(3), same, failed):
        assert importances(study_of(plan(SPACE), trials)) == {}


def cautions(plan: Any, folder: Path, records: list[FrozenTrial]) -> list[str]:
    return Findings(plan, folder, study_of(plan, records)).cautions


@pytest.mark.parametrize(
    ("written", "value", "end"),
    [
        ("interval(0,1)", 0.05, "lower"),
        ("interval(0,1)", 0.051, None),
        ("interval(0,1)", 0.95, "upper"),
        ("range(1,9)", 1, "lower"),
        ("range(1,9)", 2, None),
        ("range(1,9)", 8, "upper"),
        # 5% of three decades: 10**-2.85 = 0.00141 and 10**-0.15 = 0.708.
        ("tag(log,interval(1e-3,1))", 0.0014, "lower"),
        ("tag(log,interval(1e-3,1))", 0.0015, None),
        ("tag(log,interval(1e-3,1))", 0.70, None),
        ("tag(log,interval(1e-3,1))", 0.71, "upper"),
        ("tag(log,zero,interval(1e-3,1))", 0.0, None),
        ("tag(log,zero,interval(1e-3,1))", 0.001, None),
        ("tag(log,zero,interval(1e-3,1))", 0.99, "upper"),
        ("choice(1,2,3)", 1, None),
    ],
)
def test_edges_of_a_range(written: str, value: Value, end: str | None) -> None:
    found = edge(read_dimension("loss.penalty", written, Choices.of()), value)
    assert (found and found[0]) == end


@pytest.mark.parametrize(
    ("key", "written", "value", "end"),
    [
        ("model.attention.hops", "range(1,31)", 30, "upper"),
        ("model.attention.hops", "range(1,31)", 1, None),  # there are no 0 hops
        ("model.attention.hops", "range(4,31)", 4, "lower"),
        ("model.head.dropout", "interval(0,0.5)", 0.0, None),
        ("loss.penalty", "tag(log,zero,interval(1e-3,1))", 0.98, "upper"),
    ],
)
def test_a_caution_where_legal_values_lie_beyond_the_best(
    tmp_path: Path, key: str, written: str, value: Value, end: str | None
) -> None:
    others = [record(number, 0.5, values={key: value}) for number in range(1, 12)]
    found = cautions(plan({key: written}), tmp_path, [record(0, 0.9, values={key: value}), *others])
    assert [f"{key}={value} lies at the {end} end of {written}" in text for text in found] == [True] * bool(end)


def test_a_caution_about_few_trials(tmp_path: Path) -> None:
    one = plan(HOPS)
    assert cautions(one, tmp_path, ENOUGH) == []
    [text] = cautions(one, tmp_path, ENOUGH[:3])
    assert text.startswith("Only 3 ")


def test_a_caution_about_trials_within_the_spread_of_confirmed_seeds(tmp_path: Path) -> None:
    """Values 0.80 and 0.82: standard deviation 0.0141421, t(0.975, 1) = 12.7062; times the root of 2: 0.254124."""
    one = plan(HOPS)
    found = [
        record(0, 0.9, values={"model.attention.hops": 15}),
        *(record(n, 0.6) for n in range(1, 11)),
        record(11, 0.7),
    ]
    reached = Reached(mean=0.81, interval=None, values=[0.80, 0.82])
    confirmed = Confirmed(
        study="mine", trial=0, seeds=[1, 2], runs=[], confidence=0.95, metrics={"val/accuracy": reached}
    )
    (tmp_path / "confirm.json").write_text(confirmed.model_dump_json())
    [text] = cautions(one, tmp_path, found)
    assert all(part in text for part in ("Trial 0 ", "1 other trial", "2 seeds", "0.2541 in val/accuracy"))
    assert cautions(one, tmp_path, found[:-1]) == []
