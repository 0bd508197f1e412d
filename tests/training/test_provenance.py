"""Where a result comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sentattn.training import provenance


def test_versions_name_what_results_depend_on() -> None:
    found = provenance.versions()
    assert {"python", "sentattn", "torch", "pytorch-lightning"} <= set(found)
    assert found["torch"].startswith("2.")


def make_repository(folder: Path, *, track: bool) -> Path:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)

    file = folder / "provenance.py"
    file.write_text("x = 1\n")
    git("init")
    if track:
        git("add", "provenance.py")
    git("commit", "--allow-empty", "-m", "first")
    return file


def test_revision_is_marked_where_the_code_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_repository(tmp_path, track=True)
    monkeypatch.setattr(provenance, "__file__", str(file))
    clean = provenance.git_revision()
    assert clean is not None
    assert len(clean) == 40
    file.write_text("x = 2\n")
    assert provenance.git_revision() == clean + "+"


def test_no_revision_of_somebody_elses_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_repository(tmp_path, track=False)
    monkeypatch.setattr(provenance, "__file__", str(file))
    assert provenance.git_revision() is None
