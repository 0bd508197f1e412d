"""Which tokens of a long text are read: its head, its tail, or half of each."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Clip: TypeAlias = Literal["head", "tail", "both"]


def clipped(lengths: NDArray[np.int64], max_length: int | None) -> NDArray[np.int64]:
    """Returns how many tokens of each text are read."""
    return lengths if max_length is None else np.minimum(lengths, max_length)


def kept_positions(
    lengths_B: NDArray[np.int64], max_length: int | None, clip: Clip
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the positions of the tokens that are read, (B, L), and which of them are real.

    `both` keeps the first half of `max_length` (the larger one where it is odd) and the last half.
    Positions of padding are 0.

    Args:
        lengths_B: Numbers of tokens of whole texts.
        max_length: Most tokens that are read; None reads all.
        clip: What is kept of a longer text.
    """
    kept_B = clipped(lengths_B, max_length)
    position_L = np.arange(kept_B.max(initial=0))
    mask_BL = position_L < kept_B[:, None]
    skipped_B = lengths_B - kept_B
    if clip == "head" or not skipped_B.any():
        return np.where(mask_BL, position_L, 0), mask_BL
    head = 0 if clip == "tail" else ((max_length or 0) + 1) // 2
    position_BL = position_L + skipped_B[:, None] * (position_L >= head)
    return np.where(mask_BL, position_BL, 0), mask_BL
