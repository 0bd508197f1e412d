"""An attention with other weights in its place: over tokens, and over n-grams, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from small_models import random_texts, small_model, wide_model

from sentattn.insight.weights import (
    CHANGE,
    PERMUTATIONS,
    Weights,
    adversary,
    batches,
    distance,
    divergence,
    probabilities,
    read,
    spread,
)

LENGTHS = (1, 9, 4, 17, 2, 9)


def test_batches_hold_each_text_once_and_few_tokens() -> None:
    lengths = np.array([3, 50, 1, 7, 7, 7, 2, 20])
    found = list(batches(lengths, tokens=20))
    assert sorted(np.concatenate(found)) == list(range(8))
    assert all(len(indices) * lengths[indices].max() <= 20 or len(indices) == 1 for indices in found)
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


def test_uniform_weights_give_the_mean_of_the_states() -> None:
    model, texts = small_model("model=structured", "model.attention.hops=2"), random_texts(*LENGTHS)
    for ids, one in zip(texts, read(model, texts), strict=True):
        with torch.no_grad():
            tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
            mean = model.encoder(model.embedding(tokens, mask), mask).mean(dim=1)
            expected = model.head(torch.cat([mean, mean], dim=1)).softmax(dim=1)
        assert one.uniform_C == pytest.approx(expected[0].numpy(), abs=1e-12)


def test_permuted_weights_stay_on_real_tokens_and_differ() -> None:
    model, texts = small_model("model=structured"), random_texts(*LENGTHS)
    readings = read(model, texts)
    assert all(one.permuted_PC.shape == (PERMUTATIONS, 3) for one in readings)
    single, longest = readings[0], readings[3]
    assert single.permuted_PC == pytest.approx(np.tile(single.probabilities_C, (PERMUTATIONS, 1)), abs=1e-12)
    assert np.ptp(longest.permuted_PC, axis=0).max() > 1e-6


@pytest.mark.parametrize("model", ["lstm_max", "lstm", "relation"])
def test_attentions_without_weighted_sums_have_nan(model: str) -> None:
    model_and_texts = small_model(f"model={model}", "model/encoder=bilstm"), random_texts(5, 8)
    assert all(np.isnan(one.uniform_C).all() and np.isnan(one.product_L).all() for one in read(*model_and_texts))


def test_attention_times_gradient_in_closed_form() -> None:
    model = small_model("model=feedforward", "model/encoder=identity")
    texts = random_texts(*LENGTHS)
    vectors, weight = model.embedding.vectors.weight.detach().numpy(), model.head.layers[-1].weight.detach().numpy()
    for ids, one in zip(texts, read(model, texts), strict=True):
        expected = one.weights_RL[0] * (vectors[ids] @ weight[one.probabilities_C.argmax()])
        assert one.product_L == pytest.approx(expected, abs=1e-12)


def test_an_ngram_is_spread_over_its_tokens() -> None:
    scores = torch.tensor([[[1.0, 0, 2, 0], [0, 4, 0, 6]]])  # words 0 and 2; the pairs that end at tokens 1 and 3
    assert spread(scores, (1, 2)).tolist() == [[[1, 0, 2, 0], [2, 2, 3, 3]]]


def ngram_weights(model: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    """The weights of tokens, after the definition: each known n-gram at its first end, its softmax over its tokens."""
    wide = model.wide
    tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
    with torch.no_grad():
        states = model.encoder(model.embedding(tokens, mask), mask)[0].numpy()
    scores = states @ wide.scores.weight.detach().numpy().T
    attention = np.exp(scores) / np.exp(scores).sum(axis=0)
    rows = np.zeros((len(wide.orders), len(ids)))
    for row, order in enumerate(wide.orders):
        seen = set()
        for end in range(order, len(ids) + 1):
            words = tuple(ids[end - order : end])
            key = sum(int(word) * wide.base**place for place, word in enumerate(reversed(words)))
            if words not in seen and key in known_keys(wide, order, words):
                seen.add(words)
                rows[row, end - order : end] += attention[end - 1, row] / order
    totals = rows.sum(axis=1, keepdims=True)
    return np.where(totals > 0, rows / np.where(totals > 0, totals, 1), 1 / len(ids))


def known_keys(wide: torch.nn.Module, order: int, words: tuple[int, ...]) -> set[int]:
    """The key of the words, where the wide part has counted them; itself found by reading them alone."""
    tokens = torch.tensor([words])
    terms = wide(
        tokens, torch.ones_like(tokens, dtype=torch.bool), torch.zeros(1, order, wide.scores.in_features).double()
    )
    places = terms.places_BG[0][terms.is_present_BG[0]].tolist()
    is_known = wide.orders.index(order) * order + order - 1 in places
    return {sum(int(word) * wide.base**place for place, word in enumerate(reversed(words)))} if is_known else set()


def test_weights_of_ngrams_become_those_of_tokens() -> None:
    model, texts = wide_model("model=mean"), random_texts(9, 4, 17)
    texts[0][5] = texts[0][1]  # a word that occurs twice counts at its first place
    for ids, one in zip(texts, read(model, texts, "ngrams"), strict=True):
        assert one.weights_RL.sum(axis=1) == pytest.approx(np.ones(2))
        assert one.weights_RL == pytest.approx(ngram_weights(model, ids), abs=1e-9)
    assert not np.allclose(read(model, texts, "ngrams")[2].weights_RL[0], 1 / 17)


def test_even_weights_of_ngrams_have_no_divergence() -> None:
    model, texts = wide_model("model=mean"), random_texts(*LENGTHS)
    with torch.no_grad():
        model.wide.scores.weight.zero_()
    for ids, one in zip(texts, read(model, texts, "ngrams"), strict=True):
        assert one.weights_RL == pytest.approx(np.full((2, len(ids)), 1 / len(ids)))
        assert np.isnan(one.divergence)


def test_other_weights_of_ngrams_change_both_parts() -> None:
    model, texts = wide_model("model=mean"), random_texts(*LENGTHS)
    readings = read(model, texts, "ngrams")
    assert np.stack([one.probabilities_C for one in readings]) == pytest.approx(probabilities(model, texts), abs=1e-12)
    shares = {"attention": model.deep_share, "wide": model.wide_share}
    for ids, one in zip(texts, readings, strict=True):
        tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
        with torch.no_grad():
            states = model.encoder(model.embedding(tokens, mask), mask)
            terms = model.wide(tokens, mask, states)
            deep = model(tokens, mask).wide.deep_BC - terms.attended_BGC.sum(dim=1)
            counts = model.wide.attention(states, mask).flatten(1).gather(1, terms.places_BG)[..., None]
        is_first, order = terms.is_present_BG[0], terms.places_BG[0] // len(ids)
        effects = (shares["attention"] * terms.attended_BGC + shares["wide"] * terms.terms_BGC)[0].numpy()
        own, even = counts[0, :, 0].numpy(), np.zeros(len(order))
        for row in range(2):  # even weights: the n-grams of an order share what they count together
            here = (is_first & (order == row)).numpy()
            even[here] = own[here].sum() / max(1, here.sum())
        logits = shares["attention"] * deep[0].numpy() + (effects * (even / own)[:, None]).sum(axis=0)
        assert one.uniform_C == pytest.approx(np.exp(logits) / np.exp(logits).sum(), abs=1e-9)
    assert np.ptp(readings[3].permuted_PC, axis=0).max() > 1e-6


def test_padding_changes_nothing_of_ngrams() -> None:
    model, texts = wide_model("model=mean"), random_texts(*LENGTHS)
    together = read(model, texts, "ngrams")
    [alone] = read(model, texts[:1], "ngrams")
    assert together[0].weights_RL == pytest.approx(alone.weights_RL)
    longest = read(model, [texts[i] for i in (0, 1, 2)], "ngrams")
    for one, other in zip(longest, together, strict=False):
        assert one.permuted_PC == pytest.approx(other.permuted_PC, abs=1e-12)
        assert one.product_L == pytest.approx(other.product_L, abs=1e-12)
        assert one.divergence == pytest.approx(other.divergence, abs=1e-6, nan_ok=True)


def test_distances_by_hand() -> None:
    assert distance(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])) == pytest.approx(0.3)
    first, second = np.random.default_rng(0).dirichlet(np.ones(6), (2, 3))
    expected = [jensenshannon(*pair) ** 2 for pair in zip(first, second, strict=True)]
    assert divergence(torch.tensor(first)[None], torch.tensor(second)[None])[0].numpy() == pytest.approx(expected)
    apart = torch.eye(2, dtype=torch.float64)[:, None]
    assert divergence(apart[:1], apart[1:]).item() == pytest.approx(math.log(2))


def of_two_tokens(own: float, effect: float) -> tuple[Weights, torch.Tensor]:
    """An attention to two tokens, of which the first adds to the logit of the first of two classes."""
    weights = torch.tensor([[[own, 1 - own]]], dtype=torch.float64)

    def logits(other_BRL: torch.Tensor) -> torch.Tensor:
        first_B = effect * other_BRL[:, 0, 0]
        return torch.stack([first_B, torch.zeros_like(first_B)], dim=1)

    return Weights(weights, torch.ones_like(weights, dtype=torch.bool), logits, lambda scores: scores), logits(weights)


@pytest.mark.parametrize(("own", "effect"), [(0.3, 0.0), (0.3, 0.05), (0.3, 0.5), (0.9, 0.1), (0.6, 20.0)])
def test_an_adversary_is_as_far_as_by_grid_search(own: float, effect: float) -> None:
    weights, own_logits = of_two_tokens(own, effect)
    found = adversary(weights, own_logits, torch.tensor([[0.3, 0.8]], dtype=torch.float64)).item()
    grid = np.linspace(0, 1, 20_001)
    p = 1 / (1 + np.exp(-effect * grid))
    allowed = grid[np.abs(p - 1 / (1 + np.exp(-effect * own))) <= CHANGE]
    best = max(jensenshannon([own, 1 - own], [w, 1 - w]) ** 2 for w in (allowed.min(), allowed.max()))
    assert found <= best + 1e-9
    assert found >= 0.8 * best - 1e-4
