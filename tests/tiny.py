"""A training of seconds."""

from __future__ import annotations

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
