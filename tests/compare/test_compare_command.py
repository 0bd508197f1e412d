"""The command: leaderboard in each format, tests in words, bad input."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from refusals import refused
from run_folders import make_run, make_seeds

from sentattn.compare.__main__ import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_seeds(tmp_path, {"structured": 0.9, "lstm_mean": 0.7}, rows=1000, films=50)
    make_run(tmp_path, "model=mean", accuracy=0.6, rows=1000, films=50)
    return tmp_path


def test_leaderboard_and_messages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    assert not list(folder.rglob("*.html"))
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    ranked = [row[1] for row in rows if len(row) > 4 and row[0] in {"1", "2", "3"} and row[2].isdigit()]
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


def test_csv_of_several_data_is_one_table(folder: Path, tmp_path: Path) -> None:
    make_seeds(folder, {"structured": 0.9, "mean": 0.6}, "data=imdb", rows_seed=1)
    file = tmp_path / "board.csv"
    assert main([str(folder), "format=csv", f"output={file}"]) == 0
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert Counter((row["data"], row["split"]) for row in rows) == {("demo", "test"): 4, ("imdb", "test"): 3}
    assert all(0 < float(row["accuracy"]) < 1 for row in rows)
    tests = list(csv.DictReader(file.with_name("board-tests.csv").read_text().splitlines()))
    assert {row["data"] for row in tests} == {"demo", "imdb"}
    assert all(float(row["difference_low"]) < float(row["difference_high"]) for row in tests)


def test_a_run_that_may_not_be_written_is_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("sentattn.compare.report.page.write_atomically", refuse)
    [run] = folder.glob("demo/mean/*")
    assert main([str(run)]) == 0
    out, err = capsys.readouterr()
    assert "accuracy" in out
    assert "Permission denied" in err
    assert main([str(run), f"report={folder / 'page.html'}"]) == 2


@pytest.mark.parametrize("style", ["table", "markdown", "csv"])
def test_columns_are_chosen_by_name(folder: Path, style: str, tmp_path: Path) -> None:
    file = tmp_path / "board"
    assert main([str(folder), f"format={style}", "columns=train_seconds,log_loss", f"output={file}"]) == 0
    separator = {"table": None, "markdown": " | ", "csv": ","}[style]
    [row] = [line.split(separator) for line in file.read_text().splitlines() if "structured" in line]
    _, seconds, log_loss, *interval = row[style == "table" :]  # in the terminal its place is before the name
    assert float(seconds.strip()) == 11
    assert 0 < float(log_loss.split()[0]) < 1
    assert len(interval) == (style == "table")  # a word


@pytest.mark.parametrize(
    ("typed", "key", "kind"),
    [
        (["columns=accuracy,speed"], "columns", "unknown"),
        (["figure=a.jpg"], "figure", "unsupported"),
        (["report=a.png"], "report", "unsupported"),
        (["figure=a.pdf", "panels=costs"], "panels", "unknown"),
        (["panels=cost"], "panels", "no_effect"),
        (["format=csv"], "output", "missing"),
    ],
)
def test_bad_options_of_tables_and_figures(
    folder: Path, typed: list[str], key: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert refused(lambda: main.__wrapped__([".", *typed])) == [(key, kind)]  # type: ignore[attr-defined]
    assert not list(folder.glob("a.*"))


def test_a_figure_is_of_one_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_seeds(folder, {"cnn": 0.8}, rows=300)
    assert main([str(folder), "figure=a.pdf"]) == 2
    assert not capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["{}", "split=train"], ["{}", "objective.metric=f1_macro"]])
def test_bad_input_ends_with_a_message(folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word.format(folder) for word in arguments]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_filter_may_be_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(folder, "model=mean", "model/wide=ngrams", "model.wide.orders=[1,2]")
    assert main([str(folder), "where=model.wide.orders=[1,2],seed=0"]) == 0
    assert "demo, split test: 200 rows" in capsys.readouterr().out
    assert main([str(folder), "where=model.wide.orders=[1,3],seed=0"]) == 2


def test_a_filter_finds_defaults_and_names_what_no_run_has(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(folder, "model=structured", "model.freeze_attention=true", rows=1000, films=50)
    assert main([str(folder), "where=model.freeze_attention=false,model/attention=structured"]) == 0
    assert "frozen" not in capsys.readouterr().out
    for typed, meant in (("modle=structured", "'model'"), ("model.attention.hop=4", "'model.attention.hops'")):
        assert main([str(folder), f"where={typed}"]) == 2
        err = capsys.readouterr().err
        assert f"Did you mean {meant}?" in err
        assert main([str(folder), f"where={typed.replace('hop=', 'hops=').replace('modle', 'model')},seed=9"]) == 2
        assert "where=seed=9: no run has this value. There are 0" in capsys.readouterr().err
    assert main([str(folder), "where=data=imbd,model/attention=structurd"]) == 2
    err = capsys.readouterr().err
    assert ("There are demo." in err, "Did you mean 'structured'?" in err) == (True, True)


def test_the_latest_run_is_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.joinpath("outputs").mkdir()
    for child in [*folder.glob("demo")]:
        child.rename(folder / "outputs" / child.name)
    monkeypatch.chdir(folder)
    assert main(["latest"]) == 0
    assert len([*folder.glob("outputs/demo/*/*/report.html")]) == 1


def test_runs_that_are_left_out_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_run(folder, "model=cnn", status="failed")
    assert main([str(folder)]) == 0
    assert str(path) in capsys.readouterr().err


def test_a_trial_is_shown_by_its_own_directory_on_validation_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_run(tmp_path / "trials", f"model.attention.hops={n}", study="hops", split="val") for n in (2, 3)]
    assert main([str(trials[0])]) == 2
    assert "split=val" in capsys.readouterr().err
    assert main([str(trials[0]), "split=val"]) == 0
    assert "split val: 200 rows" in capsys.readouterr().out
    assert (trials[0] / "report.html").is_file()
    assert main([*map(str, trials), "split=val"]) == 0
    assert "hops=3" in capsys.readouterr().out
    assert main([str(tmp_path), "split=val"]) == 2
    assert "Trials of sweeps" in capsys.readouterr().err
    (trials[0] / "predictions.parquet").unlink()
    assert main([str(trials[0]), "split=val"]) == 2
    assert f"train from={trials[0]}" in capsys.readouterr().err
