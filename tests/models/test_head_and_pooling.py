"""Head and poolings: counts of parameters, the hidden layer, and values by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sentattn.models.head import Head
from sentattn.models.pooling import Flatten, Mean, Prune

VALUES_BRD = torch.tensor([[[1.0, 2.0], [3.0, 6.0]]])


@pytest.mark.parametrize(("width", "expected"), [(None, 4 * 3 + 3), (7, 4 * 7 + 7 + 7 * 3 + 3)])
def test_parameter_count(width: int | None, expected: int) -> None:
    head = Head(dim=4, classes=3, width=width)
    assert sum(p.numel() for p in head.parameters()) == expected
    assert head(torch.zeros(2, 4)).shape == (2, 3)


@pytest.mark.parametrize(("activation", "function"), [("relu", torch.relu), ("tanh", torch.tanh)])
def test_activation(activation: str, function: object) -> None:
    head = Head(dim=4, classes=3, width=7, activation=activation).eval()
    vector = torch.randn(2, 4)
    first, last = head.layers[1], head.layers[-1]
    torch.testing.assert_close(head(vector), last(function(first(vector))))  # type: ignore[operator]


def test_glorot_initialization() -> None:
    head = Head(dim=32, classes=2, width=200, init="glorot")
    layers = [layer for layer in head.layers if isinstance(layer, nn.Linear)]
    for layer, bound in zip(layers, [(6 / 232) ** 0.5, (6 / 202) ** 0.5], strict=True):
        largest = float(layer.weight.detach().abs().max())
        assert 0.97 * bound < largest <= bound * (1 + 1e-6)
        assert not layer.bias.any()


def test_torch_initialization_is_the_default() -> None:
    torch.manual_seed(0)
    plain = Head(dim=4, classes=3, width=7)
    torch.manual_seed(0)
    layers = [nn.Linear(4, 7), nn.Linear(7, 3)]
    for found, expected in zip((plain.layers[1], plain.layers[-1]), layers, strict=True):
        torch.testing.assert_close(found.weight, expected.weight)


@pytest.mark.parametrize(("kind", "expected"), [(Flatten, [1.0, 2.0, 3.0, 6.0]), (Mean, [2.0, 4.0])])
def test_flatten_and_mean_by_hand(kind: type[Flatten | Mean], expected: list[float]) -> None:
    pooling = kind(dim=2, hops=2)
    assert pooling(VALUES_BRD).tolist() == [expected]
    assert pooling.out_dim == len(expected)


def test_prune_equals_the_formula_in_numpy() -> None:
    torch.manual_seed(0)
    pooling = Prune(dim=5, hops=3, p=2, q=4).double()
    values = torch.randn(2, 3, 5, dtype=torch.float64)
    wp, bp = pooling.rows.weight.detach().numpy().T, pooling.rows.bias.detach().numpy()
    wq, bq = pooling.columns.weight.detach().numpy().T, pooling.columns.bias.detach().numpy()
    for row, m in enumerate(values.numpy()):
        expected = np.concatenate([np.tanh(m @ wp + bp).ravel(), np.tanh(m.T @ wq + bq).ravel()])
        np.testing.assert_allclose(pooling(values)[row].detach(), expected, atol=1e-12)
    assert pooling.out_dim == 3 * 2 + 5 * 4 == expected.size
