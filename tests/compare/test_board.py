"""The leaderboard in Python: frame, pairs, text, HTML, report, bad input."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from run_folders import make_run, make_seeds

import sentattn
from sentattn.compare.__main__ import main
from sentattn.metrics import MAJORITY
from sentattn.run import Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_seeds(tmp_path, {"structured": 0.9, "lstm_mean": 0.7}, rows=300)
    make_run(tmp_path, "model=mean", accuracy=0.6, rows=300)
    return tmp_path


def test_frame_and_pairs_are_the_csv_of_the_command(folder: Path) -> None:
    file = folder / "board.csv"
    assert main([str(folder), "format=csv", f"output={file}"]) == 0
    *rows, majority = csv.DictReader(file.read_text().splitlines())
    tests = list(csv.DictReader((folder / "board-tests.csv").read_text().splitlines()))
    board = sentattn.leaderboard(folder)
    frame = board.frame
    assert [*frame.columns] == [*rows[0], "rows"]
    assert majority["settings"] == MAJORITY
    assert frame["settings"].tolist() == ["structured", "lstm_mean", "mean"]
    assert (frame["data"] == "demo").all()
    assert (frame["rows"] == 300).all()
    for row, record in zip(rows, frame.to_dict("records"), strict=True):
        for name in rows[0].keys() - {"settings", "data", "split"}:
            text, number = row[name], record[name]
            assert isinstance(number, int | float)
            assert math.isnan(number) if text == "" else float(text) == number, name
    assert [{key: str(value) for key, value in pair.items()} for pair in board.pairs] == tests
    assert (board.pairs[0]["first"], board.pairs[0]["second"]) == ("structured", "lstm_mean")
    assert isinstance(board.pairs[0]["difference_low"], float)


def test_its_text_is_what_the_command_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "pairs=all", "where=model/attention=uniform"]) == 0
    board = sentattn.leaderboard(folder, pairs="all", where=["model/attention=uniform"])
    assert capsys.readouterr().out == f"{board}\n"
    assert repr(board) == str(board)


def test_runs_are_runs_paths_or_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sorted(folder.glob("demo/*/*"))
    assert len(sentattn.leaderboard(Run(paths[0])).frame) == 1
    assert sentattn.leaderboard(map(str, paths)).frame["seeds"].tolist() == [3, 3, 1]
    assert sentattn.leaderboard([Run(paths[0]), str(folder / "demo" / "structured")]).frame["seeds"].sum() == 4
    (folder / "split=demo").symlink_to(folder / "demo")  # a name like an option
    monkeypatch.chdir(folder)
    assert len(sentattn.leaderboard("split=demo").frame) == 3
    monkeypatch.setenv("HOME", str(folder))
    assert len(sentattn.leaderboard("~/demo").frame) == 3


def test_of_other_rows_there_is_a_comparison_of_its_own(folder: Path) -> None:
    make_run(folder, "model=cnn", rows=200, rows_seed=1)
    board = sentattn.leaderboard(folder)
    assert refused(lambda: board.figure(folder / "f.pdf")) == [("figure", "conflict")]
    assert board.frame["rows"].tolist() == [300, 300, 300, 200]
    assert [*board.frame.index] == [0, 1, 2, 3]
    assert str(board).startswith("These runs have different rows")
    assert board._repr_html_().count("<table>") == 2


def test_the_html_of_a_notebook_is_escaped_and_complete(folder: Path) -> None:
    name = "<b>&model"
    for path in folder.glob("demo/structured/*"):
        for file in (path / "config.yaml", path / "result.json"):
            file.write_text(file.read_text().replace("structured", name))
    html = sentattn.leaderboard(folder)._repr_html_()
    assert name not in html
    assert "<td>&lt;b&gt;&amp;model</td>" in html
    assert html.count("<tr>") == 5  # the heading, three settings, the largest class
    assert "&lt;b&gt;&amp;model beats lstm_mean" in html


def test_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = sentattn.leaderboard(folder)
    path = board.report(str(folder / "r.html"))
    assert path == folder / "r.html"
    assert "3 settings on demo" in path.read_text(encoding="utf-8")
    assert "warning: " in capsys.readouterr().err  # these runs have no texts
    assert refused(lambda: board.report("r.pdf")) == [("report", "unsupported")]
    assert refused(lambda: board.report(folder / "none" / "r.html")) == [("report", "unwritable")]


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ({"splt": "val", "format": "csv"}, [("splt", "unknown"), ("format", "unknown")]),
        ({"report": "r.html"}, [("report", "unknown")]),
        ({"margin": 0, "pairs": "some"}, [("margin", "range"), ("pairs", "range")]),
        ({"reference": ["tfidf", "bert"]}, [("reference", "unknown")]),
        ({"where": "data"}, [("where", "type")]),
        ({"split": "val"}, None),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_options(folder: Path, options: dict[str, Any], faults: list[tuple[str, str]] | None) -> None:
    found = refused(lambda: sentattn.leaderboard(folder, **options))
    assert found == faults if faults else ("runs", "not_found") in found


def test_no_runs_and_no_pandas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(lambda: sentattn.leaderboard([])) == [("runs", "missing")]
    assert ("runs", "not_found") in refused(lambda: sentattn.leaderboard(folder / "none"))
    board = sentattn.leaderboard(folder)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refused(lambda: board.frame) == [("frame", "package")]
    assert json.dumps(board.pairs)
