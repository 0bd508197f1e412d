"""What runs on the nodes of a Ray cluster, without one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from sentattn.sweep.engines.ray_node import TEMPORARY, remove_abandoned, temporary_folder


def test_folders_of_trials_that_were_killed_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / f"{TEMPORARY}abandoned"
    for folder in (abandoned, tmp_path / "another"):
        folder.mkdir()
        (folder / "log.txt").touch()
    with temporary_folder() as used:
        (Path(used) / "log.txt").touch()
        remove_abandoned()
        assert {file.name for file in tmp_path.iterdir()} == {"another", Path(used).name}
        assert (Path(used) / "log.txt").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["another"]
