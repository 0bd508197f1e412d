"""`insight=true`: the table of real runs, and intervals against independent computations in NumPy."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import make_setting
from scipy.stats import kendalltau, t
from tiny import tiny

import sentattn
from sentattn import fit
from sentattn.compare import insight as module
from sentattn.compare.__main__ import main
from sentattn.compare.insight import COLUMNS, Column, Insight
from sentattn.compare.statistics import Estimate, Term, blocks
from sentattn.insight.diagnostics import Diagnostics
from sentattn.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("insight")
    short = ["trainer.max_epochs=1", f"output_dir={folder}"]
    for seed in (0, 1):
        fit(tiny("model=structured", f"seed={seed}", *short))
    fit([word for word in tiny("model=lstm_mean", *short) if "attention.hidden" not in word])
    unused = ("attention.hidden", "encoder.hidden")
    wide = tiny("model=mean", "model/wide=attended_ngrams", *short)
    fit([word for word in wide if not any(key in word for key in unused)])
    return folder


def test_one_table_below_the_leaderboard(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "insight=10"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines() if len(line.split()) > 1) <= 80
    assert "10 of" in out.split("Does the attention mean anything?")[1].splitlines()[0]
    heading = next(line for line in out.splitlines() if "C attn" in line)
    rows = {line.split()[0]: line for line in out.split(heading)[1].split("\n\n")[0].splitlines() if line.strip()}
    values = {name: rows[name].split()[1:] for name in ("structured", "lstm_mean")}
    assert [value == "-" for value in values["structured"]] == [False] * 8
    assert [value == "-" for value in values["lstm_mean"]] == [False, True, True, False, False, True, False, False]


def test_each_setting_has_one_row_and_only_what_applies(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "insight=10", "format=markdown"]) == 0
    heading, _, *rows = [
        line for line in capsys.readouterr().out.split("mean anything?")[1].splitlines() if "|" in line
    ]
    names = [cell.strip() for cell in heading.strip("|").split("|")]
    found = {
        cells[0].strip(): dict(zip(names, map(str.strip, cells), strict=True))
        for cells in (row.strip("|").split("|") for row in rows)
    }
    assert len(found) == 3
    [wide] = (name for name in found if name.startswith("mean"))
    assert (found[wide]["C attn"], found[wide]["C grad"] != "-") == ("-", True)  # its even weights over states
    assert "Does the attention mean anything?" in sentattn.leaderboard(runs, insight=10)._repr_html_()


def test_csv_is_a_frame_in_a_file_of_its_own(runs: Path, tmp_path: Path) -> None:
    assert main([str(runs), "insight=10", "format=csv", f"output={tmp_path / 'board.csv'}"]) == 0
    board = list(csv.DictReader((tmp_path / "board.csv").read_text().splitlines()))
    assert {"accuracy", "settings"} <= board[0].keys()
    assert all(None not in row for row in board)
    rows = list(csv.DictReader((tmp_path / "board-insight.csv").read_text().splitlines()))
    assert all(None not in row and None not in row.values() for row in rows)
    assert {(row["data"], row["split"]) for row in rows} == {("demo", "test")}
    found = {(row["settings"], row["metric"]): row for row in rows}
    assert found["structured", "tokens"]["seeds"] == "2"
    assert float(found["structured", "tokens"]["value"]) > 1
    assert ("lstm_mean", "hop_overlap") not in found


def test_a_page_has_the_conclusion_and_the_table(runs: Path, tmp_path: Path) -> None:
    assert main([str(runs), "insight=10", f"report={tmp_path / 'report.html'}"]) == 0
    text = (tmp_path / "report.html").read_text()
    section = text.split("<h2>Does the attention mean anything?</h2>")[1].split("</section>")[0]
    assert section.index("probability of the predicted class") < section.index("<table>")
    assert '<th scope="col">C attn</th>' in section
    assert section.count("<table>") == 1


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
    assert "C attn" not in captured.out


OWN = """
import torch
from sentattn.models.attention.base import Attended, Attention, masked_softmax
class Mine(Attention):
    def __init__(self, *, dim: int):
        super().__init__()
        self.out_dim, self.hops = dim, 1
        self.query = torch.nn.Parameter(torch.randn(1, dim))
    def forward(self, states, mask):
        weights = masked_softmax(self.query @ states.transpose(1, 2), mask)
        return Attended(weights @ states, weights)
