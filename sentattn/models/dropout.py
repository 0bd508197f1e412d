"""Dropout whose masks are random bytes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LEVELS = 256
"""A mask's probability is a multiple of 1 / LEVELS."""
LEAST = 1 / 16
"""Of a smaller share, or of a smaller rest, a multiple of 1 / LEVELS would be too coarse."""


class Dropout(nn.Dropout):
    """Inverted dropout (Srivastava et al. 2014) that draws one random byte per component on a CPU.

    `torch.nn.functional.dropout` draws a 53-bit number per component there, which takes about a fifth of a training
    step. The bytes come from torch's default generator. Components are dropped with the multiple k / 256 nearest to
    `p`, and the others are scaled by 256 / (256 - k), so the expected value is exact. On other devices, in compiled
    code, and with less than 1/16 to drop or to keep, this is `torch.nn.Dropout`.
    """

    def forward(self, states: Tensor) -> Tensor:
        """Returns states of the same shape."""
        ours = self.training and states.device.type == "cpu" and LEAST <= self.p <= 1 - LEAST
        if not ours or torch.compiler.is_compiling():  # which cannot view numbers as bytes
            return super().forward(states)
        dropped = round(self.p * LEVELS)
        # 0 for a byte below `dropped`, otherwise 1: unlike a comparison, this uses the processor's vector operations.
        kept = random_bytes(states.shape).clamp_(dropped - 1, dropped).sub_(dropped - 1)
        return states * kept.to(states.dtype).mul_(LEVELS / (LEVELS - dropped))


def random_bytes(shape: torch.Size) -> Tensor:
    """Returns independent uniform bytes, eight from each number of torch's default CPU generator."""
    count = math.prod(shape)
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.uint8)[:count].view(shape)
