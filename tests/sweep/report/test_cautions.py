"""Cautions about edges, noise and small studies."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_records import record, result
from plans import plan

from sentattn.config.groups import Choices
from sentattn.sweep.report.cautions import cautions, edge, edges
from sentattn.sweep.search_space import Value, read_dimension

ENOUGH = [record(number, 0.5, values={"model.attention.hops": 15}) for number in range(12)]


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
    assert edge(read_dimension("loss.penalty", written, Choices.of()), value) == end


@pytest.mark.parametrize(
    ("key", "written", "value", "says"),
    [
        ("model.attention.hops", "range(1,31)", 30, "model.attention.hops=30 lies at the upper end of range(1,31)"),
        ("model.attention.hops", "range(1,31)", 1, None),  # there are no 0 hops
        ("model.attention.hops", "range(4,31)", 4, "lies at the lower end"),
        ("model.head.dropout", "interval(0,0.5)", 0.0, None),
        ("model.head.dropout", "interval(0,0.5)", 0.5, "lies at the upper end"),
        ("optimizer.lr", "tag(log,interval(1e-4,1e-2))", 0.0101 - 1e-4, "lies at the upper end"),
        ("loss.penalty", "tag(log,zero,interval(1e-3,1))", 0.98, "lies at the upper end"),
    ],
)
def test_a_caution_where_legal_values_lie_beyond_the_best(
    key: str, written: str, value: Value, says: str | None
) -> None:
    text = edges(plan({key: written}), record(0, 0.9, values={key: value}))
    assert [says in one if says else one for one in text] == ([True] if says else [])


def test_cautions_about_few_trials_pruned_ones_and_failures(tmp_path: Path) -> None:
    one = plan({"model.attention.hops": "range(1,31)"})
    assert cautions(one, tmp_path, ENOUGH, ENOUGH[:1]) == []
    few = ENOUGH[:3]
    [text] = cautions(one, tmp_path, few, few[:1])
    assert text.startswith("Only 3 trials are complete, for 1 setting")
    pruned = [record(20 + number, None, state="pruned") for number in range(13)]
    [text] = cautions(one, tmp_path, [*ENOUGH, *pruned], ENOUGH[:1])
    assert text.startswith("13 of 25 finished trials were pruned")
    assert cautions(one, tmp_path, [*ENOUGH, *pruned[:12]], ENOUGH[:1]) == []
    failed = [record(40 + number, None, error=f"no memory\nline {number}") for number in range(4)]
    [text] = cautions(one, tmp_path, [*ENOUGH, *failed], ENOUGH[:1])
    assert text.startswith("4 of 16 trials failed, most often: no memory.")


def test_a_caution_about_choices_without_a_complete_trial(tmp_path: Path) -> None:
    one = plan({"model/pooling": "choice(flatten,mean,prune)", "trainer.deterministic": "choice(true,false)"})
    found = [
        record(number, 0.5, values={"model/pooling": "flatten", "trainer.deterministic": number % 2 == 0})
        for number in range(12)
    ]
    pruned = record(12, None, state="pruned", values={"model/pooling": "mean", "trainer.deterministic": True})
    text = "No trial with model/pooling=mean or prune is complete: the study says nothing about it."
    assert cautions(one, tmp_path, [*found, pruned], found[:1]) == [text]
    others = [record(20, 0.5, values={"model/pooling": name}) for name in ("mean", "prune")]
    assert cautions(one, tmp_path, [*found, *others], found[:1]) == []


def test_a_caution_where_the_second_is_within_the_noise_of_repeats(tmp_path: Path) -> None:
    """Leads of 0.01, 0.02 and 0.03: mean 0.02, standard deviation 0.01, t(0.975, 2) = 4.302653, half width 0.024841."""
    one = plan({"model.attention.hops": "range(1,31)"}, repeats=3)
    found = [record(0, 0.82, values={"model.attention.hops": 15}), record(1, 0.80), *ENOUGH[2:]]
    for seed, lead in enumerate((0.01, 0.02, 0.03)):
        result(tmp_path, 0, seed=seed, metrics={"val/accuracy": 0.8 + lead})
        result(tmp_path, 1, seed=seed, metrics={"val/accuracy": 0.8})
    [text] = cautions(one, tmp_path, found, found[:1])
    assert text == (
        "Trial 0 is not significantly better than trial 1: over 3 seeds it leads by 0.0200, "
        "with a 95% interval from -0.0048 to 0.0448."
    )
    for seed in range(3):
        result(tmp_path, 1, seed=seed, metrics={"val/accuracy": 0.7 + 0.01 * seed})
    assert cautions(one, tmp_path, found, found[:1]) == []


def test_a_caution_about_trials_within_the_spread_of_confirmed_seeds(tmp_path: Path) -> None:
    """Values 0.80 and 0.82: standard deviation 0.0141421, t(0.975, 1) = 12.7062; times the root of 2: 0.254124."""
    one = plan({"model.attention.hops": "range(1,31)"})
    found = [
        record(0, 0.9, values={"model.attention.hops": 15}),
        *(record(n, 0.6) for n in range(1, 11)),
        record(11, 0.7),
    ]
    confirmed = {"metrics": {"val/accuracy": {"values": [0.80, 0.82]}}}
    [text] = cautions(one, tmp_path, found, found[:1], confirmed)
    assert text.startswith("Trial 0 is not significantly better than 1 other trial: by 2 seeds of its setting")
    assert "0.2541 in val/accuracy" in text
    assert cautions(one, tmp_path, found[:-1], found[:1], confirmed) == []
