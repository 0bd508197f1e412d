"""`insight=true`: tables of the attentions of real runs, kept with each run."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny

from sentattn import fit
from sentattn.compare.__main__ import main
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
    board, *tables = capsys.readouterr().out.split(r"\begin{tabular}")[1:]
    assert "accuracy" in board
    assert len(tables) == 8  # none of them for the runs of two seeds alone
    for table in tables:
        header = next(line for line in table.splitlines() if "&" in line)
        assert header.count("&") <= 8
    comments = [line for line in board.splitlines() if line.startswith("%")]
    assert "structured" in " ".join(comments)  # the conclusion stands above the tables
    rows = [line for table in (board, *tables) for line in table.split(r"\end{tabular}")[0].splitlines() if "&" in line]
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
        result = Run(tmp_path / path.name).result | {"data_fingerprint": "0" * 16}
        (tmp_path / path.name / "result.json").write_text(json.dumps(result))
    assert main([str(tmp_path), "insight=10"]) == 0
    captured = capsys.readouterr()
    assert "other texts" in captured.err
    assert "shape of weights" not in captured.out
