"""`plot=FILE`: the ending decides, and a file is written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from example_predictions import example
from refusals import assert_refused, fault_of

from sentattn.rendering import html, png, save


@pytest.mark.parametrize(
    ("name", "start"), [("a.html", b"<!DOCTYPE html>"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")]
)
def test_the_ending_decides_and_nothing_else_is_left(tmp_path: Path, name: str, start: bytes) -> None:
    save([example()], tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.htm", "a.png.gz"])
def test_another_ending_is_refused_with_the_closest(tmp_path: Path, name: str) -> None:
    fault = fault_of(lambda: save([example()], tmp_path / name))
    assert (fault.key, fault.kind) == ("plot", "unsupported")
    assert ("'.html'" in fault.message) == (name == "a.htm")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["nowhere/a.png", "file/a.html", "folder.html"])
def test_a_path_that_cannot_be_written_is_reported_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.html").mkdir()
    assert_refused(lambda: save([example()], tmp_path / name), "plot", "unwritable", str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.html"]


def test_an_unwritable_folder_is_reported_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(png, "picture", lambda *_: pytest.fail("drawn for nothing"))
    assert_refused(lambda: save([example()], tmp_path / "a.png"), "plot", "unwritable")


def test_a_failed_drawing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(html, "page", fail)
    assert_refused(lambda: save([example()], path), "plot", "unwritable")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.html"]
