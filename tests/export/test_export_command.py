"""The export command."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from untrained_runs import write_run

from sentattn.export import __main__ as export
from sentattn.export import onnx_folder
from sentattn.prediction import model
from sentattn.prediction.model import LoadedRun


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    return write_run(tmp_path_factory.mktemp("run"), "model=mean")


def test_an_export_is_printed_and_not_replaced_by_the_next(
    untrained: LoadedRun, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = (folder / "model.onnx").read_bytes()  # of the same weights
    monkeypatch.setattr(onnx_folder, "write_graph", lambda model, path, **_: path.write_bytes(exported))
    monkeypatch.setattr(model, "load", lambda path, *, trust: {"latest": untrained}[path])
    capfd.readouterr()
    assert export.main(["run=latest"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    graph = untrained.path / "onnx" / "model.onnx"
    first, second = out.splitlines()
    for part in (f"{graph}: ", f"{graph.stat().st_size / 1e6:.1f} MB", "opset 18"):
        assert part in first
    assert re.findall(r"\d\.\de-\d\d", first)
    assert second == f'read a text with it: python {untrained.path / "onnx" / "predict.py"} "This movie is amazing"'
    before = {file: file.read_bytes() for file in (untrained.path / "onnx").iterdir()}
    assert export.main(["run=latest"]) == 2
    assert "exists" in capfd.readouterr().err
    assert {file: file.read_bytes() for file in (untrained.path / "onnx").iterdir()} == before


def test_a_folder_that_is_gone_after_the_export_is_a_message(
    untrained: LoadedRun, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_folder, "write_export", lambda classifier, folder: 0.0)
    assert export.main([f"run={untrained.path}", f"output={tmp_path / 'gone'}"]) == 2
    assert str(tmp_path / "gone") in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["HERE"], "list runs"),
        (["RUN", "output=RUN/config.yaml"], "exists"),
        (["RUN", "output=RUN/config.yaml/x"], "cannot be written"),
    ],
)
def test_each_error_is_one_line(
    untrained: LoadedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    words = [word.replace("RUN", str(untrained.path)).replace("HERE", str(tmp_path)) for word in arguments]
    assert export.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_run_without_a_model_is_refused(
    untrained: LoadedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text((untrained.path / "config.yaml").read_text())
    assert export.main([str(tmp_path)]) == 2
    assert "holds no trained model" in capsys.readouterr().err
    assert not (tmp_path / "onnx").exists()


def test_without_the_extra_the_run_is_not_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    missing = ("onnx", "onnxscript")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else found(name))
    monkeypatch.setattr(model, "load", lambda *_, **__: pytest.fail("the run is read"))
    assert export.main(["run=latest", "format=onnx"]) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in ("format=onnx", *missing, "sentattn[onnx]"))
