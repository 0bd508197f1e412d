from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from sentattn.export import new_folder


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
