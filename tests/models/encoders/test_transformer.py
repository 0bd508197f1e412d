"""The transformer against its equations in NumPy, row by row without padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_modules import drawn
from torch import nn

from sentattn.models.encoders.transformer import Block, SelfAttention, Transformer

LENGTHS = [6, 1, 4]
MASK_BL = torch.arange(6)[None] < torch.tensor(LENGTHS)[:, None]
E, H = 6, 2


def make(layers: int = 2) -> Transformer:
    return drawn(Transformer(dim=E, heads=H, hidden=5, layers=layers)).eval()


def inputs() -> torch.Tensor:
    return torch.randn(3, 6, E, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def dense(layer: nn.Module, x: np.ndarray) -> np.ndarray:
    assert isinstance(layer, nn.Linear)
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def normalised(norm: nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-6)
    return scaled * norm.weight.detach().numpy() + norm.bias.detach().numpy()


def attended(attention: SelfAttention, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multi-head attention over the n rows of `x`: (n, E), and the weights (H, n, n)."""
    q, k, v = (dense(layer, x) for layer in (attention.query, attention.key, attention.value))
    read, maps = [], []
    for head in range(H):
        part = slice(head * E // H, (head + 1) * E // H)
        exponentials = np.exp(q[:, part] @ k[:, part].T / np.sqrt(E / H))
        maps.append(exponentials / exponentials.sum(axis=1, keepdims=True))
        read.append(maps[-1] @ v[:, part])
    return dense(attention.combine, np.concatenate(read, axis=1)), np.array(maps)


def encoded(encoder: Transformer, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The states of one text, (n, E), and the weights of all blocks, (layers H, n, n)."""
    maps = []
    for block in encoder.blocks:
        assert isinstance(block, Block)
        added, weights = attended(block.attention, x)
        maps.append(weights)
        x = normalised(block.attention_norm, x + added)
        hidden = np.maximum(dense(block.network[0], x), 0.0)
        x = normalised(block.network_norm, x + dense(block.network[2], hidden))
    return x, np.concatenate(maps)


@pytest.mark.parametrize("layers", [1, 2])
def test_states_and_pairs_equal_the_equations(layers: int) -> None:
    encoder, states_BLE = make(layers), inputs()
    ours, pairs_BHLL = encoder(states_BLE, MASK_BL), encoder.pairs(states_BLE, MASK_BL)
    assert pairs_BHLL.shape == (3, layers * H, 6, 6)
    for row, n in enumerate(LENGTHS):
        states, maps = encoded(encoder, states_BLE[row, :n].numpy())
        np.testing.assert_allclose(ours[row, :n].detach(), states, atol=1e-10)
        np.testing.assert_allclose(pairs_BHLL[row, :, :n, :n].detach(), maps, atol=1e-12)
        assert (pairs_BHLL[row, :, n:] == 0).all()
        assert (pairs_BHLL[row, :, :, n:] == 0).all()


def test_dropout_acts_on_residuals_in_training_only() -> None:
    encoder = Transformer(dim=E, heads=H, hidden=5, dropout=0.5)
    states_BLE = inputs().float()
    kept = encoder.eval()(states_BLE, MASK_BL)
    assert torch.equal(kept, encoder(states_BLE, MASK_BL))
    assert not torch.equal(kept, encoder.train()(states_BLE, MASK_BL))


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="heads"):
        Transformer(dim=6, heads=4)
