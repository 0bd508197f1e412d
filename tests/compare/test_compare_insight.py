"""`insight=true`: tables of the attentions of real runs, kept with each run."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from tiny import tiny

from sentattn.compare.__main__ import main
from sentattn.run import Run
from sentattn.training.fit import fit


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("insight")
    for seed in (0, 1):
        fit(tiny("model=structured", f"seed={seed}", f"output_dir={folder}"))
    fit([word for word in tiny("model=lstm_mean", f"output_dir={folder}") if "attention.hidden" not in word])
    return folder


def test_tables_below_the_leaderboard(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "insight=20"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "sample of 20 of" in " ".join(out.split())
    rows = [line.split() for line in out.split("shape of weights")[1].splitlines()]
    even = next(row for row in rows if row[:1] == ["lstm_mean"])
    assert float(even[2]) == float(even[3]) == 1
    for title in ("tokens deleted", "tokens replaced", "rank correlation", "other weights", "gold rationale"):
        table = [line.split() for line in out.split(title)[1].splitlines()]
        [trained], [even] = ([row for row in table if row[:1] == [name]][:1] for name in ("structured", "lstm_mean"))
        assert "-" not in trained
        assert "-" in even


def test_numbers_are_in_the_other_formats_too(runs: Path, tmp_path: Path) -> None:
    assert main([str(runs), "insight=20", "format=csv", f"output={tmp_path / 'file'}"]) == 0
    table = (tmp_path / "file").read_text().split("\n\n")[1]
    rows = {row["settings"]: row for row in csv.DictReader(table.splitlines())}
    assert rows["structured"]["seeds"] == "2"
    assert 0 < float(rows["structured"]["evenness"]) < 1
    assert rows["lstm_mean"]["hop_overlap"] == "-"


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
