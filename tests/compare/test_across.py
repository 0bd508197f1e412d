"""Verdicts over data sets, and gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from run_folders import PLAN, lines, make_run, make_seeds, write_plan
from scipy import stats

import sentattn
from sentattn.compare.__main__ import main
from sentattn.compare.across import common_texts, gate, mean_of, of_one_family, over_data_sets
from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.figure import draw_overall
from sentattn.compare.plan import apply, read_plan
from sentattn.compare.predictions import add_tables
from sentattn.compare.statistics import Estimate, Term

GAINS = (0.05, 0.15, 0.1, 0.2, 0.0)


def table(folder: Path, gains: Sequence[float] = GAINS[:3]) -> Path:
    """Predictions of two settings on several data sets."""
    frames = [lines(rows=400, new=0.75 + gain, old=0.75).assign(data=f"set{k}") for k, gain in enumerate(gains)]
    pd.concat(frames).to_csv(file := folder / "table.csv", index=False)
    return file


def comparisons(folder: Path, gains: Sequence[float] = GAINS[:3]) -> list[Comparison]:
    return of_one_family(add_tables([str(table(folder, gains))], [], "test"))


def test_the_mean_has_the_interval_of_a_t_test_over_data_sets() -> None:
    values = [0.01, 0.03, 0.02, 0.06]
    found = mean_of([Estimate(value, [Term(1.0, 5)]) for value in values])  # whatever the single errors are
    expected = stats.ttest_1samp(values, 0)
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_difference() == pytest.approx(expected.pvalue, rel=1e-6)


def test_three_data_sets_have_a_verdict_and_all_differences_are_one_family(tmp_path: Path) -> None:
    found = comparisons(tmp_path)
    [overall] = over_data_sets(found)
    assert list(overall.by_data) == ["set0", "set1", "set2"]
    assert {pair.level for pair in overall.by_data.values()} == {0.05 / 3}
    assert overall.mean.level == 0.05
    values = [pair.estimate.value for pair in overall.by_data.values()]
    assert overall.mean.estimate.value == pytest.approx(np.mean(values))
    assert "further data set" not in overall.message
    for result, pair in zip(overall.results, overall.by_data.values(), strict=True):
        low, high = pair.estimate.interval(1 - 0.05 / 3)
        assert result == ("win" if low > 0 else "loss" if high < 0 else "tie")


def test_five_have_an_interval_for_a_further_data_set(tmp_path: Path) -> None:
    [overall] = over_data_sets(comparisons(tmp_path, GAINS))
    values = [pair.estimate.value for pair in overall.by_data.values()]
    half = stats.t.ppf(0.975, 4) * np.std(values, ddof=1) * np.sqrt(1 + 1 / 5)
    assert f"between {100 * (np.mean(values) - half):.2f} and {100 * (np.mean(values) + half):.2f}" in overall.message


def test_two_data_sets_have_none(tmp_path: Path) -> None:
    found = comparisons(tmp_path, GAINS[:2])
    assert over_data_sets(found) == []
    assert {comparison.family for comparison in found} == {None}


def test_data_sets_with_common_texts_have_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for data in ("demo", "other", "third"):  # the rows of `make_run` have the same names
        for seed in range(3):
            for model, accuracy in (("structured", 0.9), ("lstm_mean", 0.7)):
                words = [f"model={model}", f"data.name={data}"] if data != "demo" else [f"model={model}"]
                make_run(tmp_path / data, *words, seed=seed, accuracy=accuracy)
    found, _ = read_comparisons([tmp_path], split="test")
    assert (fault := common_texts(found))
    assert (fault.key, fault.kind) == ("runs", "conflict")
    assert main([str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "Over 3 data sets" not in captured.out
    assert "texts in common" in captured.err


@pytest.mark.parametrize(
    ("typed", "margin", "code"),
    [("new,old", "0.5", 0), ("old,new", "0.5", 1), ("old,new", "40", 0), ("new,other", "0.5", 2)],
)
def test_a_gate_is_an_exit_code(tmp_path: Path, typed: str, margin: str, code: int) -> None:
    lines(new=0.9, old=0.75).to_csv(file := tmp_path / "t.csv", index=False)
    assert main([f"table={file}", f"gate={typed}", f"margin={margin}"]) == code


def test_a_gate_is_one_sided_and_a_family_of_one(tmp_path: Path) -> None:
    lines(new=0.9, old=0.75, third=0.75, fourth=0.8).to_csv(file := tmp_path / "t.csv", index=False)
    [comparison] = add_tables([str(file)], [], "test")
    estimate = comparison.difference(comparison.find("new", ""), comparison.find("old", ""))
    assert estimate is not None
    passes, text = gate([comparison], "new,old")
    low, _ = estimate.interval(0.9)
    assert passes
    assert f"at least +{100 * low:.2f}" in text


def test_a_gate_over_data_sets_is_about_their_mean(tmp_path: Path) -> None:
    found = comparisons(tmp_path)
    passes, text = gate(found, "new,old")
    values = [pair.estimate.value for pair in over_data_sets(found)[0].by_data.values()]
    least = np.mean(values) - stats.t.ppf(0.95, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert passes == (least > -0.005)
    assert f"at least {100 * least:+.2f}" in text
    assert refused(lambda: gate(found[:2], "new,old")) == [("gate", "conflict")]


def test_the_figure_shows_each_data_set_and_their_mean(tmp_path: Path) -> None:
    [overall] = over_data_sets(comparisons(tmp_path))
    by_data = {f"_${name}$": pair for name, pair in overall.by_data.items()}
    figure = draw_overall([replace(overall, by_data=by_data)])
    drawn = np.concatenate([np.ravel(line.get_xdata()) for line in figure.axes[0].lines])
    for pair in (*by_data.values(), overall.mean):
        assert np.isclose(drawn, 100 * pair.estimate.value).any()
    names = {text.get_text() for child in figure.subfigs[0].legends for text in child.get_texts()}
    assert names > by_data.keys()


def test_a_gate_needs_seeds(tmp_path: Path) -> None:
    lines(seeds=2).to_csv(file := tmp_path / "t.csv", index=False)
    assert refused(lambda: gate(add_tables([str(file)], [], "test"), "new,old")) == [("gate", "missing")]


def test_a_plan_names_settings_of_a_table_and_data_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = {"metric": "f1_macro", "base": [], "pairs": [{"a": {"setting": "new"}, "b": {"setting": "old"}}]}
    file = write_plan(tmp_path, **plan, data=["set0", "set1", "set2"])
    words = [f"table={table(tmp_path)}", f"plan={file}", f"output_dir={tmp_path}"]
    report, figure = tmp_path / "page.html", tmp_path / "figure.png"
    assert main([*words, f"report={report}", f"figure={figure}"]) == 0
    output = capsys.readouterr().out
    assert "Over 3 data sets" in output
    assert "of f1_macro" in output
    assert "Over data sets" in report.read_text(encoding="utf-8")
    assert figure.stat().st_size > 1000
    write_plan(tmp_path, **plan, data=["set0", "set7"])
    assert main(words) == 2


def test_another_setting_on_one_data_set_changes_no_planned_verdict(tmp_path: Path) -> None:
    datasets = ["demo", "imdb", "yelp"]
    file = write_plan(tmp_path, base=["model=structured"], data=datasets, pairs=PLAN["pairs"][:1])
    for data in datasets:
        make_seeds(tmp_path / "runs", {"structured": 0.9, "lstm_mean": 0.7}, f"data={data}")
    verdicts = []
    for hops in (None, 2):
        if hops:
            make_run(tmp_path / "runs", "model=structured", "data=imdb", f"model.attention.hops={hops}")
        found, _ = read_comparisons([tmp_path / "runs"], split="test")
        planned = of_one_family(apply(read_plan(file), found, tmp_path))
        assert {comparison.family for comparison in planned} == {3}
        [overall] = over_data_sets(planned)
        assert list(overall.by_data) == datasets
        verdicts.append((overall.mean.first.name, overall.mean.second.name, overall.mean.estimate.interval()))
    assert verdicts[0] == verdicts[1]


def test_a_missing_verdict_over_data_sets_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = [lines(**{f"new{k}": 0.9, "old": 0.7}).assign(data=f"set{k}") for k in range(3)]
    pd.concat(frames).to_csv(file := tmp_path / "t.csv", index=False)
    assert main([f"table={file}"]) == 0
    assert "no verdict over data sets" in capsys.readouterr().err
    assert main([f"table={table(tmp_path)}"]) == 0
    assert capsys.readouterr().err == ""


def test_a_notebook_and_the_tests_have_the_verdict(tmp_path: Path) -> None:
    board = sentattn.leaderboard(table=str(table(tmp_path)))
    [overall] = board.overall
    assert "Over 3 data sets" in board._repr_html_()
    *_, row = board.pairs
    assert (row["data"], row["family"], row["difference"]) == (
        "3 data sets",
        "over data sets",
        overall.mean.estimate.value,
    )
