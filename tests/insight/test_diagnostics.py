"""Diagnostics of a model over texts: samples, means, files; removed tokens against the form of a linear model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit
from small_models import random_texts, small_model, wide_model

from sentattn.data.tokenizer import Encoded
from sentattn.insight import diagnostics, weights
from sentattn.insight.diagnostics import (
    SHARES,
    Diagnostics,
    Texts,
    diagnose,
    drops,
    order,
    rank_correlation,
    sample,
    summary,
    unknown_probability,
)
from sentattn.insight.gradients import attributions


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


def test_means_are_over_texts_with_all_metrics() -> None:
    figures = {"a": np.array([1.0, np.nan, 3.0]), "b": np.array([np.nan, 2.0, 5.0]), "c": np.full(3, np.nan)}
    found = Diagnostics(figures, [])
    assert found.means(["a"]) == [2]
    assert found.means(["a", "b"]) == [3, 5]
    assert found.means(["a"], among=["b", "c"]) == [3]
    assert np.isnan(found.means(["c"], among=["a"])).all()


def test_stored_diagnostics_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [made] = diagnose(small_model("model=structured"), texts(3, 12, 1))
    made.save(tmp_path / "file")
    read = Diagnostics.load(tmp_path / "file")
    assert read is not None
    for name, values in made.values.items():
        assert read.values[name] == pytest.approx(values, nan_ok=True)
    assert [len(row) for row in read.weights] == [3, 12, 1]
    assert read.weights[1] == pytest.approx(made.weights[1], abs=1e-7)
    monkeypatch.setattr(diagnostics, "FORMAT", "other")
    assert Diagnostics.load(tmp_path / "file") is None
    assert Diagnostics.load(tmp_path / "none") is None


def test_tied_weights_have_no_metrics_of_rankings() -> None:
    [found] = diagnose(small_model("model=lstm_mean"), texts(9, 12, 5))
    of_attention = ("comprehensiveness_deleted_attention", "sufficiency_replaced_attention_10", "tau_integrated")
    of_others = ("correct_uniform", "tvd_permuted", "jsd_adversarial", "average_precision")
    assert np.isnan([found.means([name]) for name in (*of_attention, *of_others)]).all()
    rankings = ("integrated", "integrated_magnitude", "attention_x_gradient", "random")
    assert not np.isnan([found.means([f"comprehensiveness_deleted_{name}"]) for name in rankings]).any()
    assert not np.isnan(found.means(["tau_gradients"])).any()


def test_special_tokens_are_not_ranked_and_never_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, plain = small_model("model=structured"), texts(9, 2)
    first, last = 7, 8
    encoded = [
        Encoded(np.r_[first, text.ids, last], ["[CLS]", *text.tokens, "[SEP]"], [(0, 0), *text.spans, (99, 99)])
        for text in plain.encoded
    ]
    read: list[list[int]] = []
    monkeypatch.setattr(
        diagnostics,
        "probabilities",
        lambda model, texts: read.extend(map(list, texts)) or weights.probabilities(model, texts),
    )
    rationales = [[text.spans[0]] for text in plain.encoded]
    [found] = diagnose(model, Texts(encoded, plain.labels_N, rationales))
    assert {(ids[0], ids[-1]) for ids in read} == {(first, last)}
    assert min(map(len, read)) == 3  # of the text of two words, a word is left
    [own, other] = weights.read(model, [text.ids for text in encoded])
    for kept_K, reading in zip(found.weights, (own, other), strict=True):
        assert kept_K == pytest.approx(reading.weights_RL.mean(axis=0)[1:-1])
    gradient = attributions(model, [encoded[0].ids], own.probabilities_C.argmax()[None])[0]
    expected = rank_correlation(found.weights[0], np.abs(gradient.integrated_L[1:-1]))
    assert found.values["tau_integrated"][0] == pytest.approx(expected)
    order_K = np.argsort(-found.weights[0])
    assert found.values["average_precision"][0] == pytest.approx(1 / (1 + list(order_K).index(0)))


def test_weights_on_special_tokens_alone_rank_nothing() -> None:
    text = texts(4).encoded[0]
    special = Encoded(text.ids, ["[CLS]", *text.tokens[1:]], [(0, 0), *text.spans[1:]])
    [found] = diagnose(small_model("model/attention=first"), Texts([special], np.zeros(1, dtype=np.int64), [[]]))
    assert np.isnan(found.means(["comprehensiveness_deleted_attention", "tau_integrated"])).all()


def test_diagnostics_of_an_attention_over_ngrams() -> None:
    model, read = wide_model("model=mean"), texts(9, 40, 17)
    tokens, ngrams = diagnose(model, read, ["tokens", "ngrams"])
    assert tokens.values.keys() == ngrams.values.keys()
    names = ("evenness", "hop_overlap", "tau_integrated", "tvd_uniform", "tvd_permuted", "jsd_adversarial")
    of_removal = ("comprehensiveness_deleted_attention", "sufficiency_replaced_attention_x_gradient")
    for name in (*names, *of_removal):
        assert not np.isnan(ngrams.values[name]).any()
    for name in (*names[2:], of_removal[0]):
        assert np.isnan(tokens.values[name]).all()  # `mean` has even weights
    for name in ("p", "comprehensiveness_deleted_integrated", "correct"):
        assert (tokens.values[name] == ngrams.values[name]).all()


def test_uniform_attention_over_ngrams_has_no_metrics_of_rankings() -> None:
    model, read = wide_model("model=mean"), texts(9, 12, 5)
    with torch.no_grad():
        model.wide.scores.weight.zero_()
    [found] = diagnose(model, read, ["ngrams"])
    for name in ("comprehensiveness_deleted_attention", "tau_integrated", "correct_uniform", "jsd_adversarial"):
        assert np.isnan(found.values[name]).all()


def test_tokens_are_ranked_by_integrated_gradients_and_by_their_magnitude(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    drops = diagnostics.drops
    monkeypatch.setattr(
        diagnostics,
        "drops",
        lambda model, ids, classes, orders, **more: seen.extend(orders) or drops(model, ids, classes, orders, **more),
    )
    model, read = small_model("model=structured"), texts(9, 12)
    diagnose(model, read)
    classes = [one.probabilities_C.argmax() for one in weights.read(model, [one.ids for one in read.encoded])]
    found = attributions(model, [one.ids for one in read.encoded], np.array(classes))
    for orders, one in zip(seen, found, strict=True):
        assert orders[1].tolist() == np.argsort(-one.integrated_L).tolist()
        assert orders[2].tolist() == np.argsort(-np.abs(one.integrated_L)).tolist()


def test_metrics_of_a_text_do_not_depend_on_other_texts() -> None:
    model, together = small_model("model=structured"), texts(9, 40)
    first = Texts(together.encoded[:1], together.labels_N[:1], together.rationales[:1])
    one, two = diagnose(model, first)[0].values, diagnose(model, together)[0].values
    for name, values in two.items():
        close = 1e-3 if name == "jsd_adversarial" else 1e-9  # a search of many steps
        assert values[0] == pytest.approx(one[name][0], nan_ok=True, abs=close)


def test_metrics_do_not_depend_on_the_order_of_hops() -> None:
    model, read = small_model("model=structured", "model/pooling=mean"), texts(9, 40)
    [before] = diagnose(model, read)
    scores = model.attention.scores
    with torch.no_grad():
        scores.weight.copy_(scores.weight.flip(0))
        scores.bias.copy_(scores.bias.flip(0))
    [after] = diagnose(model, read)
    for name in ("hop_overlap", "evenness", "comprehensiveness_deleted_attention", "tau_integrated", "p"):
        assert after.values[name] == pytest.approx(before.values[name], abs=1e-9)


def test_accuracy_with_other_weights_is_that_of_their_predictions() -> None:
    model, read = small_model("model=structured"), texts(9, 40, 7, 20)
    readings = weights.read(model, [one.ids for one in read.encoded])
    found = diagnose(model, read)[0].values
    for i, one in enumerate(readings):
        assert found["correct"][i] == (np.argmax(one.probabilities_C) == 0)
        assert found["correct_uniform"][i] == (np.argmax(one.uniform_C) == 0)
        assert found["correct_permuted"][i] == np.mean([np.argmax(row) == 0 for row in one.permuted_PC])


LENGTHS = (1, 9, 2, 150, 15)
FIRST = {1: [1] * 5, 9: [1, 1, 1, 2, 5], 2: [1] * 5, 150: [2, 8, 15, 30, 75], 15: [1, 1, 2, 3, 8]}
"""ceil(k n), at least 1, by hand."""


def test_linear_model_in_closed_form() -> None:
    model, texts = small_model("model=mean", classes=2), random_texts(*LENGTHS)
    vectors = model.embedding.vectors.weight.detach().numpy()
    layer = model.head.layers[-1]
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    scores = vectors @ (weight[1] - weight[0])

    def probability(ids: np.ndarray) -> float:
        return expit(scores[ids].mean() + bias[1] - bias[0])

    random = np.random.default_rng(0)
    orders = [[random.permutation(len(ids)) for _ in range(3)] for ids in texts]
    found = drops(model, texts, np.ones(len(texts), dtype=np.int64), orders)
    assert found.shape == (5, 3, 2, 2, len(SHARES))
    assert np.isnan(found[0]).all()
    for i, ids in enumerate(texts[1:], start=1):
        for q, ranking in enumerate(orders[i]):
            for k, count in enumerate(FIRST[len(ids)]):
                first, rest = sorted(ranking[:count]), sorted(ranking[count:])
                unknown = np.ones_like(ids)
                without, only = np.where(np.isin(range(len(ids)), rest), [ids, unknown], [unknown, ids])
                expected = [[ids[rest], ids[first]], [without, only]]
                falls = [[probability(ids) - probability(one) for one in kinds] for kinds in expected]
                assert found[i, q, :, :, k] == pytest.approx(np.array(falls), abs=1e-12)
    expected_unknown = [probability(np.ones_like(ids)) for ids in texts]
    assert unknown_probability(
        model, texts, np.ones(5, dtype=np.int64), [np.arange(len(ids)) for ids in texts]
    ) == pytest.approx(expected_unknown, abs=1e-12)


def test_summary_is_the_mean_over_shares_and_rankings() -> None:
    falls = np.random.default_rng(0).random((4, 3, 2, 2, 5))
    found = summary(falls, {"attention": [0], "random": [1, 2]})
    assert found["comprehensiveness_deleted_attention"] == pytest.approx(falls[:, 0, 0, 0].mean(axis=1))
    assert found["sufficiency_replaced_random"] == pytest.approx(falls[:, 1:, 1, 1].mean(axis=(1, 2)))
    assert found["sufficiency_deleted_random_20"] == pytest.approx(falls[:, 1:, 0, 1, 3].mean(axis=1))
    assert len(found) == 8 * (1 + len(SHARES))


def test_ties_are_not_in_the_order_of_the_text() -> None:
    random = np.random.default_rng(0)
    assert order(np.array([0.1, 0.4, 0.2, 0.3]), random).tolist() == [1, 3, 2, 0]
    tied = [order(np.array([0.0, 0.5, 0.5, 0.5]), random).tolist() for _ in range(100)]
    assert {one[0] for one in tied} == {1, 2, 3}
    assert {one[3] for one in tied} == {0}


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation(np.array([1, 2, 3.0]), np.array([1, 3, 2.0])) == pytest.approx(1 / 3)
    assert rank_correlation(np.array([1, 2, 3.0]), np.array([9, 5, 1.0])) == pytest.approx(-1)
    assert np.isnan(rank_correlation(np.ones(3), np.array([1, 2, 3.0])))
