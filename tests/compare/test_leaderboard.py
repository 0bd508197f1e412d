"""The leaderboard, and what is printed after a training."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from run_folders import compare, make_run, write_predictions
from scipy import stats

from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.leaderboard import board_lines, message_lines, notes, training_lines
from sentattn.compare.report.page import part
from sentattn.metrics import MAJORITY
from sentattn.run import Run

LABELS = np.array([1] * 149 + [0] * 51)


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """A setting that predicts the larger class for all rows, with one of its two seeds, and another setting."""
    for name, seed, predicted in (("mean", 0, np.ones(200, int)), ("mean", 1, LABELS), ("structured", 0, LABELS)):
        path = make_run(tmp_path, f"model={name}", seed=seed)
        accuracy = float((predicted == LABELS).mean())
        probabilities = np.where(np.arange(2) == predicted[:, None], 0.9, 0.1)
        write_predictions(path, "test", LABELS, predicted, probabilities, None)
        result = (path / "result.json").read_text()
        metrics = f'"metrics": {{"test/accuracy": {accuracy}, "val/accuracy": 0.5}}'
        start, end = result.index('"metrics"'), result.index("}", result.index('"metrics"')) + 1
        (path / "result.json").write_text(result[:start] + metrics + result[end:])
    [found], faults = read_comparisons([tmp_path], split="test")
    assert not faults
    return found


@pytest.mark.parametrize("style", ["table", "markdown", "csv", "latex"])
def test_the_last_row_is_the_share_of_the_largest_class(comparison: Comparison, style: str) -> None:
    board = board_lines(comparison, style)  # type: ignore[arg-type]
    [row] = [line for line in board if MAJORITY in line]
    assert "0.745" in row
    if style == "csv":
        header, *_, last = csv.reader(board)
        assert len(last) == len(header)
        assert last[header.index("accuracy")] == "0.745"
        assert set(last) == {MAJORITY, "", "0.745"}


def test_the_page_has_the_row_too(comparison: Comparison) -> None:
    [section, *_] = part(comparison).sections
    assert section.tables[0].rows[-1][:4] == ["", MAJORITY, "-", "0.7450"]


def test_a_setting_that_predicts_one_class_is_named_with_its_seeds(comparison: Comparison) -> None:
    [note] = notes(comparison.leaderboard)
    assert note.startswith("mean: ")
    assert "(seed 0)" in note


def trained(folder: Path, *overrides: str, **options: Any) -> Run:
    """A finished run with predictions of validation rows."""
    return Run(make_run(folder, f"output_dir={folder}", *overrides, split="val", **options))


def board(run: Run) -> list[list[str]]:
    """The words of each row below the header of the leaderboard."""
    return [line.split() for line in training_lines([run])[2:]]


def test_a_setting_alone_has_no_leaderboard(tmp_path: Path) -> None:
    trained(tmp_path, seed=1)
    assert training_lines([trained(tmp_path)]) == []


def test_the_leaderboard_ranks_settings_and_marks_this_one(tmp_path: Path) -> None:
    trained(tmp_path, "model.attention.hops=8", accuracy=0.95)
    trained(tmp_path, "model.attention.hops=8", accuracy=0.95, seed=1)
    trained(tmp_path, "model=mean", accuracy=0.55)
    lines = training_lines([trained(tmp_path, accuracy=0.75)])
    assert lines[0].startswith("3 settings")
    first, own, last = (line.split() for line in lines[2:] if line.lstrip("> ")[0].isdecimal())
    assert first[:4] == ["1", "structured;", "attention.hops=8", "2"]
    assert own[:3] == [">", "2", "structured;"]
    assert last[:3] == ["3", "mean", "1"]


def test_where_less_is_better_the_least_comes_first(tmp_path: Path) -> None:
    objective = ["objective.metric=val/log_loss", "objective.mode=min"]
    trained(tmp_path, "model=mean", *objective, accuracy=0.55)
    rows = board(trained(tmp_path, *objective, accuracy=0.95))
    assert [row[:2] for row in rows] == [[">", "1"], ["2", "mean"]]


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        (0.99, ["1", "2", "3", "4", "5", "4 more"]),
        (0.46, ["1", "2", "3", "4", "5", "6", "7", "2 more"]),
        (0.15, ["1", "2", "3", "4", "5", "...", "7", "8", "9"]),
        (0.02, ["1", "2", "3", "4", "5", "...", "8", "9"]),
    ],
)
def test_the_top_and_the_rows_next_to_the_run_are_shown(accuracy: float, expected: list[str], tmp_path: Path) -> None:
    for hops, other in enumerate([0.9, 0.8, 0.7, 0.65, 0.55, 0.35, 0.2, 0.1], start=5):
        trained(tmp_path, f"model.attention.hops={hops}", accuracy=other, rows=1000)
    rows = board(trained(tmp_path, accuracy=accuracy, rows=1000))
    shown = [" ".join(row) if row[-1] == "more" else row[1] if row[0] == ">" else row[0] for row in rows]
    assert shown == expected


def test_classes_outside_the_model_tell_settings_apart(tmp_path: Path) -> None:
    trained(tmp_path, "optimizer=sgd")
    text = " ".join(training_lines([trained(tmp_path)]))
    assert "optimizer=SGD" in text


def test_trials_of_sweeps_and_runs_on_other_rows_have_no_row(tmp_path: Path) -> None:
    trained(tmp_path, "model=mean", study="s", accuracy=0.9, data_fingerprint="1")
    trained(tmp_path, "model=lstm", data_fingerprint="2")
    assert training_lines([trained(tmp_path, data_fingerprint="1")]) == []


def test_the_newest_results_are_read_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of their folders begin with the time of their training."""
    content = trained(tmp_path, "model=mean").result
    for number in range(100):
        path = tmp_path / "demo" / ("lstm", "mean")[number % 2] / f"20261124-{number:06}-0000"
        path.mkdir(parents=True)
        for name in ("config.yaml", "predictions.parquet"):
            (path / name).write_text("")
        accuracy = content["metrics"] | {"val/accuracy": number / 100}
        (path / "result.json").write_text(json.dumps(content | {"setting": f"{number}", "metrics": accuracy}))
    own, opened = trained(tmp_path, accuracy=0.5), []
    original = io.open

    def opening(file: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(Path(file) if isinstance(file, str | Path) else file)
        return original(file, *arguments, **options)

    training_lines([own])  # reads the names of choices from the configuration, once a process
    monkeypatch.setattr(io, "open", opening)
    monkeypatch.setattr("builtins.open", opening)
    lines = training_lines([own])
    runs = {path for path in opened if tmp_path in path.parents}
    assert {path.name for path in runs} == {"result.json"}
    assert len(runs) == 21  # the newest and this run
    assert lines[0].startswith("21 settings")
    assert "0.9900" in lines[2]
    assert not any("0.7900" in line for line in lines)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"data": "demo"}'])
