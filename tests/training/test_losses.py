"""The loss against numbers worked out by hand and by NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sentattn.training.losses import ClassifierLoss

LOGITS_BC = torch.tensor([[0.0, math.log(3.0)], [0.0, 0.0]])
LABELS_B = torch.tensor([1, 0])
CROSS_ENTROPY = (-math.log(0.75) - math.log(0.5)) / 2


def make(counts: tuple[int, ...] = (1, 1), **settings: Any) -> ClassifierLoss:
    return ClassifierLoss(class_counts={"abcdef"[i]: count for i, count in enumerate(counts)}, **settings)


def one_hot_rows(hops: int) -> torch.Tensor:
    weights_BRL = torch.zeros(1, hops, 5)
    weights_BRL[:, :, 2] = 1.0
    return weights_BRL


def test_cross_entropy_by_hand() -> None:
    loss, parts = make()(LOGITS_BC, LABELS_B, one_hot_rows(2))
    assert float(loss) == pytest.approx(CROSS_ENTROPY)
    assert set(parts) == {"cross_entropy"}


@pytest.mark.parametrize(("form", "expected"), [("squared", 870.0), ("norm", 29.4957624), ("mean", 870 / 900)])
def test_penalty_of_thirty_equal_rows(form: str, expected: float) -> None:
    loss, parts = make(penalty=0.5, penalty_form=form)(LOGITS_BC[:1], LABELS_B[:1], one_hot_rows(30))
    assert float(parts["penalty"]) == pytest.approx(expected, rel=1e-6)
    assert float(loss) == pytest.approx(-math.log(0.75) + 0.5 * expected, rel=1e-6)


@pytest.mark.parametrize("form", ["squared", "norm", "mean"])
def test_penalty_of_orthogonal_rows_is_zero(form: str) -> None:
    parts = make(penalty=1.0, penalty_form=form)(LOGITS_BC[:1], LABELS_B[:1], torch.eye(4)[None]).parts
    assert float(parts["penalty"]) == 0.0


@pytest.mark.parametrize("form", ["squared", "norm", "mean"])
def test_gradient_of_the_penalty_of_one_token_is_finite(form: str) -> None:
    weights_BRL = torch.ones(1, 1, 1, requires_grad=True)
    make(penalty=1.0, penalty_form=form)(LOGITS_BC[:1], LABELS_B[:1], weights_BRL).loss.backward()
    assert weights_BRL.grad is not None
    assert weights_BRL.grad.isfinite().all()


COUNTS = (10, 30, 60)


def weighted_by_numpy(
    logits: NDArray[np.float64],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    smoothing: float,
    *,
    mean: bool,
) -> float:
    """The weighted, smoothed cross entropy, a row and a class at a time."""
    classes = logits.shape[1]
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        log_p = row - np.log(np.exp(row).sum())
        for c in range(classes):
            share = smoothing / classes + (1 - smoothing) * (c == label)
            total -= weights[label] * share * log_p[c]
    return float(total / (len(labels) if mean else weights[labels].sum()))


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize(
    ("counts", "weights", "numbers"),
    [
        (COUNTS, "none", [1.0, 1.0, 1.0]),
        (COUNTS, [0.5, 2.0, 7.0], [0.5, 2.0, 7.0]),
        (COUNTS, "balanced", [100 / 30, 100 / 90, 100 / 180]),
        ((50, 50), "balanced", [1.0, 1.0]),
        ((95, 5), "balanced", [100 / 190, 10.0]),
    ],
)
def test_weighted_cross_entropy_by_numpy(
    counts: tuple[int, ...], weights: str | list[float], numbers: list[float], smoothing: float, *, mean: bool
) -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(40, len(counts)))
    labels = rng.choice(len(counts), size=40, p=np.array(counts) / sum(counts))
    expected = weighted_by_numpy(logits, labels, np.array(numbers), smoothing, mean=mean)
    loss = make(
        counts, class_weights=weights, label_smoothing=smoothing, class_weight_reduction="mean" if mean else "weighted"
    )
    found = loss(torch.from_numpy(logits), torch.from_numpy(labels), one_hot_rows(1)).parts["cross_entropy"]
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("power", "expected"), [(1.0, [10 / 3, 10 / 9, 5 / 9]), (0.0, [1, 1, 1]), (0.5, [1.8257419, 1.0540926, 0.7453560])]
)
def test_balanced_weights(power: float, expected: list[float]) -> None:
    weights = make(COUNTS, class_weights="balanced", class_weight_power=power).class_weights
    assert list(weights) == ["a", "b", "c"]
    assert list(weights.values()) == pytest.approx(expected, rel=1e-6)


def test_weights_move_with_the_module_and_are_not_saved() -> None:
    loss = make(class_weights=[1, 2])
    assert loss.state_dict() == {}
    assert list(loss.parameters()) == []
    expected = float(loss(LOGITS_BC, LABELS_B, one_hot_rows(1)).loss)
    assert float(loss.double()(LOGITS_BC.double(), LABELS_B, one_hot_rows(1)).loss) == pytest.approx(expected)
    assert {buffer.device.type for buffer in loss.to("meta").buffers()} == {"meta"}


@pytest.mark.parametrize(
    ("faulty", "named"),
    [
        ({"class_weights": [1, 2, 3]}, "class_weights"),
        ({"class_weights": "balanced", "counts": (3, 1), "class_weight_power": 1e3}, "class_weight_power"),
        ({"class_weights": [1.0, 1e60]}, "class_weights"),
        ({"class_weights": [1.0, -1.0]}, "class_weights"),
        ({"class_weights": "even"}, "class_weights"),
        ({"class_weight_power": -1.0}, "class_weight_power"),
        ({"class_weight_reduction": "sum"}, "class_weight_reduction"),
    ],
)
def test_faulty_weights_are_refused(faulty: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make(**faulty)


def shared_by_processes(
    loss: ClassifierLoss, shares: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
) -> list[tuple[float, dict[str, float], dict[str, float]]]:
    """Computes the loss and the gradients on each process, with the sums of all shares, and the terms' weights."""
    zero = torch.zeros((), requires_grad=True)
    local = [loss(*share) if len(share[1]) else loss.of_no_rows(zero) for share in shares]
    sums: list[torch.Tensor] = []
    for part, (_, labels_B, _) in zip(local, shares, strict=True):
        loss.over_processes(part, labels_B, lambda own: sums.append(own) or own)
    total = torch.stack(sums).sum(dim=0).detach()
    computed = []
    for part, (_, labels_B, _) in zip(local, shares, strict=True):
        (whole, parts), weights = loss.over_processes(part, labels_B, lambda own: total + own - own.detach())
        whole.backward()
        values = {name: float(value.detach()) for name, value in parts.items()}
        computed.append((float(whole.detach()), values, {term: float(weight) for term, weight in weights.items()}))
    return computed


