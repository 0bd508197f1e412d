"""The head: counts of parameters and the hidden layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sentattn.models.head import Head


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
