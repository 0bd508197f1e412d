"""Intervals of the figures of attention, against independent computations in NumPy."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import make_setting
from scipy.stats import kendalltau, t

from sentattn.compare.insight import Insight
from sentattn.compare.insight_table import lines
from sentattn.compare.metrics import blocks
from sentattn.insight.diagnostics import Diagnostics

TEXTS = 60
RANDOM = np.random.default_rng(0)


def insight(values_SN: Any, group_N: Any = None, weights: Any = None, **others: Any) -> Insight:
    """The diagnostics of seeds with a figure `x`."""
    seeds, texts = np.shape(values_SN)
    setting = make_setting(np.full((seeds, texts, 2), 0.5), np.zeros(texts, int), path=Path("none"))
    diagnostics = [
        Diagnostics({"x": row, **{name: values[s] for name, values in others.items()}}, weights[s] if weights else [])
        for s, row in enumerate(np.asarray(values_SN, dtype=float))
    ]
    return Insight(setting, diagnostics, blocks(texts, group_N))


def variance_of_jackknife(statistic: Any, block_N: Any) -> float:
    without = [statistic(block_N != block) for block in np.unique(block_N)]
    deviations = np.array(without) - statistic(block_N >= 0)
    return float((len(without) - 1) / len(without) * (deviations**2).sum())


def test_error_of_a_mean_counts_texts_and_seeds() -> None:
    values_SN = RANDOM.normal(size=(3, TEXTS)) + RANDOM.normal(size=(3, 1))
    estimate = insight(values_SN).estimate(lambda mean: mean("x"))
    rows, seeds = values_SN.mean(axis=0).var(ddof=1) / TEXTS, values_SN.mean(axis=1).var(ddof=1) / 3
    assert estimate.value == pytest.approx(values_SN.mean(), abs=1e-12)
    assert estimate.half_width() == pytest.approx(
        np.hypot(t.ppf(0.975, TEXTS - 1) * np.sqrt(rows), t.ppf(0.975, 2) * np.sqrt(seeds)), rel=1e-9
    )


def test_films_count_in_place_of_texts() -> None:
    film_N = np.repeat(np.arange(TEXTS // 4), 4)
    values_SN = RANDOM.normal(size=TEXTS // 4)[film_N] + np.zeros((3, 1))
    estimate = insight(values_SN, film_N).estimate(lambda mean: mean("x"))
    of_films = values_SN[0, ::4]
    assert estimate.error == pytest.approx(np.sqrt(of_films.var(ddof=1) / len(of_films)), rel=1e-9)
    assert estimate.terms[0].df == pytest.approx(len(of_films) - 1)


def test_error_of_a_ratio_with_texts_to_which_it_does_not_apply() -> None:
    x_SN, y_SN = RANDOM.normal(3, 1, (3, TEXTS)), RANDOM.normal(5, 1, (3, TEXTS))
    x_SN[0, :7] = x_SN[1, 3:12] = np.nan
    estimate = insight(x_SN, y=y_SN).estimate(lambda mean: mean("x") / mean("y"))
    ratio = lambda kept: np.mean([np.nanmean(x[kept]) / y[kept].mean() for x, y in zip(x_SN, y_SN, strict=True)])  # noqa: E731
    of_seed = [np.nanmean(x) / y.mean() for x, y in zip(x_SN, y_SN, strict=True)]
    variance = variance_of_jackknife(ratio, np.arange(TEXTS)) + np.var(of_seed, ddof=1) / 3
    assert estimate.value == pytest.approx(np.mean(of_seed), rel=1e-12)
    assert estimate.error == pytest.approx(np.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_agreement_has_an_interval_from_three_seeds_on(seeds: int) -> None:
    weights = [[RANDOM.dirichlet(np.ones(6)) for _ in range(5)] for _ in range(seeds)]
    estimate = insight(np.ones((seeds, 5)), weights=weights).agreement
    taus = {
        (i, j): np.array([kendalltau(a, b).statistic for a, b in zip(weights[i], weights[j], strict=True)])
        for i in range(seeds)
        for j in range(i)
    }
    if not taus:
        assert np.isnan(estimate.value)
        return
    assert estimate.value == pytest.approx(np.mean([*taus.values()]), abs=1e-12)
    if seeds == 2:
        assert np.isnan(estimate.error)
        return
    mean = lambda kept: np.mean([tau[kept] for tau in taus.values()])  # noqa: E731
    without = [np.mean([tau for pair, tau in taus.items() if seed not in pair]) for seed in range(seeds)]
    of_seeds = (seeds - 1) / seeds * ((np.array(without) - estimate.value) ** 2).sum()
    assert estimate.error == pytest.approx(np.sqrt(variance_of_jackknife(mean, np.arange(5)) + of_seeds), rel=1e-9)


def test_one_seed_has_figures_and_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    from sentattn.compare import insight_table
    from sentattn.compare.insight_table import Block, Column

    column = Column("x", "x", lambda mean: mean("x"))
    monkeypatch.setattr(insight_table, "BLOCKS", [Block("title", "about", [column])])
    values_SN = RANDOM.normal(size=(3, TEXTS))
    both = [insight(values_SN), insight(values_SN[:1])]
    for style in ("table", "markdown"):
        assert ["±" in " ".join(lines([one], style, rows=TEXTS)) for one in both] == [True, False]  # type: ignore[arg-type]
    three, one = csv.DictReader(lines(both, "csv", rows=TEXTS)[1:])
    assert float(three["x_low"]) < float(three["x"]) < float(three["x_high"])
    assert (float(one["x"]), one["x_low"], one["x_high"]) == (pytest.approx(values_SN[0].mean()), "", "")
    assert "one seed gives none" in " ".join(lines(both, "table", rows=TEXTS))
