"""The texts of a comparison, read again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from sentattn.compare.comparison import read_comparisons
from sentattn.data.vectors import pretrained
from sentattn.run import Run


def test_word_vectors_are_not_trained_for_texts_alone(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run.path, run)
    settings = yaml.safe_load((run / "config.yaml").read_text())
    settings["data"]["vectors"] = "train"
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setattr(pretrained, "train_vectors", None)  # a call would fail
    [comparison], _ = read_comparisons([run], split="val")
    _, texts = comparison.read_texts()
    assert tuple(texts.row_id) == comparison.rows.row_ids
    assert texts.texts(0)
