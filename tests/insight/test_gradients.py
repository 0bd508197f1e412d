"""Attributions, against the closed form of a linear model and the completeness of the integral."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import random_texts, small_model, wide_model

from sentattn.data.tokenizer import UNKNOWN_ID
from sentattn.insight.gradients import TOLERANCE, attributions
from sentattn.insight.weights import probabilities

LENGTHS = (1, 9, 4, 17)
CLASSES = np.array([0, 2, 1, 1])


def test_linear_model_in_closed_form() -> None:
    model, texts = small_model("model=mean"), random_texts(*LENGTHS)
    vectors, weight = model.embedding.vectors.weight.detach().numpy(), model.head.layers[-1].weight.detach().numpy()
    for ids, label, one in zip(texts, CLASSES, attributions(model, texts, CLASSES), strict=True):
        assert one.input_x_gradient_L == pytest.approx(vectors[ids] @ weight[label] / len(ids), abs=1e-12)
        expected = (vectors[ids] - vectors[UNKNOWN_ID]) @ weight[label] / len(ids)
        assert one.integrated_L == pytest.approx(expected, abs=1e-6)
        assert one.change == pytest.approx(expected.sum(), abs=1e-6)
        assert abs(one.error) < 1e-6


@pytest.mark.parametrize("model", ["structured", "transformer", "relation", "attended_ngrams"])
def test_integrated_gradients_are_complete_and_ignore_padding(model: str) -> None:
    classifier = wide_model("model=structured") if "ngrams" in model else small_model(f"model={model}", std=0.2)
    texts = random_texts(*LENGTHS)
    together = attributions(classifier, texts, CLASSES)
    with torch.no_grad():
        for ids, label, one in zip(texts, CLASSES, together, strict=True):
            both = torch.tensor(np.stack([ids, np.full_like(ids, UNKNOWN_ID)]))
            whole, baseline = classifier(both, torch.ones_like(both, dtype=torch.bool)).logits_BC[:, label].tolist()
            assert one.change == pytest.approx(whole - baseline, abs=1e-6)
            assert one.integrated_L.sum() == pytest.approx(whole - baseline, rel=TOLERANCE)
            assert one.error == pytest.approx(one.integrated_L.sum() - one.change, abs=1e-9)
    [alone] = attributions(classifier, texts[1:2], CLASSES[1:2])
    assert together[1].integrated_L == pytest.approx(alone.integrated_L, abs=1e-9)
    assert together[1].input_x_gradient_L == pytest.approx(alone.input_x_gradient_L, abs=1e-9)


def test_attributions_of_a_linear_model_over_ngrams() -> None:
    model, texts = wide_model("model=wide", attends=False), random_texts(*LENGTHS)
    with torch.no_grad():
        model.head.layers[-1].weight.zero_()
    for ids, label, one in zip(texts, CLASSES, attributions(model, texts, CLASSES), strict=True):
        tokens, mask = torch.tensor(ids)[None], torch.ones(1, len(ids), dtype=torch.bool)
        with torch.no_grad():
            terms = model.wide(tokens, mask, torch.zeros(1, len(ids), 1, dtype=torch.float64))
        expected = np.zeros(len(ids))
        for place, term in zip(terms.places_BG[0].tolist(), terms.terms_BGC[0, :, label].tolist(), strict=True):
            row, last = divmod(place, len(ids))
            order = model.wide.orders[row]
            expected[max(0, last + 1 - order) : last + 1] += term / order
        assert one.input_x_gradient_L == pytest.approx(expected, abs=1e-12)
        assert one.integrated_L == pytest.approx(expected, abs=1e-6)


def test_attributions_include_the_wide_part() -> None:
    model, texts = wide_model("model=mean"), random_texts(*LENGTHS)
    with torch.no_grad():
        model.head.layers[-1].weight.zero_()  # the head says nothing
    for one in attributions(model, texts[1:], CLASSES[1:]):
        assert np.abs(one.integrated_L).max() > 1e-3
        assert np.abs(one.input_x_gradient_L).max() > 1e-3


def test_more_points_until_the_integral_is_complete() -> None:
    model, texts = small_model("model=lstm_mean", std=0.3), random_texts(*LENGTHS, 30, 40)
    classes = np.array([*CLASSES, 0, 2])
    rough = attributions(model, texts, classes, most_steps=20)
    assert any(abs(one.error) > TOLERANCE * abs(one.change) for one in rough)
    for one, other in zip(attributions(model, texts, classes), rough, strict=True):
        assert abs(one.error) <= TOLERANCE * abs(one.change)
        assert one.change == pytest.approx(other.change, abs=1e-9)


def test_the_number_of_points_is_limited() -> None:
    model, texts = small_model("model=lstm_mean", std=0.3), random_texts(40)
    steps = []
    forward = model.encoder.forward
    model.encoder.forward = lambda states_BLE, mask_BL: steps.append(len(states_BLE)) or forward(states_BLE, mask_BL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sentattn.insight.gradients.TOLERANCE", 0.0)
        attributions(model, texts, np.array([0]), most_steps=80)
    assert max(steps) == 80


def test_attributions_leave_the_model_unchanged() -> None:
    model, texts = small_model("model=structured"), random_texts(*LENGTHS)
    before = probabilities(model, texts)
    attributions(model, texts, CLASSES)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert probabilities(model, texts) == pytest.approx(before, abs=0)
