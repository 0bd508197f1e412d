"""`insight=true`: tables of real runs, and intervals against independent computations in NumPy."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from operator import sub, truediv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import make_setting
from scipy.stats import kendalltau, t
from tiny import tiny

from sentattn import fit
from sentattn.compare import insight as tables
from sentattn.compare.__main__ import main
from sentattn.compare.insight import Block, Column, Insight, lines
from sentattn.compare.statistics import blocks
from sentattn.insight.diagnostics import Diagnostics
from sentattn.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("insight")
    for seed in (0, 1):
        fit(tiny("model=structured", f"seed={seed}", f"output_dir={folder}"))
    fit([word for word in tiny("model=lstm_mean", f"output_dir={folder}") if "attention.hidden" not in word])
    unused = ("attention.hidden", "encoder.hidden")
    wide = tiny("model=mean", "model/wide=attended_ngrams", f"output_dir={folder}")
    fit([word for word in wide if not any(key in word for key in unused)])
    return folder


def test_tables_below_the_leaderboard(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "insight=20"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines() if len(line.split()) > 1) <= 80
    assert "sample of 20 of" in " ".join(out.split())
    rows = [line.split() for line in out.split("shape of weights")[1].splitlines()]
    even = next(row for row in rows if row[:1] == ["lstm_mean"])
    assert float(even[2]) == float(even[3]) == 1
    for title in ("C, tokens deleted", "S, tokens replaced", "rank correlation", "other weights", "gold rationale"):
        table = [line.split() for line in out.split(title)[1].splitlines()]
        [trained], [even] = ([row for row in table if row[:1] == [name]][:1] for name in ("structured", "lstm_mean"))
        assert "-" not in trained
        assert "-" in even


def test_the_attention_over_ngrams_has_a_row(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "insight=20", "format=csv"]) == 0
    table = capsys.readouterr().out.split("\n\n")[1]
    rows = list(csv.DictReader(table.splitlines()))
    [wide] = {row["settings"] for row in rows if row["settings"].startswith("mean")}
    assert wide.endswith("(n-grams)")
    found = {row["metric"]: float(row["value"]) for row in rows if row["settings"] == wide}
    rankings = ("attention", "attention_x_gradient", "integrated", "integrated_magnitude", "input_x_gradient")
    assert {f"comprehensiveness_deleted_{name}" for name in rankings} < found.keys()
    assert {"evenness", "tau_integrated", "tvd_permuted", "jsd_adversarial", "correct_uniform"} < found.keys()


def test_numbers_are_in_the_other_formats_too(runs: Path, tmp_path: Path) -> None:
    assert main([str(runs), "insight=20", "format=csv", f"output={tmp_path / 'file'}"]) == 0
    table = (tmp_path / "file").read_text().split("\n\n")[1]
    rows = {(row["settings"], row["metric"]): row for row in csv.DictReader(table.splitlines())}
    assert rows["structured", "evenness"]["seeds"] == "2"
    assert 0 < float(rows["structured", "evenness"]["value"]) < 1
    assert ("lstm_mean", "hop_overlap") not in rows
    at_shares = [f"sufficiency_deleted_attention_{percent}" for percent in (1, 5, 10, 20, 50)]
    mean = np.mean([float(rows["structured", name]["value"]) for name in at_shares])
    assert float(rows["structured", "sufficiency_deleted_attention"]["value"]) == pytest.approx(mean)


def test_latex_has_a_table_for_each_question(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "insight=20", "format=latex"]) == 0
    board, *boards = capsys.readouterr().out.split(r"\begin{tabular}")[1:]
    assert "accuracy" in board
    assert len(boards) == 8  # none of them for the runs of two seeds alone
    for table in boards:
        header = next(line for line in table.splitlines() if "&" in line)
        assert header.count("&") <= 8
    comments = [line for line in board.splitlines() if line.startswith("%")]
    assert "structured" in " ".join(comments)  # the conclusion stands above the tables
    rows = [line for table in (board, *boards) for line in table.split(r"\end{tabular}")[0].splitlines() if "&" in line]
    assert not re.search(r"(?<![\\$])[~|#_%]", " ".join(rows).replace("$|$", ""))


def test_a_page_has_the_conclusion_and_curves(runs: Path, tmp_path: Path) -> None:
    assert main([str(runs), "insight=20", f"report={tmp_path / 'report.html'}"]) == 0
    text = (tmp_path / "report.html").read_text()
    headings = re.findall(r"<h2>([^<]+)</h2>", text)
    first, last = headings.index("Does the attention mean anything?"), headings.index("By share of the tokens")
    assert "C, tokens deleted" in headings[first + 1 : last]
    assert "ERASER" in text


def test_a_second_call_reads_what_the_first_one_stored(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "insight=10"]) == 0
    first = capsys.readouterr().out
    models = [file.rename(file.with_suffix(".away")) for file in runs.rglob("model.safetensors")]
    try:
        assert main([str(runs), "insight=10"]) == 0
    finally:
        for file in models:
            file.rename(file.with_suffix(".safetensors"))
    assert capsys.readouterr().out == first


def test_other_texts_are_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in runs.glob("demo/structured/*"):
        shutil.copytree(path, tmp_path / path.name, ignore=shutil.ignore_patterns("insight*"))
        run = Run(tmp_path / path.name)
        run.write_result(run.result | {"data_fingerprint": "0" * 16})
    assert main([str(tmp_path), "insight=10"]) == 0
    captured = capsys.readouterr()
    assert "other texts" in captured.err
    assert "shape of weights" not in captured.out


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
    estimate = insight(values_SN).estimate(["x"])
    rows, seeds = values_SN.mean(axis=0).var(ddof=1) / TEXTS, values_SN.mean(axis=1).var(ddof=1) / 3
    assert estimate.value == pytest.approx(values_SN.mean(), abs=1e-12)
    assert estimate.half_width() == pytest.approx(
        np.hypot(t.ppf(0.975, TEXTS - 1) * np.sqrt(rows), t.ppf(0.975, 2) * np.sqrt(seeds)), rel=1e-9
    )


def test_films_count_in_place_of_texts() -> None:
    film_N = np.repeat(np.arange(TEXTS // 4), 4)
    values_SN = RANDOM.normal(size=TEXTS // 4)[film_N] + np.zeros((3, 1))
    estimate = insight(values_SN, film_N).estimate(["x"])
    of_films = values_SN[0, ::4]
    assert estimate.error == pytest.approx(np.sqrt(of_films.var(ddof=1) / len(of_films)), rel=1e-9)
    assert estimate.terms[0].df == pytest.approx(len(of_films) - 1)


def test_error_of_a_ratio_is_over_the_texts_to_which_both_apply() -> None:
    x_SN, y_SN = RANDOM.normal(3, 1, (3, TEXTS)), RANDOM.normal(5, 1, (3, TEXTS))
    x_SN[0, :7] = x_SN[1, 3:12] = y_SN[0, 40:45] = np.nan
    estimate = insight(x_SN, y=y_SN).estimate(["x", "y"], truediv)
    both = [~np.isnan(x + y) for x, y in zip(x_SN, y_SN, strict=True)]
    ratio = lambda kept: np.mean(  # noqa: E731
        [x[kept & of_both].mean() / y[kept & of_both].mean() for x, y, of_both in zip(x_SN, y_SN, both, strict=True)]
    )
    of_seed = [x[of_both].mean() / y[of_both].mean() for x, y, of_both in zip(x_SN, y_SN, both, strict=True)]
    variance = variance_of_jackknife(ratio, np.arange(TEXTS)) + np.var(of_seed, ddof=1) / 3
    assert estimate.value == pytest.approx(np.mean(of_seed), rel=1e-12)
    assert estimate.error == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_a_difference_is_paired_and_over_the_same_texts() -> None:
    random_SN = np.linspace(0, 1, TEXTS) * np.ones((3, 1))
    attention_SN = random_SN.copy()  # as good as random tokens, wherever it ranks tokens at all
    attention_SN[:, TEXTS // 2 :] = np.nan
    found = insight(attention_SN, random=random_SN)
    estimate = found.estimate(["x", "random"], sub)
    assert (estimate.value, estimate.error) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-12))
    column = tables._less("x", "x", "random")
    assert column.estimate(found).value == pytest.approx(0, abs=1e-12)
    assert np.nanmean(attention_SN) - random_SN.mean() < -0.2  # what means over different texts would say
    shifted = insight(attention_SN + RANDOM.normal(0.5, 0.01, (3, TEXTS)), random=random_SN).estimate(
        ["x", "random"], sub
    )
    assert shifted.half_width() < 0.05 < random_SN[0].std()


def test_all_figures_of_a_table_are_over_the_same_texts() -> None:
    own = np.array([[1.0, 1, 0, 0, 1, 1]] * 3)
    even = np.array([[np.nan, np.nan, 0, 0, 1, 1]] * 3)
    block = Block("t", "a", [Column("own", "own", ["x"]), Column("even", "even", ["even"])])
    assert [one.value for one in block.estimates(insight(own, even=even))] == [0.5, 0.5]
    never = insight(own, even=np.full_like(own, np.nan))  # an attention that ranks nothing keeps the other figures
    assert block.estimates(never)[0].value == pytest.approx(4 / 6)


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_agreement_has_an_interval_from_three_seeds_on(seeds: int) -> None:
    weights = [[RANDOM.dirichlet(np.ones(6)) for _ in range(5)] for _ in range(seeds)]
    estimate = insight(np.ones((seeds, 5)), weights=weights).agreement()
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
    monkeypatch.setattr(tables, "BLOCKS", [Block("C, tokens deleted", "about", [Column("x", "x", ["x"])])])
    monkeypatch.setattr(tables, "CURVES", Block("", "", []))
    values_SN = RANDOM.normal(size=(3, TEXTS))
    weights = [[RANDOM.dirichlet(np.ones(6)) for _ in range(TEXTS)] for _ in range(3)]
    both = [insight(values_SN, weights=weights), insight(values_SN[:1], weights=weights[:1])]
    for style in ("table", "markdown"):
        assert ["±" in " ".join(lines([one], style, rows=TEXTS)) for one in both] == [True, False]  # type: ignore[arg-type]
    three, one = csv.DictReader(lines(both, "csv", rows=TEXTS)[1:])
    assert float(three["low"]) < float(three["value"]) < float(three["high"])
    assert (float(one["value"]), one["low"], one["high"]) == (pytest.approx(values_SN[0].mean()), "", "")


def test_the_conclusion_is_that_of_the_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [[RANDOM.dirichlet(np.ones(6)) for _ in range(TEXTS)] for _ in range(3)]
    even = [[np.full(6, 1 / 6)] * TEXTS] * 3
    monkeypatch.setattr(tables, "BLOCKS", [Block("C, tokens deleted", "about", [Column("x", "x", ["x"])])])
    noise_SN = RANDOM.normal(0, 0.1, (3, TEXTS))
    settings = {
        "high": insight(1 + noise_SN, weights=weights),
        "low": insight(noise_SN - 1, weights=weights),
        "zero": insight(noise_SN - noise_SN.mean(), weights=weights),
        "single": insight(1 + noise_SN[:1], weights=weights[:1]),
        "tied": insight(np.full((3, TEXTS), np.nan), weights=even),
    }
    named = [replace(one, setting=replace(one.setting, name=name)) for name, one in settings.items()]
    parts = tables.conclusion(named).split(";")
    places = {name: next(i for i, part in enumerate(parts) if f"{name} " in part) for name in settings}
    assert sorted(places.values()) == [0, 1, 2, 3, 4]
    texts = {name: parts[place] for name, place in places.items()}
    assert "more than for random tokens" in texts["high"]
    assert "less" in texts["low"]
    assert "not fall measurably more" in texts["zero"]
    assert "without an interval" in texts["single"]
    assert "even weights" in texts["tied"]
