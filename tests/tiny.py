"""A training of seconds."""

from __future__ import annotations

import torch
from torch import nn

TINY = [
    "logger=none",
    "data.limit=200",
    "data.batch_size=20",
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "model.embedding.size=8",
    "model.encoder.hidden=4",
    "model.attention.hidden=5",
]


def tiny(*settings: str) -> list[str]:
    """A training of seconds, with these settings in place of its own."""
    return list({setting.partition("=")[0]: setting for setting in (*TINY, *settings)}.values())


def has_lstm_in_bfloat16() -> bool:
    """Returns whether torch computes an LSTM in bfloat16 on this processor."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            nn.LSTM(1, 1)(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True
