"""What every test shares: one thread, a cache of its own, no W&B, and one tiny trained run."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import settings
from tiny import tiny

from sentattn.run import Run

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
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