@pytest.mark.parametrize("reduction", ["weighted", "mean"])
@pytest.mark.parametrize("weights", ["none", "balanced", [0.5, 2.0, 7.0]])
@pytest.mark.parametrize("sizes", [(5, 4), (1, 0), (3, 2, 2)])
def test_loss_and_gradients_of_several_processes(sizes: tuple[int, ...], weights: Any, reduction: str) -> None:
    rng = np.random.default_rng(4)
    rows = sum(sizes)
    logits_BC = torch.tensor(rng.normal(size=(rows, 3)), dtype=torch.float32, requires_grad=True)
    labels_B = torch.tensor(rng.integers(0, 3, rows))
    weights_BRL = torch.tensor(rng.dirichlet(np.ones(6), (rows, 4)), dtype=torch.float32, requires_grad=True)
    loss = make(COUNTS, penalty=0.7, class_weights=weights, class_weight_reduction=reduction, label_smoothing=0.1)
    weight = rows
    if weights != "none" and reduction == "weighted":
        numbers = [100 / 30, 100 / 90, 100 / 180] if weights == "balanced" else weights
        weight = sum(numbers[label] for label in labels_B)
    whole, parts = loss(logits_BC, labels_B, weights_BRL)
    expected = torch.autograd.grad(whole, [logits_BC, weights_BRL])
    shares = list(zip(*(tensor.split(sizes) for tensor in (logits_BC, labels_B, weights_BRL)), strict=True))
    for found, found_parts, found_weights in shared_by_processes(loss, shares):
        assert found == pytest.approx(float(whole.detach()), rel=1e-5)
        assert found_parts == pytest.approx({name: float(part.detach()) for name, part in parts.items()}, rel=1e-5)
        assert found_weights == pytest.approx({"cross_entropy": weight, "penalty": rows}, rel=1e-6)
    torch.testing.assert_close((logits_BC.grad, weights_BRL.grad), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weights", ["none", [0.5, 2.0, 7.0]])
def test_loss_in_float64(weights: Any) -> None:
    rng = np.random.default_rng(5)
    logits, labels = rng.normal(size=(9, 3)), rng.integers(0, 3, 9)
    numbers = np.ones(3) if weights == "none" else np.array(weights)
    loss = make(COUNTS, class_weights=weights, penalty=0.7).double()
    hops_BRL = torch.tensor(rng.dirichlet(np.ones(6), (9, 4)))
    single = loss(torch.from_numpy(logits), torch.from_numpy(labels), hops_BRL)
    shared, _ = loss.over_processes(single, torch.from_numpy(labels), lambda own: own)
    expected = weighted_by_numpy(logits, labels, numbers, 0.0, mean=False)
    for parts in (single.parts, shared.parts):
        assert float(parts["cross_entropy"]) == pytest.approx(expected, rel=1e-14)


def test_weights_of_a_batch_are_summed_in_float32_at_least() -> None:
    weights_of = make((1, 1), class_weights=[1.0, 256.0]).bfloat16().weights_of(torch.tensor([0] * 3 + [1]))
    assert {term: float(weight) for term, weight in weights_of.items()} == {"cross_entropy": 259.0, "penalty": 4.0}
