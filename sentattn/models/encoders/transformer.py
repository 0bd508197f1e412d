"""Transformer encoder (Vaswani et al. 2017, Attention Is All You Need, section 3.1), normalised after each sublayer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.attention.base import masked_softmax
from sentattn.models.dropout import Dropout
from sentattn.models.encoders.base import Encoder

EPSILON = 1e-6
"""Of the layer normalisation, as in the Keras example."""


class Transformer(Encoder):
    """Blocks of multi-head self-attention and a two-layer network; every state knows the whole text.

    A block is x1 = LN(x + drop(MHA(x))), x2 = LN(x1 + drop(FFN(x1))), as in the paper and in the Keras example. It
    knows the order of the words only from the vectors of positions that the embedding adds
    (`model.embedding.positions`). Defaults are the Keras example's. Parameters a block:
    4 (E^2 + E) + 2 E F + F + E + 4 E, with F the hidden width.

    Args:
        heads: Number of heads; it divides E.
        hidden: Width F of the network's hidden layer.
        layers: Number of blocks.
        dropout: Share of the components of each sublayer's output set to 0 while training.
    """

    @checked
    def __init__(
        self, *, dim: Count, heads: Count = 2, hidden: Count = 32, layers: Count = 1, dropout: Fraction = 0.1
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"heads must divide the width {dim} of the embedding, got {heads}")
        self.out_dim = dim
        self.blocks = nn.ModuleList(Block(dim=dim, heads=heads, hidden=hidden, dropout=dropout) for _ in range(layers))

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLD, with D = E."""
        states = states_BLE
        for block in self.blocks:
            states = block(states, mask_BL)
        return states

    def pairs(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the weights of all heads, (B, layers x heads, L, L), the first block's first."""
        states, maps = states_BLE, []
        for block in self.blocks:
            assert isinstance(block, Block)
            maps.append(block.attention.weights(states, mask_BL))
            states = block(states, mask_BL)
        return torch.cat(maps, dim=1)


class Block(nn.Module):
    """Self-attention and a relu network, each added to what comes in and normalised."""

    def __init__(self, *, dim: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(dim=dim, heads=heads)
        self.attention_norm = nn.LayerNorm(dim, eps=EPSILON)
        self.network = nn.Sequential(_dense(dim, hidden), nn.ReLU(), _dense(hidden, dim))
        self.network_norm = nn.LayerNorm(dim, eps=EPSILON)
        self.dropout = Dropout(dropout)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states of the same shape."""
        between_BLE = self.attention_norm(states_BLE + self.dropout(self.attention(states_BLE, mask_BL)))
        after_BLE: Tensor = self.network_norm(between_BLE + self.dropout(self.network(between_BLE)))
        return after_BLE


class SelfAttention(nn.Module):
    """Scaled dot-product attention of each token over the real tokens, in H heads of E / H channels.

    Queries, keys and values have separate layers, so that the bias of the keys has a name.
    """

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.combine = (_dense(dim, dim) for _ in range(4))

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns what the heads read, combined, (B, L, E). No map of weights is held in memory."""
        query, key, value = (self._split(layer(states_BLE)) for layer in (self.query, self.key, self.value))
        read = scaled_dot_product_attention(query, key, value, attn_mask=mask_BL[:, None, None])
        combined_BLE: Tensor = self.combine(read.transpose(1, 2).flatten(2))
        return combined_BLE

    def weights(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the weights that `forward` reads with, (B, H, L, L); rows of padding are exactly 0."""
        query, key = (self._split(layer(states_BLE)) for layer in (self.query, self.key))
        scores_BHLL = query @ key.transpose(2, 3) / query.shape[3] ** 0.5
        weights_BHLL = masked_softmax(scores_BHLL.flatten(1, 2), mask_BL).view_as(scores_BHLL)
        return weights_BHLL.masked_fill(~mask_BL[:, None, :, None], 0.0)

    def _split(self, states_BLE: Tensor) -> Tensor:
        """Splits the channels into heads, (B, H, L, E / H)."""
        return states_BLE.view(*states_BLE.shape[:2], self.heads, -1).transpose(1, 2)


def _dense(dim: int, units: int) -> nn.Linear:
    """A layer as Keras starts it: Glorot uniform, no bias."""
    layer = nn.Linear(dim, units)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
