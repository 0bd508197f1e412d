"""The command: leaderboard in each format, tests in words, bad input."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from run_folders import make_run

from sentattn.compare.__main__ import main
from sentattn.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(3):
        make_run(tmp_path, "model=structured", seed=seed, accuracy=0.9, rows=1000, films=50)
        make_run(tmp_path, "model=lstm_mean", seed=seed, accuracy=0.7, rows=1000, films=50)
    make_run(tmp_path, "model=mean", accuracy=0.6, rows=1000, films=50)
    return tmp_path


def test_leaderboard_and_messages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    ranked = [row[1] for row in rows if len(row) > 5 and row[0] in {"1", "2", "3"} and row[2].isdigit()]
    assert ranked == ["structured", "lstm_mean", "mean"]
    assert "1,000 rows in 50 groups" in out
    assert "structured beats lstm_mean" in out
    assert max(len(line) for line in out.splitlines() if len(line.split()) > 1) <= 80
    [path] = folder.glob("demo/mean/*")
    assert f"from={path}" in out.split()  # a command can be copied


def test_csv_has_ends_of_intervals_where_there_are_seeds(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "board.csv"
    assert main([str(folder), "format=csv", f"output={file}"]) == 0
    rows = {row["settings"]: row for row in csv.DictReader(file.read_text().splitlines())}
    structured = rows["structured"]
    assert float(structured["accuracy_low"]) < float(structured["accuracy"]) < float(structured["accuracy_high"])
    assert rows["mean"]["accuracy_low"] == ""
    assert structured["parameters"] == "1234"
    assert float(structured["train_seconds"]) == 11


def test_a_table_in_markdown(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "board"
    assert main([str(folder), "format=markdown", f"output={file}"]) == 0
    text = file.read_text()
    assert text.startswith("| settings |")
    assert text.count("structured") == 1
    assert "lstm_mean" in text


@pytest.mark.parametrize("style", ["table", "markdown", "csv"])
def test_columns_are_chosen_by_name(folder: Path, style: str, tmp_path: Path) -> None:
    file = tmp_path / "board"
    assert main([str(folder), f"format={style}", "columns=train_seconds,log_loss", f"output={file}"]) == 0
    separator = {"table": None, "markdown": " | ", "csv": ","}[style]
    [row] = [line.split(separator) for line in file.read_text().splitlines() if "structured" in line]
    assert float(row[1].strip()) == 11
    assert 0 < float(row[2].split()[0]) < 1
    assert len(row) == {"table": 4, "markdown": 3, "csv": 3}[style]  # an interval is a word


@pytest.mark.parametrize(
    ("typed", "key", "kind"),
    [
        (["columns=accuracy,speed"], "columns", "unknown"),
        (["figure=a.jpg"], "figure", "unsupported"),
    ],
)
def test_bad_options_of_tables_and_figures(
    folder: Path, typed: list[str], key: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UserError) as caught:
        main.__wrapped__([".", *typed])  # type: ignore[attr-defined]
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [(key, kind)]
    assert not list(folder.glob("a.*"))


def test_a_figure_is_of_one_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(3):
        make_run(folder, "model=cnn", seed=seed, rows=300)
    assert main([str(folder), "figure=a.pdf"]) == 2
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["{}", "margin=0"], ["{}", "where=data"], ["{}", "split=train"], ["{}", "formt=csv"], ["{}/none"]]
)
def test_bad_input_ends_with_a_message(folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word.format(folder) for word in arguments]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_filter_may_be_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(folder, "model=mean", "model/wide=ngrams", "model.wide.orders=[1,2]")
    assert main([str(folder), "where=model.wide.orders=[1,2],seed=0"]) == 0
    assert "demo, split test: 200 rows" in capsys.readouterr().out
    assert main([str(folder), "where=model.wide.orders=[1,3],seed=0"]) == 2


def test_runs_that_are_left_out_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_run(folder, "model=cnn", status="failed")
    assert main([str(folder)]) == 0
    assert str(path) in capsys.readouterr().err


def test_a_trial_is_shown_by_its_own_directory_on_validation_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_run(tmp_path / "trials", f"model.attention.hops={n}", study="hops", split="val") for n in (2, 3)]
    assert main([str(trials[0])]) == 0
    assert "split val: 200 rows" in capsys.readouterr().out
    assert (trials[0] / "report.html").is_file()
    assert main([*map(str, trials)]) == 0
    assert "hops=3" in capsys.readouterr().out
    assert main([str(tmp_path), "split=val"]) == 2
    assert "Trials of sweeps" in capsys.readouterr().err
    (trials[0] / "predictions.parquet").unlink()
    assert main([str(trials[0])]) == 2
    assert f"train from={trials[0]}" in capsys.readouterr().err
