from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentattn.config.compose import compose
from sentattn.config.groups import conf_dir
from sentattn.list import main
from sentattn.run import yaml_text


def write(folder: Path, **result: object) -> None:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"format": 2, **result}))


def test_models_and_data_have_the_comments_of_their_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "data", "poolings"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    names, text = {line[2:].split(" ")[0] for line in out.splitlines()}, " ".join(out.split())
    for group in ("model", "data", "model/attention"):
        for file in (conf_dir() / group).glob("[!_]*.yaml"):
            first = file.read_text(encoding="utf-8").removeprefix("# @package _global_\n").splitlines()[0].lstrip("# ")
            assert file.stem in names
            assert f"{file.stem} {first}" in text


def test_runs_with_label_metrics_and_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = {"val/accuracy": 0.87654, "test/accuracy": 0.5, "val/f1": 0.1}
    write(tmp_path / "demo" / "a", status="finished", model="mean", data="demo", seed=3, metrics=finished)
    write(tmp_path / "demo" / "b", status="failed", model="structured", data="demo", seed=0, metrics={})
    settings = compose(["model/attention=max", "model/encoder=transformer", "model/pooling=mean"])
    (tmp_path / "demo" / "b" / "config.yaml").write_text(yaml_text(settings))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "result.json").write_text("{")
    assert main(["runs", f"output_dir={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split() for line in lines] == [
        ["val", "test", "seed", "status", "data", "model"],
        ["-", "-", "-", "unreadable", "-", "-"],
        [str(tmp_path / "c")],
        ["0.8765", "0.5000", "3", "finished", "demo", "mean"],
        [str(tmp_path / "demo" / "a")],
        ["-", "-", "0", "failed", "demo", "structured,", "encoder=transformer,", "attention=max,", "pooling=mean"],
        [str(tmp_path / "demo" / "b")],
    ]
    column = lines[0].index("model")
    assert [lines[row][column:].split()[0] for row in (1, 3, 5)] == ["-", "mean", "structured,"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "3", "{}", "[" * 50_000, '{"format": 2, "metrics": 3}'),
        '{"format": 2, "metrics": {"val/accuracy": "x"}}',
        f'{{"format": 2, "metrics": {{"val/accuracy": 1{"0" * 400}}}}}',
        '{"format": 2, "model": "", "status": "a\\nb", "data": 3}',
    ],
)
def test_damaged_results_are_listed(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "result.json").write_text(text)
    (tmp_path / "config.yaml").write_text("model: [")
    assert main(["runs", f"output_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["-", "-", "-"]


def test_all_kinds_are_listed_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"output_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    for kind in ("models", "data", "experiments", "sweeps", "runs"):
        assert f"{kind} (" in out
    assert f"runs ({tmp_path})" in out
    assert out.endswith("  none yet\n")


def test_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model"]) == 2
    assert "Did you mean 'models'?" in capsys.readouterr().err
    assert main(["outputdir=x"]) == 2
    assert "Did you mean 'output_dir'?" in capsys.readouterr().err


def test_choices_of_a_folder_of_ones_own_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("# A model of my own.\nname: mine\n")
    assert main(["models", "--config-dir", str(tmp_path)]) == 0
    assert "mine" in [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:] if line.endswith("own.")]
