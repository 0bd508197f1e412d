"""What every attention gives, and what makes weights over real tokens of scores: softmax, sparsemax or 1.5-entmax."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked

Normalizer: TypeAlias = Literal["softmax", "sparsemax", "entmax15"]
"""What makes weights of scores."""


class Attended(NamedTuple):
    """The result of an attention.

    Attributes:
        values_BRD: What the attention read, one vector a hop.
        weights_BRL: How much of each token it read: 0 or more, sum 1 over real tokens, exactly 0 on padding.
        pairs_BHLL: Token-to-token weights, where a model has them and they were requested.
    """

    values_BRD: Tensor
    weights_BRL: Tensor
    pairs_BHLL: Tensor | None = None


class Attention(nn.Module, ABC):
    """Reduces the states of the tokens to one vector a hop.

    Attributes:
        out_dim: Width of the values.
        hops: Number of rows R of the attention matrix.
        learns: Whether the weights depend on parameters, so that a penalty on them can do something.
    """

    learns: ClassVar[bool] = True
    out_dim: int
    hops: int

    @abstractmethod
    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Attends to states; `mask_BL` is True at real tokens, at least one a row."""

    def scoring_parameters(self) -> Iterator[nn.Parameter]:
        """Yields the parameters that a frozen attention keeps: those of scores; all, where there are no others."""
        return self.parameters()

    def pairs(self, states_BLD: Tensor, mask_BL: Tensor) -> Tensor | None:
        """Returns token-to-token weights, (B, H, L, L), where the attention has them; called on request only.

        Each row of a real token sums to 1 over real tokens; padded rows and columns are exactly 0.
        """
        return None


class Fixed(Attention):
    """An attention of one hop, without parameters."""

    learns = False

    @checked
    def __init__(self, *, dim: Count) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, 1


def masked_softmax(scores_BRL: Tensor, mask_BL: Tensor, normalizer: Normalizer = "softmax") -> Tensor:
    """Softmax over the real tokens of each row, or a sparse map in its place, with weights that are exactly 0.

    Padding and rows without a real token get exactly 0. Computed in float32 under autocast, where bfloat16 sums of long
    rows would drift from 1.

    Args:
        scores_BRL: The scores.
        mask_BL: True at real tokens.
        normalizer: `softmax`; `sparsemax` (Martins and Astudillo 2016, algorithm 1); or `entmax15`, 1.5-entmax
            (Peters et al. 2019, algorithm 2).
    """
    pad_B1L = ~mask_BL[:, None, :]
    scores_BRL = scores_BRL.to(torch.promote_types(scores_BRL.dtype, torch.float32))
    scores_BRL = scores_BRL.masked_fill(pad_B1L, torch.finfo(scores_BRL.dtype).min)
    weights_BRL = scores_BRL.softmax(dim=-1) if normalizer == "softmax" else _sparse(scores_BRL, normalizer)
    return weights_BRL.masked_fill(pad_B1L, 0.0)


def _sparse(scores_BRL: Tensor, normalizer: Normalizer) -> Tensor:
    """Returns [z - tau]_+ (sparsemax) or [z / 2 - tau]_+^2 (1.5-entmax) with the tau by which each row sums to 1.

    With the largest score moved to 0, tau is -1 or more: lower scores, such as those of padding, are cut at -2.
    """
    is_entmax = normalizer == "entmax15"
    z_BRL = scores_BRL - scores_BRL.amax(dim=-1, keepdim=True).detach()
    z_BRL = (z_BRL / 2 if is_entmax else z_BRL).clamp_min(-2.0)
    sorted_BRL = z_BRL.sort(dim=-1, descending=True).values
    count_L = torch.arange(1, scores_BRL.shape[-1] + 1, device=scores_BRL.device)
    if is_entmax:
        mean_BRL = sorted_BRL.cumsum(dim=-1) / count_L
        spread_BRL = sorted_BRL.square().cumsum(dim=-1) - count_L * mean_BRL.square()
        root_BRL = ((1 - spread_BRL) / count_L).clamp_min(0.0)
        # The derivative of a root at 0 is infinite, and no number of tokens that is chosen has it.
        tau_BRL = mean_BRL - root_BRL.masked_fill(root_BRL == 0, 1.0).sqrt().masked_fill(root_BRL == 0, 0.0)
    else:
        tau_BRL = (sorted_BRL.cumsum(dim=-1) - 1) / count_L
    support_BR1 = (sorted_BRL > tau_BRL).sum(dim=-1, keepdim=True)
    weights_BRL = (z_BRL - tau_BRL.gather(-1, support_BR1 - 1)).clamp_min(0.0)
    return weights_BRL.square() if is_entmax else weights_BRL


def weighted_sum(weights_BRL: Tensor, states_BLD: Tensor) -> Tensor:
    """Returns weights_BRL @ states_BLD, in the type of the states.

    Computed in float32 at least: in bfloat16 all weights 1/n of a mean are rounded alike, which would scale it by a
    factor that depends on the number of tokens.
    """
    device = states_BLD.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):
            return weighted_sum(weights_BRL, states_BLD)
    exact = torch.promote_types(states_BLD.dtype, torch.float32)
    return (weights_BRL.to(exact) @ states_BLD.to(exact)).to(states_BLD.dtype)
