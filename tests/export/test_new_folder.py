from __future__ import annotations

from pathlib import Path

import pytest
import torch
from refusals import refused
from untrained_runs import MAX_LENGTH, WORDS

from sentattn.export import new_folder
from sentattn.export.onnx_folder import OnnxClassifier, verify
from sentattn.models.classifier import TextClassifier
from sentattn.prediction.model import LoadedRun


def run(folder: Path, model: TextClassifier) -> tuple[float, list[tuple[int, int]]]:
    graph, exported = folder / "model.onnx", OnnxClassifier(model).eval()
    return verify(graph, exported, ids=len(WORDS) + 2, max_length=MAX_LENGTH)


def write(folder: Path, content: str) -> None:
    with new_folder(folder) as new:
        (new / "model.onnx").write_text(content)


def write_half(folder: Path, error: type[BaseException]) -> None:
    with new_folder(folder) as new:
        (new / "model.onnx").write_text("half")
        raise error


def test_a_folder_appears_with_its_parents(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b", "first")
    assert (tmp_path / "a" / "b" / "model.onnx").read_text() == "first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing(error: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(error):
        write_half(tmp_path / "a", error)
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_refused_and_stays(tmp_path: Path) -> None:
    write(tmp_path / "a", "first")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("a", "file", "link"):
        assert refused(lambda name=name: write(tmp_path / name, "second")) == [("output", "conflict")]  # type: ignore[misc]
    assert (tmp_path / "a" / "model.onnx").read_text() == "first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "file", "link"]


def test_an_empty_folder_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "first")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model.onnx").read_text() == "first"


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    assert refused(lambda: write(tmp_path / "a", "first")) == [("output", "unwritable")]
    assert list(tmp_path.iterdir()) == []


def test_a_model_equals_its_graph(mean: LoadedRun, folder: Path) -> None:
    difference, shapes = run(folder, mean.classifier.model)
    assert difference < 1e-6
    assert shapes == [(1, 1), (1, 2), (3, 7), (1, MAX_LENGTH)]


@pytest.mark.parametrize("change", [1e-2, float("nan"), float("inf")])
def test_a_graph_of_another_model_is_refused(mean: LoadedRun, folder: Path, change: float) -> None:
    model = LoadedRun(mean.path).classifier.model
    with torch.no_grad():
        model.head.layers[-1].bias[0] += change  # type: ignore[index, operator, union-attr]
    assert refused(lambda: run(folder, model)) == [("format", "failed")]


def test_a_file_that_is_no_graph_is_refused(mean: LoadedRun, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    assert refused(lambda: run(tmp_path, mean.classifier.model)) == [("format", "failed")]
