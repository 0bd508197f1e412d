"""What every test shares: one thread, a cache of its own, no W&B, and one tiny trained run."""

from __future__ import annotations

import os

import pytest
import torch

from sentattn.run import Run

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


torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["SENTATTN_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("WANDB_API_KEY", None)
    os.environ["WANDB_MODE"] = "offline"


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of `structured` on a few rows of the demo corpus."""
    from sentattn.training.fitting import fit

    return fit(tiny(f"output_dir={tmp_path_factory.mktemp('outputs')}"))
