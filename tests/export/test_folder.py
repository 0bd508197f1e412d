from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentattn.errors import RunError
from sentattn.export.folder import appearing, require_replaceable

NAMES = ("config.json", "model.onnx")


def fill(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(json.dumps({"sentattn": "0"}))
    (folder / "model.onnx").write_text(content)


def write(folder: Path, content: str) -> None:
    with appearing(folder) as new:
        fill(new, content)


def write_half(folder: Path, fault: type[BaseException]) -> None:
    with appearing(folder) as new:
        fill(new, "half")
        raise fault


def test_a_folder_appears_with_its_parents(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b", "first")
    assert (tmp_path / "a" / "b" / "model.onnx").read_text() == "first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_it_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path / "a", "first")
    (tmp_path / "a" / "__pycache__").mkdir()
    require_replaceable(tmp_path / "a", "config.json", NAMES)
    write(tmp_path / "a", "second")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(NAMES)
    assert (tmp_path / "a" / "model.onnx").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_what_goes_wrong_leaves_all_as_it_was(fault: type[BaseException], tmp_path: Path) -> None:
    write(tmp_path / "a", "first")
    with pytest.raises(fault):
        write_half(tmp_path / "a", fault)
    assert (tmp_path / "a" / "model.onnx").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_earlier_one_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", "first")
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name.endswith(".new"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(RunError, match="No space left on device"):
        write(tmp_path / "a", "second")
    assert (tmp_path / "a" / "model.onnx").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", "first")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model.onnx").read_text() == "second"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write(tmp_path / "file" / "a", "first")


def test_what_can_be_replaced_until_something_else_is_there(tmp_path: Path) -> None:
    require_replaceable(tmp_path / "none", "config.json", NAMES)
    require_replaceable(tmp_path, "config.json", NAMES)
    fill(tmp_path, "first")
    require_replaceable(tmp_path, "config.json", NAMES)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"no export \(notes\.txt\)"):
        require_replaceable(tmp_path, "config.json", NAMES)


@pytest.mark.parametrize("config", ['{"other": 1}', "no JSON", "[1]", "7"])
def test_files_of_these_names_that_are_no_export(config: str, tmp_path: Path) -> None:
    fill(tmp_path, "first")
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(RunError, match=r"holds something that is no export \(config\.json\)"):
        require_replaceable(tmp_path, "config.json", NAMES)


def test_an_export_with_something_of_the_users_in_it(tmp_path: Path) -> None:
    fill(tmp_path, "first")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"no export \(notes\.txt\)"):
        require_replaceable(tmp_path, "config.json", NAMES)


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        require_replaceable(tmp_path / "file", "config.json", NAMES)
