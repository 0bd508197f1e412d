"""The head: counts of parameters and the hidden layer."""

from __future__ import annotations

import pytest
import torch

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
