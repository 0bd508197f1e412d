"""Diagnostics of a model over texts: samples, means, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import random_texts, small_model

from sentattn.data.text import Encoded
from sentattn.insight import diagnostics, forward
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


def test_weights_that_tie_have_no_figures_that_rank_but_gradients_have() -> None:
    found = diagnose(small_model("model=lstm_mean"), texts(9, 12, 5))
    assert np.isnan([found.mean(f"{kind}_deleted_attention") for kind in ("comprehensiveness", "sufficiency")]).all()
    assert np.isnan([found.mean("tau_integrated"), found.mean("correct_uniform")]).all()
    assert not np.isnan([found.mean("comprehensiveness_deleted_integrated"), found.mean("tau_gradients")]).any()


def test_figures_of_a_text_do_not_depend_on_longer_ones() -> None:
    model, together = small_model("model=structured"), texts(9, 40)
    first = Texts(together.encoded[:1], together.labels_N[:1], together.rationales[:1])
    one, two = diagnose(model, first).figures, diagnose(model, together).figures
    assert {name: values[0] for name, values in two.items()} == pytest.approx(
        {name: values[0] for name, values in one.items()}, nan_ok=True, abs=1e-9
    )


def test_the_order_of_hops_changes_no_figure_of_their_mean() -> None:
    model, read = small_model("model=structured", "model/pooling=mean"), texts(9, 40)
    before = diagnose(model, read)
    scores = model.attention.scores
    with torch.no_grad():
        scores.weight.copy_(scores.weight.flip(0))
        scores.bias.copy_(scores.bias.flip(0))
    after = diagnose(model, read)
    for name in ("hop_overlap", "evenness", "comprehensiveness_deleted_attention", "tau_integrated", "p"):
        assert after.figures[name] == pytest.approx(before.figures[name], abs=1e-9)


def test_accuracy_with_other_weights_is_that_of_their_predictions() -> None:
    model, read = small_model("model=structured"), texts(9, 40, 7, 20)
    readings = forward.read(model, [one.ids for one in read.encoded])
    found = diagnose(model, read).figures
    for i, one in enumerate(readings):
        assert found["correct"][i] == (np.argmax(one.probabilities_C) == 0)
        assert found["correct_uniform"][i] == (np.argmax(one.uniform_C) == 0)
        assert found["correct_permuted"][i] == np.mean([np.argmax(row) == 0 for row in one.permuted_PC])
