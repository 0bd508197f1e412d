"""Forward passes over many texts: padding, and other weights in place of the attention's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import random_texts, small_model

from sentattn.insight import forward
from sentattn.insight.forward import PERMUTATIONS, batches, probabilities, read

LENGTHS = (1, 9, 4, 17, 2, 9)


def test_batches_hold_each_text_once_and_few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "TOKENS", 20)
    lengths = np.array([3, 50, 1, 7, 7, 7, 2, 20])
    found = list(batches(lengths))
    assert sorted(np.concatenate(found)) == list(range(8))
    assert all(len(one) * lengths[one].max() <= 20 or len(one) == 1 for one in found)
    assert len(found) == 5


@pytest.mark.parametrize("model", ["structured", "transformer", "relation", "lstm"])
def test_padding_changes_nothing(model: str) -> None:
    classifier, texts = small_model(f"model={model}"), random_texts(*LENGTHS)
    together = read(classifier, texts)
    assert probabilities(classifier, texts) == pytest.approx(np.stack([one.probabilities_C for one in together]))
    for ids, one in zip(texts, together, strict=True):
        [alone] = read(classifier, [ids])
        assert one.weights_RL.shape[1] == len(ids)
        assert one.weights_RL == pytest.approx(alone.weights_RL, abs=1e-12)
        assert one.probabilities_C == pytest.approx(alone.probabilities_C, abs=1e-12)


def test_uniform_weights_in_place_are_the_mean_of_the_states() -> None:
    model, texts = small_model("model=structured", "model.attention.hops=2"), random_texts(*LENGTHS)
    for ids, one in zip(texts, read(model, texts), strict=True):
        with torch.no_grad():
            tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
            mean = model.encoder(model.embedding(tokens, mask), mask).mean(dim=1)
            expected = model.head(torch.cat([mean, mean], dim=1)).softmax(dim=1)
        assert one.uniform_C is not None
        assert one.uniform_C == pytest.approx(expected[0].numpy(), abs=1e-12)


def test_permuted_weights_stay_on_real_tokens_and_differ() -> None:
    model, texts = small_model("model=structured"), random_texts(*LENGTHS)
    readings = read(model, texts)
    assert all(one.permuted_PC is not None and one.permuted_PC.shape == (PERMUTATIONS, 3) for one in readings)
    single, longest = readings[0], readings[3]
    assert single.permuted_PC == pytest.approx(np.tile(single.probabilities_C, (PERMUTATIONS, 1)), abs=1e-12)
    assert longest.permuted_PC is not None
    assert np.ptp(longest.permuted_PC, axis=0).max() > 1e-6


@pytest.mark.parametrize("model", ["lstm_max", "lstm", "relation"])
def test_values_that_are_no_weighted_sums_have_no_other_weights(model: str) -> None:
    model_and_texts = small_model(f"model={model}", "model/encoder=bilstm"), random_texts(5, 8)
    assert all(one.uniform_C is None and one.permuted_PC is None for one in read(*model_and_texts))
