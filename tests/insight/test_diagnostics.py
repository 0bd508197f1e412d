"""Diagnostics of a model over texts: samples, means, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import random_texts, small_model

from sentattn.data.text import Encoded
from sentattn.insight import diagnostics
from sentattn.insight.diagnostics import Diagnostics, Texts, diagnose, sample


def texts(*lengths: int) -> Texts:
    encoded = [
        Encoded(ids.astype(np.int32), [f"word{i}" for i in ids], [(8 * i, 8 * i + 6) for i in range(len(ids))])
        for ids in random_texts(*lengths)
    ]
    return Texts(encoded, np.zeros(len(encoded), dtype=np.int64), [[]] * len(encoded))


def test_samples_are_the_same_each_time() -> None:
    assert sample(1000, 50).tolist() == sample(1000, 50).tolist()
    assert len(set(sample(1000, 50))) == 50
    assert sample(20, 50).tolist() == sample(20, None).tolist() == list(range(20))


def test_means_leave_out_texts_to_which_a_figure_does_not_apply() -> None:
    found = Diagnostics({"a": np.array([1.0, np.nan, 3.0]), "b": np.full(3, np.nan)}, [])
    assert found.mean("a") == 2
    assert np.isnan(found.mean("b"))


def test_stored_diagnostics_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = diagnose(small_model("model=structured"), texts(3, 12, 1))
    made.save(tmp_path / "file")
    read = Diagnostics.load(tmp_path / "file")
    assert read is not None
    assert {name: read.mean(name) for name in made.figures} == pytest.approx(
        {name: made.mean(name) for name in made.figures}, nan_ok=True
    )
    assert [len(row) for row in read.weights] == [3, 12, 1]
    assert read.weights[1] == pytest.approx(made.weights[1], abs=1e-7)
    monkeypatch.setattr(diagnostics, "FORMAT", "other")
    assert Diagnostics.load(tmp_path / "file") is None
    assert Diagnostics.load(tmp_path / "none") is None