"""


def test_own_attentions_are_diagnosed_with_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_attentions.py").write_text(OWN)
    folder = tmp_path / "conf" / "model" / "attention"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("_target_: own_attentions.Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    short = tiny("model=lstm", "trainer.max_epochs=1", f"output_dir={tmp_path}")
    words = [word for word in short if "attention.hidden" not in word]
    run = fit([*words, f"--config-dir={tmp_path / 'conf'}", "model/attention=mine"])
    report = tmp_path / "report.html"
    assert main([str(run.path), "insight=5", f"report={report}"]) == 0
    assert "trust=true" in capsys.readouterr().err
    assert main([str(run.path), "insight=5", f"report={report}", "trust=true"]) == 0
    captured = capsys.readouterr()
    assert "C attn" in captured.out
    assert "trust" not in captured.err
    assert "true class" in report.read_text()
    for stored in run.path.glob("insight*"):
        stored.unlink()
    assert "C attn" in str(sentattn.leaderboard(run.path, insight=5, trust=True))
    for stored in run.path.glob("insight*"):
        stored.unlink()
    assert "C attn" in str(sentattn.leaderboard(run, insight=5))  # `fit` returns a run that is trusted


TEXTS = 60
RANDOM = np.random.default_rng(0)
X, Y = Column("x", "x", "x", bounds=(-np.inf, np.inf)), Column("y", "y", "x", "random", bounds=(-np.inf, np.inf))
SEED_AGREEMENT = next(column for column in COLUMNS if column.name == "seed_agreement")


def insight(values_SN: Any, group_N: Any = None, weights: Any = None, name: str = "mine", **others: Any) -> Insight:
    """The diagnostics of seeds with a measure `x`."""
    seeds, texts = np.shape(values_SN)
    setting = make_setting(np.full((seeds, texts, 2), 0.5), np.zeros(texts, int), name, path=Path("none"))
    diagnostics = [
        Diagnostics({"x": row, **{key: values[s] for key, values in others.items()}}, weights[s] if weights else [])
        for s, row in enumerate(np.asarray(values_SN, dtype=float))
    ]
    return Insight(setting, diagnostics, blocks(texts, group_N))


def variance_of_jackknife(statistic: Any, block_N: Any) -> float:
    without = [statistic(block_N != block) for block in np.unique(block_N)]
    deviations = np.array(without) - statistic(block_N >= 0)
    return float((len(without) - 1) / len(without) * (deviations**2).sum())


def test_error_of_a_mean_counts_texts_and_seeds() -> None:
    values_SN = RANDOM.normal(size=(3, TEXTS)) + RANDOM.normal(size=(3, 1))
    estimate = insight(values_SN).estimate(X)
    rows, seeds = values_SN.mean(axis=0).var(ddof=1) / TEXTS, values_SN.mean(axis=1).var(ddof=1) / 3
    assert estimate.value == pytest.approx(values_SN.mean(), abs=1e-12)
    assert estimate.half_width() == pytest.approx(
        np.hypot(t.ppf(0.975, TEXTS - 1) * np.sqrt(rows), t.ppf(0.975, 2) * np.sqrt(seeds)), rel=1e-9
    )


def test_films_count_in_place_of_texts() -> None:
    film_N = np.repeat(np.arange(TEXTS // 4), 4)
    values_SN = RANDOM.normal(size=TEXTS // 4)[film_N] + np.zeros((3, 1))
    estimate = insight(values_SN, film_N).estimate(X)
    of_films = values_SN[0, ::4]
    assert estimate.error == pytest.approx(np.sqrt(of_films.var(ddof=1) / len(of_films)), rel=1e-9)
    assert estimate.terms[0].df == pytest.approx(len(of_films) - 1)


def test_texts_to_which_a_measure_does_not_apply_are_left_out() -> None:
    x_SN = RANDOM.normal(3, 1, (3, TEXTS))
    x_SN[0, :7] = x_SN[1, 3:12] = np.nan
    estimate = insight(x_SN).estimate(X)
    applies = ~np.isnan(x_SN)
    mean = lambda kept: np.mean([x[kept & of_seed].mean() for x, of_seed in zip(x_SN, applies, strict=True)])  # noqa: E731
    of_seed = np.nanmean(x_SN, axis=1)
    variance = variance_of_jackknife(mean, np.arange(TEXTS)) + np.var(of_seed, ddof=1) / 3
    assert estimate.value == pytest.approx(np.mean(of_seed), rel=1e-12)
    assert estimate.error == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_a_difference_is_paired_and_over_the_same_texts() -> None:
    random_SN = np.linspace(0, 1, TEXTS) * np.ones((3, 1))
    attention_SN = random_SN.copy()  # as good as random tokens, wherever it ranks tokens at all
    attention_SN[:, TEXTS // 2 :] = np.nan
    estimate = insight(attention_SN, random=random_SN).estimate(Y)
    assert (estimate.value, estimate.error) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-12))
    assert np.nanmean(attention_SN) - random_SN.mean() < -0.2  # what means over different texts would say
    shifted = insight(attention_SN + RANDOM.normal(0.5, 0.01, (3, TEXTS)), random=random_SN).estimate(Y)
    assert shifted.half_width() < 0.05 < random_SN[0].std()


def test_intervals_stay_within_what_is_possible() -> None:
    overlap = column_of("hop_overlap")
    values_SN = np.clip(RANDOM.normal(0.9, 0.2, (3, TEXTS)), 0, 1)
    low, high = insight(np.add(values_SN, [[0], [0.1], [-0.3]])).estimate(overlap).interval()
    assert high == 1
    assert low > 0
    tokens = insight(1 + np.zeros((3, TEXTS)) + [[0], [1], [2]]).estimate(column_of("tokens"))
    assert tokens.interval()[0] == 1


def column_of(name: str) -> Column:
    """A column of the table, of the measure `x`."""
    return next(column for column in COLUMNS if column.name == name)._replace(measure="x")


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_agreement_has_an_interval_from_three_seeds_on(seeds: int) -> None:
    weights = [[RANDOM.dirichlet(np.ones(6)) for _ in range(5)] for _ in range(seeds)]
    estimate = insight(np.ones((seeds, 5)), weights=weights).estimate(SEED_AGREEMENT)
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


def test_one_seed_has_numbers_and_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COLUMNS", [X])
    values_SN = RANDOM.normal(size=(3, TEXTS))
    several, single = (module.table([insight(values)]).rows[0] for values in (values_SN, values_SN[:1]))
    assert ["±" in cells[1] for cells in (several, single)] == [True, False]


@pytest.mark.parametrize(
    ("value", "error", "digits", "expected"),
    [(0.1234, 0.02, 3, "0.123"), (0.00042, 0.0001, 3, "0.0004"), (-0.0001, 0.02, 3, "0.000"), (7.36, 3.0, 1, "7.4")],
)
def test_no_interval_is_rounded_to_nothing(value: float, error: float, digits: int, expected: str) -> None:
    shown, half = module.rounded(Estimate(value, [Term(error**2, 100)]), digits).split(" ±")
    assert shown == expected
    assert float(half) > 0


def test_the_conclusion_is_that_of_adjusted_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [[RANDOM.dirichlet(np.ones(6)) for _ in range(TEXTS)] for _ in range(3)]
    even = [[np.full(6, 1 / 6)] * TEXTS] * 3
    monkeypatch.setattr(module, "FAITHFULNESS", X)
    noise_SN = RANDOM.normal(0, 0.1, (3, TEXTS))
    noise_SN -= noise_SN.mean(axis=1, keepdims=True)
    found = [
        insight(1 + noise_SN, weights=weights, name="high"),
        insight(noise_SN - 1, weights=weights, name="low"),
        insight(noise_SN, weights=weights, name="zero"),
        insight(0.003 + noise_SN / 1000, weights=weights, name="tiny"),
        insight(1 + noise_SN[:1], weights=weights[:1], name="single"),
        insight(np.full((3, TEXTS), np.nan), weights=even, name="tied"),
    ]
    parts = module.conclusion(found).split(";")
    texts = {one.setting.name: next(part for part in parts if f"{one.setting.name} " in part) for one in found}
    assert "falls more" in texts["high"]
    assert "falls less" in texts["low"]
    assert texts["zero"] == texts["tiny"]
    assert "not fall measurably more" in texts["zero"]
    assert "without an interval" in texts["single"]
    assert "even weights" in texts["tied"]
    assert len(parts) == 5
    # An effect that is sure by itself and not among many tests.
    shifted_SN = noise_SN + 2.2 * noise_SN.mean(axis=0).std(ddof=1) / TEXTS**0.5
    assert "falls more" in module.conclusion([insight(shifted_SN, weights=weights)])
    assert "falls more" not in module.conclusion([insight(shifted_SN, weights=weights, name=f"s{i}") for i in range(9)])
