"""Settings whose rows were tested in folds: which runs are one, what is tested, and what is said of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import assert_refused
from run_folders import PLAN, compare, make_run, write_plan

from sentattn.compare.__main__ import main
from sentattn.compare.comparison import read_comparisons
from sentattn.compare.leaderboard import heading
from sentattn.compare.report.charts import learning_charts
from sentattn.compare.statistics import AGREEMENT, average

TABLE = ["data=table", "data.train=a.csv", "data.folds=5"]


def train(folder: Path, model: str, seeds: Sequence[int] = (0, 1), folds: int = 5, **options: Any) -> list[Path]:
    """Writes the runs of all folds of some seeds."""
    words = [f"model={model}", *TABLE[:2], f"data.folds={folds}"]
    return [
        make_run(folder, *words, f"data.fold={fold}", seed=seed, rows=300, **options)
        for seed in seeds
        for fold in range(folds)
    ]


def text_of(folder: Path) -> str:
    return "\n".join(line for title, items in compare(folder).messages for line in (title, *items))


@pytest.mark.parametrize("films", [0, 40])
def test_the_folds_of_a_seed_are_one_run_over_all_rows(tmp_path: Path, films: int) -> None:
    train(tmp_path, "structured", accuracy=0.9, films=films)
    train(tmp_path, "lstm_mean", accuracy=0.6, films=films)
    found = compare(tmp_path)
    first, second = found.leaderboard
    assert (first.name, second.name, len(first.runs)) == ("structured", "lstm_mean", 2)
    assert found.rows.row_ids == tuple(f"{number:016x}" for number in range(300))
    assert found.counts.startswith("300 rows in" if films else "300 rows")
    assert first.folds is not None
    assert np.bincount(first.folds[0]).min() > 0
    assert not np.array_equal(first.folds[0], first.folds[1])
    [pair] = found.tests
    assert (pair.declared, pair.verdict) == (True, "better")
    expected = average(first.correct - second.correct, found.rows.group_N, fold_SN=first.folds, half_rows=AGREEMENT)
    assert pair.estimate.terms == expected.terms
    assert "; approximately, 5 folds x 2 seeds)" in pair.message(0.5)
    interval = first.interval()
    assert interval is not None
    assert interval[0] < first.metrics["accuracy"].value < interval[1]
    assert "Means over seeds and 5 folds, with approximate 95% intervals." in heading(found)
    assert "same rows." not in heading(found)


def test_one_seed_has_a_verdict(tmp_path: Path) -> None:
    for model, accuracy in (("structured", 0.95), ("lstm_mean", 0.5)):
        train(tmp_path, model, [0], accuracy=accuracy)
    [pair] = compare(tmp_path).tests
    assert (pair.verdict, pair.estimate.df) == ("better", 4)
    assert "5 folds x 1 seed)" in pair.message(0.5)
    assert "These two trained models" not in text_of(tmp_path)


def test_two_folds_of_one_seed_are_too_few(tmp_path: Path) -> None:
    for model in ("structured", "lstm_mean"):
        train(tmp_path, model, [0], folds=2)
    assert not compare(tmp_path).tests
    assert "seed=1 seeds=2 data.fold=null" in text_of(tmp_path)


def test_other_metrics_are_tested_by_folds(tmp_path: Path) -> None:
    for model, accuracy in (("structured", 0.9), ("lstm_mean", 0.6)):
        train(tmp_path, model, accuracy=accuracy)
    for name in ("f1_macro", "log_loss", "auroc"):
        [pair] = compare(tmp_path).by(name, None).tests
        assert (pair.verdict, pair.estimate.df) == ("better", 9)


@pytest.mark.parametrize(("gone", "words"), [([3], "from={} data.fold=3"), ([0, 2], "-m from={} data.fold=0,2")])
def test_a_seed_that_lacks_folds_does_not_count(tmp_path: Path, gone: list[int], words: str) -> None:
    runs = train(tmp_path, "structured")
    for fold in gone:
        shutil.rmtree(runs[5 + fold])
    [comparison], [fault] = read_comparisons([tmp_path], split="test")
    assert [run.seed for run in comparison.settings[0].runs] == [0]
    assert (fault.key, fault.kind) == ("runs", "missing")
    assert f"python -m sentattn.train {words.format(runs[9])}" in fault.message
    for run in runs[:5]:
        shutil.rmtree(run)
    assert_refused(lambda: read_comparisons([tmp_path], split="test"), "runs", "missing")


def test_a_fold_that_was_trained_again_counts_once(tmp_path: Path) -> None:
    runs = train(tmp_path, "structured", [0])
    again = make_run(tmp_path / "again", "model=structured", *TABLE, "data.fold=1", rows=300, accuracy=0.1)
    again.rename(runs[1].with_name("2027-again"))
    assert compare(tmp_path).settings[0].metrics["accuracy"].value < 0.75


def test_folds_of_other_rows_are_left_out(tmp_path: Path) -> None:
    runs = train(tmp_path, "structured", [0])
    shutil.rmtree(runs[1])
    make_run(tmp_path, "model=structured", *TABLE, "data.fold=1", rows=300, rows_seed=1)
    assert_refused(lambda: compare(tmp_path), "data", "conflict", "rows in common")


def test_a_pair_needs_the_same_seeds(tmp_path: Path) -> None:
    train(tmp_path, "structured")
    train(tmp_path, "lstm_mean", [0])
    assert not compare(tmp_path).tests
    assert "the same seeds; there are lstm_mean 0; structured 0, 1." in text_of(tmp_path)
    train(tmp_path, "lstm_mean", [1])
    assert len(compare(tmp_path).tests) == 1


def test_validation_rows_of_folds_are_not_compared(tmp_path: Path) -> None:
    train(tmp_path, "structured", split="val")
    assert_refused(lambda: compare(tmp_path, "val"), "split", "unsupported", "split=test")


def test_a_plan_with_folds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(tmp_path, seeds=[0], base=[*TABLE, "model=structured"], pairs=PLAN["pairs"][:1])
    runs = tmp_path / "outputs"
    train(runs, "structured", [0], accuracy=0.9)
    words = [str(runs), f"plan={plan}", f"output_dir={tmp_path}"]
    assert main(words) == 2
    assert "data.folds=5 model=structured model/attention=uniform seed=0" in capsys.readouterr().err
    train(runs, "lstm_mean", [0], accuracy=0.6)
    assert main(words) == 0
    assert "1 declared pair" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["reference=tfidf", "table=other.csv", "format=predictions output=written.csv"])
def test_what_has_no_folds_is_refused(tmp_path: Path, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, "structured", [0])
    assert main([str(tmp_path), *word.split(), f"output_dir={tmp_path}"]) == 2
    assert "data.folds" in capsys.readouterr().err


def test_a_report_has_a_learning_curve_for_each_fold_and_no_texts(tmp_path: Path) -> None:
    for run in [*train(tmp_path, "structured", [0]), *train(tmp_path, "lstm_mean", [0])]:
        (run / "metrics.jsonl").write_text('{"epoch": 1, "val/accuracy": 0.8}\n')
    [drawn] = learning_charts(compare(tmp_path).leaderboard)
    assert len(drawn.figure.data) == 10
    assert main([str(tmp_path), f"report={tmp_path / 'report.html'}"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "5 folds x 1 seed" in page
    assert "Accuracy by kind of text" not in page