def test_damaged_runs_are_passed_over(tmp_path: Path, text: str) -> None:
    (trained(tmp_path, "model=mean").path / "result.json").write_text(text)
    trained(tmp_path, "model=lstm")
    assert len(board(trained(tmp_path))) == 2


def test_a_tuned_setting_fits_80_columns(tmp_path: Path) -> None:
    tuned = [
        "model.attention.hops=8",
        "optimizer=sgd",
        "loss.penalty=1.0",
        "scheduler=one_cycle",
        "ema_decay=0.39277946",
    ]
    trained(tmp_path, *tuned)
    lines = training_lines([trained(tmp_path)])
    assert max(map(len, lines)) <= 80
    assert "ema_decay=0.3928" in "".join("".join(lines).split())


def test_several_seeds_have_the_mean_of_each_metric(tmp_path: Path) -> None:
    runs = [trained(tmp_path, seed=seed, rows=400) for seed in range(3)]
    lines = training_lines(runs)
    assert "seeds (0, 1, 2)" in lines[0]
    values = {name: cells for name, *cells in map(str.split, lines[2:])}
    correct_SN = np.stack([correct(run.path) for run in runs])
    mean, error = correct_SN.mean(), np.sqrt(correct_SN.mean(0).var() / 399 + correct_SN.mean(1).var(ddof=1) / 3)
    assert float(values["accuracy"][0]) == pytest.approx(mean, abs=5e-5)
    half = float(values["accuracy"][1].removeprefix("±"))
    assert stats.norm.ppf(0.975) * error < half + 5e-5
    assert half < stats.t.ppf(0.975, 2) * error + 5e-5


def correct(path: Path) -> Any:
    table = pq.read_table(path / "predictions.parquet")
    return table["label"].to_numpy() == table["predicted"].to_numpy()


def test_seeds_without_predictions_have_no_table(tmp_path: Path) -> None:
    runs = [trained(tmp_path, seed=seed) for seed in range(2)]
    for run in runs:
        (run.path / "predictions.parquet").unlink()
    assert training_lines(runs) == []


def test_the_average_of_seeds_is_one_model_without_an_interval(tmp_path: Path) -> None:
    paths = [make_run(tmp_path, "model=mean", seed=seed, latency_ms={"one": 2.0, "batch": 3.0}) for seed in range(3)]
    make_run(tmp_path, "model=structured")
    compared = compare(tmp_path, ensemble=True)
    header, *rows = csv.reader(board_lines(compared, "csv"))
    [average] = [dict(zip(header, row, strict=True)) for row in rows if "average" in row[0]]
    tables = [pq.read_table(path / "predictions.parquet") for path in paths]
    odds = np.mean(
        [np.log(p[:, 1] / p[:, 0]) for p in (np.stack(t["probabilities"].to_numpy()) for t in tables)], axis=0
    )
    labels = tables[0]["label"].to_numpy()
    assert float(average["accuracy"]) == pytest.approx(((odds > 0) == labels).mean())
    assert float(average["log_loss"]) == pytest.approx(np.log1p(np.exp(np.where(labels, -odds, odds))).mean(), rel=1e-5)
    assert average["accuracy_low"] == average["accuracy_high"] == ""
    assert [float(average[key]) for key in ("parameters", "train_seconds", "ms_one_text")] == [3 * 1234, 33.0, 6.0]
    assert not any("average" in pair.first.name + pair.second.name for pair in compared.tests)
    assert not any("average of" in line for line in message_lines(compared))


def test_a_setting_with_a_seed_has_no_average(tmp_path: Path) -> None:
    make_run(tmp_path, "model=mean")
    assert board_lines(compare(tmp_path, ensemble=True)) == board_lines(compare(tmp_path))
