"""`plot=FILE`: the ending decides, and a file is written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from example_predictions import example

from sentattn.errors import UserError
from sentattn.rendering import html, png, save

UNWRITABLE = [("plot", "unwritable")]


def keys(error: UserError) -> list[tuple[str, str]]:
    return [(fault.key, fault.kind) for fault in error.faults]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.png", b"\x89PNG"),
        ("a.html", b"<!DOCTYPE html>"),
        ("a.PNG", b"\x89PNG"),
        ("a.pdf", b"%PDF"),
        ("a.svg", b"<?xml"),
    ],
)
def test_the_ending_decides_and_nothing_else_is_left(tmp_path: Path, name: str, start: bytes) -> None:
    save([example()], tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.htm", "a.png.gz"])
def test_another_ending_is_refused_with_the_closest(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        save([example()], tmp_path / name)
    assert keys(caught.value) == [("plot", "unsupported")]
    assert ("'.html'" in str(caught.value)) == (name == "a.htm")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["nowhere/a.png", "file/a.html", "folder.html"])
def test_a_path_that_cannot_be_written_is_reported_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UserError) as caught:
        save([example()], tmp_path / name)
    assert keys(caught.value) == UNWRITABLE
    assert str(tmp_path / name) in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.html"]


def test_an_unwritable_folder_is_reported_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(png, "picture", lambda *_: pytest.fail("drawn for nothing"))
    with pytest.raises(UserError) as caught:
        save([example()], tmp_path / "a.png")
    assert keys(caught.value) == UNWRITABLE


def test_a_failed_drawing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(html, "page", fail)
    with pytest.raises(UserError) as caught:
        save([example()], path)
    assert keys(caught.value) == UNWRITABLE
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.html"]
