"""Poolings by hand."""

from __future__ import annotations

import numpy as np
import torch
from refusals import kinds

from sentattn.config.compose import compose
from sentattn.models.pooling import Flatten, Mean, Prune

VALUES_BRD = torch.tensor([[[1.0, 2.0], [3.0, 6.0]]])


def test_flatten_concatenates_hops() -> None:
    pooling = Flatten(dim=2, hops=2)
    assert pooling(VALUES_BRD).tolist() == [[1.0, 2.0, 3.0, 6.0]]
    assert pooling.out_dim == 4


def test_mean_is_over_the_hops() -> None:
    pooling = Mean(dim=2, hops=2)
    assert pooling(VALUES_BRD).tolist() == [[2.0, 4.0]]
    assert pooling.out_dim == 2


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


def test_prune_needs_p_and_q_and_no_other_pooling_takes_them() -> None:
    assert kinds(["model/pooling=prune"]) == [("model.pooling.p", "missing"), ("model.pooling.q", "missing")]
    assert kinds(["model/pooling=flatten", "model.pooling.p=3"]) == [("model.pooling.p", "unknown")]
    assert compose(["model/pooling=prune", "model.pooling.p=3", "model.pooling.q=2"])["model"]["pooling"]["q"] == 2
