from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentattn.config.groups import conf_dir
from sentattn.list import main


def write(folder: Path, **result: object) -> None:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))


def test_models_and_data_with_what_their_files_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "data"]) == 0
    out = capsys.readouterr().out
    for group in ("model", "data"):
        for file in (conf_dir() / group).glob("[!_]*.yaml"):
            first = file.read_text(encoding="utf-8").removeprefix("# @package _global_\n").splitlines()[0].lstrip("# ")
            assert any(line.split()[:1] == [file.stem] and first in line for line in out.splitlines())


def test_runs_with_figures_and_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = {"val/accuracy": 0.87654, "test/accuracy": 0.5, "val/f1": 0.1}
    write(tmp_path / "demo" / "a", status="finished", model="mean", data="demo", seed=3, metrics=finished)
    write(tmp_path / "demo" / "b", status="failed", model="structured", data="demo", seed=0, metrics={})
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "result.json").write_text("{")
    assert main(["runs", f"output_dir={tmp_path}"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["run", "model", "data", "seed", "val/accuracy", "test/accuracy", "status"]
    assert lines[2][:6] == [str(tmp_path / "c"), "-", "-", "-", "-", "-"]
    assert lines[2][6:] == ["result.json", "cannot", "be", "read"]
    assert lines[3] == [str(tmp_path / "demo" / "a"), "mean", "demo", "3", "0.8765", "0.5000", "finished"]
    assert lines[4] == [str(tmp_path / "demo" / "b"), "structured", "demo", "0", "-", "-", "failed"]


def test_everything_is_listed_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"output_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    for kind in ("models", "data", "experiments", "sweeps", "runs"):
        assert f"{kind} (" in out
    assert out.endswith(f"runs ({tmp_path})\n  none yet\n")


def test_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model"]) == 2
    assert "Did you mean 'models'?" in capsys.readouterr().err
    assert main(["outputdir=x"]) == 2
    assert "Did you mean 'output_dir'?" in capsys.readouterr().err
