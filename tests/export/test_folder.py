from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from untrained_runs import MAX_LENGTH, WORDS

from sentattn.errors import RunError
from sentattn.export import folder as folders
from sentattn.export.folder import replacement
from sentattn.export.onnx_folder import CONFIG, FILES, verify
from sentattn.prediction.model import LoadedRun

NAMES = ("config.json", "model.onnx")
VOCABULARY = len(WORDS) + 2
CONFLICT, UNWRITABLE = [("output", "conflict")], [("output", "unwritable")]


def keys(error: RunError) -> list[tuple[str, str]]:
    return [(fault.key, fault.kind) for fault in error.faults]


def fill(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(json.dumps({"sentattn": "0"}))
    (folder / "model.onnx").write_text(content)


def require_replaceable(folder: Path) -> None:
    folders.require_replaceable(folder, FILES, CONFIG)


def write(folder: Path, content: str) -> None:
    with replacement(folder) as new:
        fill(new, content)


def write_half(folder: Path, error: type[BaseException]) -> None:
    with replacement(folder) as new:
        fill(new, "half")
        raise error


def test_a_folder_appears_with_its_parents(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b", "first")
    assert (tmp_path / "a" / "b" / "model.onnx").read_text() == "first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_it_replaces_an_earlier_one(tmp_path: Path) -> None:
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


def test_the_earlier_export_is_restored_if_the_new_one_cannot_replace_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", "first")
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(RunError) as caught:
        write(tmp_path / "a", "second")
    assert keys(caught.value) == UNWRITABLE
    assert (tmp_path / "a" / "model.onnx").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", "first")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model.onnx").read_text() == "second"


def test_an_export_is_replaceable_until_another_file_is_in_it(tmp_path: Path) -> None:
    require_replaceable(tmp_path / "none")
    require_replaceable(tmp_path)
    fill(tmp_path, "first")
    require_replaceable(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"notes\.txt") as caught:
        require_replaceable(tmp_path)
    assert keys(caught.value) == CONFLICT


@pytest.mark.parametrize("config", ['{"other": 1}', "no JSON", "[1]", "7"])
def test_files_of_the_same_names_are_no_export(config: str, tmp_path: Path) -> None:
    fill(tmp_path, "first")
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(RunError) as caught:
        require_replaceable(tmp_path)
    assert keys(caught.value) == CONFLICT


def test_a_model_equals_its_graph(mean: LoadedRun, folder: Path) -> None:
    difference, shapes = verify(
        folder / "model.onnx", mean.classifier.model, num_embeddings=VOCABULARY, max_length=MAX_LENGTH
    )
    assert difference < 1e-6
    assert shapes == [(1, 1), (1, 2), (3, 7), (1, MAX_LENGTH)]


@pytest.mark.parametrize("change", [1e-2, float("nan"), float("inf")])
def test_a_graph_of_another_model_is_refused(mean: LoadedRun, folder: Path, change: float) -> None:
    model = LoadedRun(mean.path).classifier.model
    with torch.no_grad():
        model.head.layers[-1].bias[0] += change  # type: ignore[index, operator, union-attr]
    with pytest.raises(RunError) as caught:
        verify(folder / "model.onnx", model, num_embeddings=VOCABULARY, max_length=MAX_LENGTH)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("format", "failed")]


def test_a_file_that_is_no_graph_is_refused(mean: LoadedRun, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(RunError) as caught:
        verify(tmp_path / "model.onnx", mean.classifier.model, num_embeddings=VOCABULARY, max_length=MAX_LENGTH)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("format", "failed")]
