"""Poolings by hand."""

from __future__ import annotations

import torch

from sentattn.models.pooling import Flatten, Mean

VALUES_BRD = torch.tensor([[[1.0, 2.0], [3.0, 6.0]]])


def test_flatten_puts_hops_side_by_side() -> None:
    pooling = Flatten(dim=2, hops=2)
    assert pooling(VALUES_BRD).tolist() == [[1.0, 2.0, 3.0, 6.0]]
    assert pooling.out_dim == 4


def test_mean_is_over_the_hops() -> None:
    pooling = Mean(dim=2, hops=2)
    assert pooling(VALUES_BRD).tolist() == [[2.0, 4.0]]
    assert pooling.out_dim == 2
