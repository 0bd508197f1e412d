"""Modules whose parameters are all drawn, so that none is 0 as at the start, and states of texts of several lengths."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

LENGTHS = (4, 1, 2)
MASK_BL = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
STATES_BLD = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
M = TypeVar("M", bound=nn.Module)


def drawn(module: M) -> M:
    """Draws all parameters from a normal distribution; in float64."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module.double()
