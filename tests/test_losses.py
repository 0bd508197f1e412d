"""The loss against numbers worked out by hand and by NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sentattn.losses import ClassifierLoss, overlap

LOGITS_BC = torch.tensor([[0.0, math.log(3.0)], [0.0, 0.0]])
LABELS_B = torch.tensor([1, 0])
CROSS_ENTROPY = (-math.log(0.75) - math.log(0.5)) / 2


def one_hot_rows(hops: int) -> torch.Tensor:
    weights_BRL = torch.zeros(1, hops, 5)
    weights_BRL[:, :, 2] = 1.0
    return weights_BRL


def test_cross_entropy_by_hand_and_no_penalty_without_coefficient() -> None:
    loss, parts = ClassifierLoss()(LOGITS_BC, LABELS_B, one_hot_rows(2))
    assert float(loss) == pytest.approx(CROSS_ENTROPY)
    assert set(parts) == {"cross_entropy"}


@pytest.mark.parametrize(("form", "expected"), [("squared", 870.0), ("norm", 29.4957624), ("mean", 870 / 900)])
def test_thirty_identical_one_hot_rows(form: str, expected: float) -> None:
    loss, parts = ClassifierLoss(penalty=0.5, penalty_form=form)(LOGITS_BC[:1], LABELS_B[:1], one_hot_rows(30))
    assert float(parts["penalty"]) == pytest.approx(expected, rel=1e-6)
    assert float(loss) == pytest.approx(-math.log(0.75) + 0.5 * expected, rel=1e-6)


@pytest.mark.parametrize("form", ["squared", "norm", "mean"])
def test_orthogonal_one_hot_rows_cost_nothing(form: str) -> None:
    parts = ClassifierLoss(penalty=1.0, penalty_form=form)(LOGITS_BC[:1], LABELS_B[:1], torch.eye(4)[None]).parts
    assert float(parts["penalty"]) == 0.0


def test_penalty_is_the_mean_over_the_batch_of_numpy_norms() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(6), size=(3, 4))
    expected = [np.linalg.norm(a @ a.T - np.eye(4), "fro") ** 2 for a in weights]
    loss = ClassifierLoss(penalty=2.0)
    parts = loss(torch.randn(3, 2).double(), torch.tensor([0, 1, 0]), torch.from_numpy(weights)).parts
    assert float(parts["penalty"]) == pytest.approx(np.mean(expected), rel=1e-12)
    assert overlap(torch.from_numpy(weights)).shape == (3, 4, 4)


def test_label_smoothing_by_hand() -> None:
    smoothed = ClassifierLoss(label_smoothing=0.2)(LOGITS_BC[:1], LABELS_B[:1], one_hot_rows(1)).loss
    assert float(smoothed) == pytest.approx(-(0.9 * math.log(0.75) + 0.1 * math.log(0.25)))


@pytest.mark.parametrize("form", ["squared", "norm", "mean"])
def test_gradient_is_finite_where_a_hop_reads_one_token(form: str) -> None:
    weights_BRL = torch.ones(1, 1, 1, requires_grad=True)
    ClassifierLoss(penalty=1.0, penalty_form=form)(LOGITS_BC[:1], LABELS_B[:1], weights_BRL).loss.backward()
    assert weights_BRL.grad is not None
    assert weights_BRL.grad.isfinite().all()
