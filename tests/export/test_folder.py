from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from refusals import assert_refused, refused
from untrained_runs import MAX_LENGTH, WORDS

from sentattn.export.onnx_folder import replacement, require_replaceable, verify
from sentattn.prediction.model import LoadedRun

NAMES = ("config.json", "model.onnx")
SIZES = {"num_embeddings": len(WORDS) + 2, "max_length": MAX_LENGTH}


def fill(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(json.dumps({"sentattn": "0"}))
    (folder / "model.onnx").write_text(content)


def write(folder: Path, content: str) -> None:
    with replacement(folder) as new:
        fill(new, content)


def write_half(folder: Path, error: type[BaseException]) -> None:
    with replacement(folder) as new:
        fill(new, "half")
        raise error


def test_parents_of_the_folder_are_created(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b", "first")
    assert (tmp_path / "a" / "b" / "model.onnx").read_text() == "first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "a", "first")
    (tmp_path / "a" / "__pycache__").mkdir()
    require_replaceable(tmp_path / "a")
    write(tmp_path / "a", "second")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(NAMES)
    assert (tmp_path / "a" / "model.onnx").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_earlier_export(error: type[BaseException], tmp_path: Path) -> None:
    write(tmp_path / "a", "first")
    with pytest.raises(error):
        write_half(tmp_path / "a", error)
    assert (tmp_path / "a" / "model.onnx").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_earlier_export_is_restored_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", "first")
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    assert refused(lambda: write(tmp_path / "a", "second")) == [("output", "unwritable")]
    assert (tmp_path / "a" / "model.onnx").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", "first")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model.onnx").read_text() == "second"


def test_an_export_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    require_replaceable(tmp_path / "none")
    require_replaceable(tmp_path)
    fill(tmp_path, "first")
    require_replaceable(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    assert_refused(lambda: require_replaceable(tmp_path), "output", "conflict", "notes.txt")


@pytest.mark.parametrize("config", ['{"other": 1}', "no JSON", "[1]", "7"])
def test_other_files_of_the_same_names_are_not_replaced(config: str, tmp_path: Path) -> None:
    fill(tmp_path, "first")
    (tmp_path / "config.json").write_text(config)
    assert refused(lambda: require_replaceable(tmp_path)) == [("output", "conflict")]


def test_a_model_has_the_outputs_of_its_graph(mean: LoadedRun, folder: Path) -> None:
    difference, shapes = verify(folder / "model.onnx", mean.classifier.model, **SIZES)
    assert difference < 1e-6
    assert shapes == [(1, 1), (1, 2), (3, 7), (1, MAX_LENGTH)]


@pytest.mark.parametrize("change", [1e-2, float("nan"), float("inf")])
def test_a_graph_of_another_model_is_refused(mean: LoadedRun, folder: Path, change: float) -> None:
    model = LoadedRun(mean.path).classifier.model
    with torch.no_grad():
        model.head.layers[-1].bias[0] += change  # type: ignore[index, operator, union-attr]
    assert refused(lambda: verify(folder / "model.onnx", model, **SIZES)) == [("format", "failed")]


def test_a_file_that_is_no_graph_is_refused(mean: LoadedRun, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    model = mean.classifier.model
    assert refused(lambda: verify(tmp_path / "model.onnx", model, **SIZES)) == [("format", "failed")]
