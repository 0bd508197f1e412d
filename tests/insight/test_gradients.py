"""Attributions, against the closed form of a linear model and the completeness of the integral."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import random_texts, small_model

from sentattn.data.text import UNKNOWN_ID
from sentattn.insight.forward import probabilities
from sentattn.insight.gradients import attributions

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


@pytest.mark.parametrize("model", ["structured", "transformer", "relation"])
def test_integral_is_complete_and_padding_has_no_part(model: str) -> None:
    classifier, texts = small_model(f"model={model}", std=0.2), random_texts(*LENGTHS)
    together = attributions(classifier, texts, CLASSES, steps=200)
    with torch.no_grad():
        for ids, label, one in zip(texts, CLASSES, together, strict=True):
            both = torch.tensor(np.stack([ids, np.full_like(ids, UNKNOWN_ID)]))
            whole, baseline = classifier(both, torch.ones_like(both, dtype=torch.bool)).logits_BC[:, label].tolist()
            assert one.change == pytest.approx(whole - baseline, abs=1e-6)
            assert one.integrated_L.sum() == pytest.approx(whole - baseline, abs=2e-3)
    [alone] = attributions(classifier, texts[1:2], CLASSES[1:2], steps=200)
    assert together[1].integrated_L == pytest.approx(alone.integrated_L, abs=1e-9)
    assert together[1].input_x_gradient_L == pytest.approx(alone.input_x_gradient_L, abs=1e-9)


def test_the_model_is_left_as_it_was() -> None:
    model, texts = small_model("model=structured"), random_texts(*LENGTHS)
    before = probabilities(model, texts)
    attributions(model, texts, CLASSES)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert probabilities(model, texts) == pytest.approx(before, abs=0)
