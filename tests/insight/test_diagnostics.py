"""Diagnostics of a model over texts: samples, files, and each measure against numbers by hand or a closed form."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from small_models import random_texts, small_model, wide_model

from sentattn.data.tokenizer import UNKNOWN_ID, Encoded
from sentattn.insight import diagnostics
from sentattn.insight.diagnostics import (
    COMPLETE,
    DRAWS,
    Diagnostics,
    Reading,
    batches,
    diagnose,
    expected_average_precision,
    integrated_gradients,
    order,
    overlap,
    plausibility,
    probabilities,
    random_predictions,
    rank_correlation,
    ranks,
    read,
    removals,
    sample,
)
from sentattn.prediction.model import token_rows

LENGTHS = (1, 9, 4, 17)
CLASSES = (0, 2, 1, 1)
OF_ATTENTION = ("comprehensiveness_attention", "sufficiency_attention")
OF_WEIGHTS = ("correct_even", "correct_permuted", "correct_random")


def texts(*lengths: int) -> tuple[list[Encoded], np.ndarray, list[list[Any]]]:
    """Texts of the first class, without a rationale."""
    encoded = [
        Encoded(ids.astype(np.int32), [f"word{i}" for i in ids], [(8 * i, 8 * i + 6) for i in range(len(ids))])
        for ids in random_texts(*lengths)
    ]
    return encoded, np.zeros(len(encoded), dtype=np.int64), [[] for _ in encoded]


def reading(model: torch.nn.Module, ids: np.ndarray) -> Reading:
    return read(model, ids, np.random.default_rng(0))


def test_samples_are_the_same_each_time() -> None:
    assert sample(1000, 50).tolist() == sample(1000, 50).tolist()
    assert len(set(sample(1000, 50))) == 50
    assert sample(20, 50).tolist() == sample(20, None).tolist() == list(range(20))


def test_stored_diagnostics_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = diagnose(small_model("model=structured"), *texts(3, 12, 1))
    made.save(tmp_path / "file")
    read_again = Diagnostics.load(tmp_path / "file")
    assert read_again is not None
    for name, values in made.values.items():
        assert read_again.values[name] == pytest.approx(values, nan_ok=True)
    assert [len(row) for row in read_again.weights] == [3, 12, 1]
    assert read_again.weights[1] == pytest.approx(made.weights[1], abs=1e-7)
    monkeypatch.setattr(diagnostics, "FORMAT", "other")
    assert Diagnostics.load(tmp_path / "file") is None
    assert Diagnostics.load(tmp_path / "none") is None


def test_tied_weights_rank_nothing() -> None:
    found = diagnose(small_model("model=lstm_mean"), *texts(9, 12, 5)).values
    for name in (*OF_ATTENTION, *OF_WEIGHTS, "average_precision", "hop_overlap"):
        assert np.isnan(found[name]).all()
    assert found["tokens"] == pytest.approx([9, 12, 5])
    for name in ("comprehensiveness_gradients", "sufficiency_random", "correct"):
        assert not np.isnan(found[name]).any()


def test_special_tokens_are_not_ranked_and_never_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (plain, labels_N, _) = small_model("model=structured"), texts(9, 2)
    first, last = 7, 8
    encoded = [
        Encoded(np.r_[first, text.ids, last], ["[CLS]", *text.tokens, "[SEP]"], [(0, 0), *text.spans, (99, 99)])
        for text in plain
    ]
    seen: list[list[int]] = []
    monkeypatch.setattr(
        diagnostics,
        "probabilities",
        lambda model, texts, *more: seen.extend(map(list, texts)) or probabilities(model, texts, *more),
    )
    rationales = [[text.spans[0]] for text in plain]
    found = diagnose(model, encoded, labels_N, rationales)
    assert {(ids[0], ids[-1]) for ids in seen} == {(first, last)}
    assert min(map(len, seen)) == 3  # of the text of two words, a word is left
    for kept_K, text in zip(found.weights, encoded, strict=True):
        assert kept_K == pytest.approx(reading(model, text.ids).weights_RL.mean(axis=0)[1:-1])
    order_K = np.argsort(-found.weights[0])
    assert found.values["average_precision"][0] == pytest.approx(1 / (1 + list(order_K).index(0)))


def test_weights_on_special_tokens_alone_rank_nothing() -> None:
    text = texts(4)[0][0]
    special = Encoded(text.ids, ["[CLS]", *text.tokens[1:]], [(0, 0), *text.spans[1:]])
    found = diagnose(small_model("model/attention=first"), [special], np.zeros(1, dtype=np.int64), [[]])
    assert np.isnan([found.values[name] for name in (*OF_ATTENTION, *OF_WEIGHTS)]).all()


def test_tokens_are_ranked_by_attention_and_by_the_magnitude_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, np.ndarray]] = []
    monkeypatch.setattr(diagnostics, "removals", lambda *args: seen.append(args[4]) or removals(*args))
    model, both = small_model("model=structured"), texts(9, 12)
    diagnose(model, *both)
    for rankings, one in zip(seen, both[0], strict=True):
        own = reading(model, one.ids)
        gradients = integrated_gradients(model, one.ids, int(own.own_C.argmax())).of_tokens_L
        assert rankings["attention"] == pytest.approx(own.weights_RL.mean(axis=0))
        assert rankings["gradients"] == pytest.approx(np.abs(gradients))


def test_measures_of_a_text_do_not_depend_on_other_texts() -> None:
    model, together = small_model("model=structured"), texts(9, 14)
    one, two = diagnose(model, *(part[:1] for part in together)).values, diagnose(model, *together).values
    for name, values in two.items():
        assert values[0] == pytest.approx(one[name][0], nan_ok=True, abs=1e-9)


def test_measures_do_not_depend_on_the_order_of_hops() -> None:
    model, both = small_model("model=structured", "model/pooling=mean"), texts(9, 14)
    before = diagnose(model, *both).values
    scores = model.attention.scores
    with torch.no_grad():
        scores.weight.copy_(scores.weight.flip(0))
        scores.bias.copy_(scores.bias.flip(0))
    after = diagnose(model, *both).values
    for name in before.keys() - {"correct_random"}:  # which shuffles other values
        assert after[name] == pytest.approx(before[name], abs=1e-9, nan_ok=True)


def test_accuracy_with_other_weights_is_that_of_their_predictions() -> None:
    model, several = small_model("model=structured"), texts(9, 14, 7)
    found = diagnose(model, *several).values
    random_NP = random_predictions(model, [one.ids for one in several[0]])
    for i, one in enumerate(several[0]):
        own = read(model, one.ids, np.random.default_rng([0, i]))
        assert found["correct"][i] == (np.argmax(own.own_C) == 0)
        assert found["correct_even"][i] == (np.argmax(own.even_1C) == 0)
        assert found["correct_permuted"][i] == np.mean([np.argmax(row) == 0 for row in own.permuted_PC])
        assert found["correct_random"][i] == np.mean(random_NP[i] == 0)


# Batches and readings


def test_batches_hold_each_text_once_and_few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "TOKENS", 20)
    lengths = np.array([3, 50, 1, 7, 7, 7, 2, 20])
    found = list(batches(lengths))
    assert sorted(np.concatenate(found)) == list(range(8))
    assert all(len(indices) * lengths[indices].max() <= 20 or len(indices) == 1 for indices in found)
    assert len(found) == 5


@pytest.mark.parametrize("model", ["structured", "transformer", "relation", "lstm"])
def test_padding_changes_nothing(model: str) -> None:
    classifier, several = small_model(f"model={model}"), random_texts(*LENGTHS)
    alone = [reading(classifier, ids) for ids in several]
    assert probabilities(classifier, several) == pytest.approx(np.stack([one.own_C for one in alone]), abs=1e-12)
    assert all(one.weights_RL.shape[1] == len(ids) for ids, one in zip(several, alone, strict=True))


def test_even_weights_give_the_mean_of_the_states() -> None:
    model = small_model("model=structured", "model.attention.hops=2")
    for ids in random_texts(*LENGTHS):
        with torch.no_grad():
            tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
            mean = model.encoder(model.embedding(tokens, mask), mask).mean(dim=1)
            expected = model.head(torch.cat([mean, mean], dim=1)).softmax(dim=1)
        assert reading(model, ids).even_1C == pytest.approx(expected.numpy(), abs=1e-12)


def test_permuted_weights_differ_where_there_are_several() -> None:
    model, (single, _, _, longest) = small_model("model=structured"), random_texts(*LENGTHS)
    alone = reading(model, single)
    assert alone.permuted_PC == pytest.approx(np.tile(alone.own_C, (DRAWS, 1)), abs=1e-12)
    assert np.ptp(reading(model, longest).permuted_PC, axis=0).max() > 1e-6


@pytest.mark.parametrize("model", ["lstm_max", "lstm", "relation"])
def test_attentions_without_weighted_sums_have_no_other_weights(model: str) -> None:
    classifier = small_model(f"model={model}", "model/encoder=bilstm")
    for ids in random_texts(5, 8):
        one = reading(classifier, ids)
        assert np.isnan(one.even_1C).all()
        assert np.isnan(one.permuted_PC).all()


def test_random_attentions_keep_the_values_of_their_parameters_and_the_model() -> None:
    model, several = small_model("model=structured"), random_texts(*LENGTHS)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    seen: list[dict[str, torch.Tensor]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            diagnostics,
            "probabilities",
            lambda model, texts, parameters: seen.append(parameters) or probabilities(model, texts, parameters),
        )
        found = random_predictions(model, several)
    assert found.shape == (len(several), DRAWS)
    scoring = {name for name, value in model.named_parameters() if name.startswith("attention")}
    assert all(parameters.keys() == scoring for parameters in seen)
    for name, value in seen[0].items():
        assert sorted(value.flatten().tolist()) == sorted(before[name].flatten().tolist())
    assert not torch.equal(seen[0]["attention.hidden.weight"], seen[1]["attention.hidden.weight"])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (found == random_predictions(model, several)).all()


def test_a_relation_has_random_scores_and_keeps_its_features() -> None:
    model, several = small_model("model=relation"), texts(9, 12)
    assert not np.isnan(diagnose(model, *several).values["correct_random"]).any()
    assert np.isnan(random_predictions(small_model("model=lstm_mean"), random_texts(5))).all()


# Attention over n-grams


def test_an_ngram_is_spread_over_its_tokens() -> None:
    scores = torch.tensor([[[1.0, 0, 2, 0], [0, 4, 0, 6]]])  # words 0 and 2; the pairs that end at tokens 1 and 3
    assert wide_model("model=mean").spread_over_tokens(scores).tolist() == [[[1, 0, 2, 0], [2, 2, 3, 3]]]


def ngram_weights(model: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    """The weights of tokens, after the definition: each known n-gram at its first end, its softmax over its tokens."""
    wide = model.wide
    tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
    with torch.no_grad():
        states = model.encoder(model.embedding(tokens, mask), mask)[0].numpy()
    scores = states @ wide.scores.weight.detach().numpy().T
    attention = np.exp(scores) / np.exp(scores).sum(axis=0)
    rows = np.zeros((len(wide.orders), len(ids)))
    for row, length in enumerate(wide.orders):
        seen = set()
        for end in range(length, len(ids) + 1):
            words = tuple(ids[end - length : end])
            if words not in seen and is_known(wide, length, words):
                seen.add(words)
                rows[row, end - length : end] += attention[end - 1, row] / length
    totals = rows.sum(axis=1, keepdims=True)
    return np.where(totals > 0, rows / np.where(totals > 0, totals, 1), 1 / len(ids))


def is_known(wide: torch.nn.Module, length: int, words: tuple[int, ...]) -> bool:
    """Whether the wide part has counted the words, itself found by reading them alone."""
    tokens = torch.tensor([words])
    mask = torch.ones_like(tokens, dtype=torch.bool)
    terms = wide(tokens, mask, torch.zeros(1, length, wide.scores.in_features).double())
    places = terms.places_BG[0][terms.is_present_BG[0]].tolist()
    return wide.orders.index(length) * length + length - 1 in places


def token_weights(model: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
    with torch.no_grad():
        states = model.encoder(model.embedding(tokens, mask), mask)
        counts, _ = model.ngram_terms(model.wide(tokens, mask, states), model.wide.attention(states, mask))
        return token_rows(model, counts, mask)[0].numpy()


def test_weights_of_ngrams_become_those_of_tokens() -> None:
    model, several = wide_model("model=mean"), random_texts(9, 4, 17)
    several[0][5] = several[0][1]  # a word that occurs twice counts at its first place
    for ids in several:
        one = token_weights(model, ids)
        assert one.sum(axis=1) == pytest.approx(np.ones(2))
        assert one == pytest.approx(ngram_weights(model, ids), abs=1e-9)
    assert not np.allclose(token_weights(model, several[2])[0], 1 / 17)


def test_even_weights_of_ngrams_are_even_weights_of_tokens() -> None:
    model = wide_model("model=mean")
    with torch.no_grad():
        model.wide.scores.weight.zero_()
    assert token_weights(model, random_texts(9)[0]) == pytest.approx(np.full((2, 9), 1 / 9))


def test_other_weights_of_states_leave_what_a_wide_part_adds() -> None:
    model, [ids] = wide_model("model=structured"), random_texts(9)
    tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
    with torch.no_grad():
        found = model(tokens, mask)
        even = model.classify(found.states_BLD.mean(dim=1, keepdim=True).expand_as(found.attended.values_BRD))
        changed = found.logits_BC + model.deep_share * (even - model.classify(found.attended.values_BRD))
    assert reading(model, ids).even_1C == pytest.approx(changed.softmax(dim=1).numpy(), abs=1e-9)


# Integrated gradients


def test_gradients_of_a_linear_model_in_closed_form() -> None:
    model = small_model("model=mean")
    vectors, weight = model.embedding.vectors.weight.detach().numpy(), model.head.layers[-1].weight.detach().numpy()
    for ids, label in zip(random_texts(*LENGTHS), CLASSES, strict=True):
        one = integrated_gradients(model, ids, label)
        expected = (vectors[ids] - vectors[UNKNOWN_ID]) @ weight[label] / len(ids)
        assert one.of_tokens_L == pytest.approx(expected, abs=1e-6)
        assert one.change == pytest.approx(expected.sum(), abs=1e-6)
        assert abs(one.error) < 1e-6


@pytest.mark.parametrize("model", ["structured", "transformer", "relation", "attended_ngrams"])
def test_integrated_gradients_are_complete(model: str) -> None:
    classifier = wide_model("model=structured") if "ngrams" in model else small_model(f"model={model}", std=0.2)
    for ids, label in zip(random_texts(*LENGTHS), CLASSES, strict=True):
        one = integrated_gradients(classifier, ids, label)
        both = torch.tensor(np.stack([ids, np.full_like(ids, UNKNOWN_ID)]))
        with torch.no_grad():
            whole, baseline = classifier(both, torch.ones_like(both, dtype=torch.bool)).logits_BC[:, label].tolist()
        assert one.change == pytest.approx(whole - baseline, abs=1e-6)
        assert one.of_tokens_L.sum() == pytest.approx(whole - baseline, rel=COMPLETE)
        assert one.error == pytest.approx(one.of_tokens_L.sum() - one.change, abs=1e-9)


def test_gradients_of_a_linear_model_over_ngrams() -> None:
    model = wide_model("model=wide", attends=False)
    with torch.no_grad():
        model.head.layers[-1].weight.zero_()
    for ids, label in zip(random_texts(*LENGTHS), CLASSES, strict=True):
        tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
        with torch.no_grad():
            terms = model.wide(tokens, mask, torch.zeros(1, len(ids), 1, dtype=torch.float64))
        expected = np.zeros(len(ids))
        for place, term in zip(terms.places_BG[0].tolist(), terms.terms_BGC[0, :, label].tolist(), strict=True):
            row, last = divmod(place, len(ids))
            length = model.wide.orders[row]
            expected[max(0, last + 1 - length) : last + 1] += term / length
        assert integrated_gradients(model, ids, label).of_tokens_L == pytest.approx(expected, abs=1e-6)


def test_more_points_until_the_integral_is_complete() -> None:
    model, found = small_model("model=lstm_mean", std=0.3), []
    for ids, label in zip(random_texts(*LENGTHS, 30, 40), (*CLASSES, 0, 2), strict=True):
        rough, one = (integrated_gradients(model, ids, label, most_steps=most) for most in (20, 160))
        found.append(rough)
        assert abs(one.error) <= COMPLETE * abs(one.change)
        assert one.change == pytest.approx(rough.change, abs=1e-9)
    assert any(abs(one.error) > COMPLETE * abs(one.change) for one in found)


def test_gradients_leave_the_model_unchanged() -> None:
    model, several = small_model("model=structured"), random_texts(*LENGTHS)
    before = probabilities(model, several)
    integrated_gradients(model, several[1], 0)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert probabilities(model, several) == pytest.approx(before, abs=0)


# Removed tokens


FIRST = {9: [1, 1, 1, 2, 5], 2: [1] * 5, 150: [2, 8, 15, 30, 75], 15: [1, 1, 2, 3, 8]}
"""ceil(k n), at least 1, by hand."""


@pytest.mark.parametrize("length", FIRST)
def test_falls_of_a_linear_model_in_closed_form(length: int) -> None:
    model, [ids] = small_model("model=mean", classes=2), random_texts(length)
    vectors, layer = model.embedding.vectors.weight.detach().numpy(), model.head.layers[-1]
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    scores = vectors @ (weight[1] - weight[0])

    def probability(kept: np.ndarray) -> float:
        return expit(scores[ids[kept]].mean() + bias[1] - bias[0])

    def falls(order_K: np.ndarray) -> tuple[float, float]:
        whole, counts = probability(np.arange(length)), FIRST[length]
        without, only = (
            [probability(order_K[side]) for side in sides]
            for sides in ([slice(n, None) for n in counts], [slice(n) for n in counts])
        )
        return whole - np.mean(without), whole - np.mean(only)

    random = np.random.default_rng(0)
    given = random.random(length)
    found = removals(model, ids, 1, np.arange(length), {"given": given, "none": None}, np.random.default_rng(5))
    assert (found["comprehensiveness_given"], found["sufficiency_given"]) == pytest.approx(falls(np.argsort(-given)))
    random = np.random.default_rng(5)
    drawn = np.mean([falls(random.permutation(length)) for _ in range(DRAWS)], axis=0)
    assert (found["comprehensiveness_random"], found["sufficiency_random"]) == pytest.approx(tuple(drawn))
    assert np.isnan(found["comprehensiveness_none"])


def test_a_text_of_one_token_has_no_falls() -> None:
    model, [ids] = small_model("model=mean"), random_texts(1)
    found = removals(model, ids, 1, np.arange(1), {"given": np.ones(1)}, np.random.default_rng(0))
    assert len(found) == 4
    assert np.isnan(list(found.values())).all()


def test_ties_are_not_in_the_order_of_the_text() -> None:
    random = np.random.default_rng(0)
    assert order(np.array([0.1, 0.4, 0.2, 0.3]), random).tolist() == [1, 3, 2, 0]
    tied = [order(np.array([0.0, 0.5, 0.5, 0.5]), random).tolist() for _ in range(100)]
    assert {one[0] for one in tied} == {1, 2, 3}
    assert {one[3] for one in tied} == {0}


# Weights by themselves


SPANS = [(0, 3), (4, 8), (8, 9), (10, 15)]


def test_overlap_by_hand() -> None:
    assert overlap(np.array([[0.5, 0.5, 0], [0, 0.5, 0.5]])) == pytest.approx(0.5)
    assert overlap(np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])) == pytest.approx(1)
    assert overlap(np.eye(3)) == 0
    assert np.isnan(overlap(np.array([[0.5, 0.25, 0.25, 0.0]])))


@pytest.mark.parametrize(
    ("weights", "expected"), [([0.2, 0.3, 0.5], True), ([1 / 3] * 3, False), ([0, 1, 0], False), ([], False)]
)
def test_weights_that_tie_rank_nothing(weights: list[float], expected: bool) -> None:
    assert ranks(np.array(weights, dtype=float)) is expected


@pytest.mark.parametrize(("length", "gold"), [(n, r) for n in range(1, 8) for r in range(1, n + 1)])
def test_random_rankings_are_the_mean_over_all_permutations(length: int, gold: int) -> None:
    def value(places: tuple[int, ...]) -> float:
        ranked = sorted(rank for rank, token in enumerate(places, start=1) if token < gold)
        return float(np.mean([number / rank for number, rank in enumerate(ranked, start=1)]))

    expected = np.mean([value(places) for places in permutations(range(length))])
    assert expected_average_precision(length, gold) == pytest.approx(expected, abs=1e-12)


def test_plausibility_by_hand() -> None:
    weights = np.array([0.4, 0.15, 0.1, 0.35])
    found = plausibility(weights, SPANS, [(10, 15)])
    assert found["average_precision"] == pytest.approx(1 / 2)
    assert found["average_precision_random"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert plausibility(weights, SPANS, [(9, 11), (14, 20)]) == pytest.approx(found)  # one character is enough
    both = plausibility(weights, SPANS, [(4, 8), (10, 15)])
    assert both["average_precision"] == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_tied_tokens_have_one_rank() -> None:
    for gold in (1, 3):
        found = plausibility(np.array([0.4, 0.3, 0.0, 0.3]), SPANS, [SPANS[gold]])
        assert found["average_precision"] == pytest.approx(1 / 3)


def test_plausibility_needs_a_rationale_and_a_ranking() -> None:
    for weights, rationale in (([0.1, 0.2, 0.3, 0.4], []), ([0.25] * 4, [(0, 3)]), ([0.1, 0.2, 0.3, 0.4], [(0, 15)])):
        assert np.isnan(list(plausibility(np.array(weights), SPANS, rationale).values())).all()


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation(np.array([1, 2, 3.0]), np.array([1, 3, 2.0])) == pytest.approx(1 / 3)
    assert rank_correlation(np.array([1, 2, 3.0]), np.array([9, 5, 1.0])) == pytest.approx(-1)
    assert np.isnan(rank_correlation(np.ones(3), np.array([1, 2, 3.0])))
