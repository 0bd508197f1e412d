"""The CNN against sums of products in NumPy, row by row without padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_modules import drawn

from sentattn.models.encoders.cnn import CNN, Filters

LENGTHS = [9, 1, 4, 7]
MASK_BL = torch.arange(9)[None] < torch.tensor(LENGTHS)[:, None]


def correlated(states_LD: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Each filter at each token, then relu; beyond the text stand zeros, half before it and half behind."""
    n, width = len(states_LD), weight.shape[2]
    result = np.zeros((n, len(weight)))
    for t in range(n):
        for channel, kernel in enumerate(weight):
            seen = [(k, t - (width - 1) // 2 + k) for k in range(width)]
            products = [kernel[:, k] @ states_LD[s] for k, s in seen if 0 <= s < n]
            result[t, channel] = max(0.0, sum(products) + bias[channel])
    return result


@pytest.mark.parametrize("widths", [[3], [2], [1, 4, 5]], ids=str)
@pytest.mark.parametrize("layers", [1, 2])
def test_equals_the_formula_in_numpy(widths: list[int], layers: int) -> None:
    encoder = drawn(CNN(dim=5, widths=widths, channels=2, layers=layers))
    states_BLE = torch.randn(4, 9, 5, dtype=torch.float64)
    ours = encoder(states_BLE, MASK_BL)
    assert ours.shape == (4, 9, encoder.out_dim) == (4, 9, 2 * len(widths))
    for row, n in enumerate(LENGTHS):
        states = states_BLE[row, :n].numpy()
        for layer in encoder.layers:
            assert isinstance(layer, Filters)
            weights = [[p.detach().numpy() for p in one.parameters()] for one in layer.convolutions]
            states = np.concatenate([correlated(states, *pair) for pair in weights], axis=1)
        np.testing.assert_allclose(ours[row, :n].detach(), states, atol=1e-12)


def test_states_of_padding_are_ignored() -> None:
    torch.manual_seed(0)
    encoder = CNN(dim=3, widths=[3, 4], channels=2, layers=2)
    states_BLE = torch.randn(4, 9, 3)
    dirty_BLE = states_BLE.masked_fill(~MASK_BL[..., None], torch.nan)
    assert torch.equal(encoder(states_BLE, MASK_BL), encoder(dirty_BLE, MASK_BL))
    assert encoder(states_BLE, MASK_BL).is_contiguous()  # no copy before the next part


def test_parameter_count_of_the_paper() -> None:
    encoder = CNN(dim=300, widths=[3, 4, 5], channels=100)
    assert sum(p.numel() for p in encoder.parameters()) == (3 + 4 + 5) * 300 * 100 + 3 * 100
    assert encoder.out_dim == 300


@pytest.mark.parametrize("widths", [[], [3, 0]])
def test_widths_are_positive(widths: list[int]) -> None:
    with pytest.raises(ValueError, match="widths"):
        CNN(dim=5, widths=widths)


def test_dropout_acts_in_training_only() -> None:
    encoder = CNN(dim=5, widths=[3], channels=4, dropout=0.5)
    states_BLE = torch.randn(4, 9, 5)
    kept = encoder.eval()(states_BLE, MASK_BL)
    dropped = encoder.train()(states_BLE, MASK_BL)
    assert torch.equal(kept, encoder.eval()(states_BLE, MASK_BL))
    assert ((dropped == 0) & (kept > 0)).any()
