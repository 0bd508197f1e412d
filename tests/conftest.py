"""What every test shares: one thread, no network, a cache of its own, no W&B, and one tiny trained run."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from tiny import tiny

from sentattn.prediction.model import LoadedRun

settings.register_profile("short", deadline=None, max_examples=30)  # other ones in each run
settings.load_profile("short")
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

pytest.register_assert_rewrite("refusals")
FAKES = ("jobs", "sweep")
"""Folders with modules that tests of other folders use too."""
sys.path += [str(Path(__file__).parent / name) for name in FAKES]

THIS_MACHINE = ("localhost", "127.0.0.1", "::1", "", None)


def _stay_at_home(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuses what would leave this machine, as if there were no network."""
    if event == "socket.getaddrinfo" and arguments[0] not in THIS_MACHINE:
        raise socket.gaierror(socket.EAI_NONAME, f"tests reach no network, and so not {arguments[0]}")
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in THIS_MACHINE:
        raise OSError(f"tests reach no network, and so not {arguments[1]}")


sys.addaudithook(_stay_at_home)

gc.disable()  # what is imported for all tests stays


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["SENTATTN_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("WANDB_API_KEY", None)
    os.environ["WANDB_MODE"] = "offline"
    os.environ["no_proxy"] = "*"


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """No test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def _no_session_of_wandb() -> None:
    """W&B keeps the key and the settings that its first call in a process has read."""
    if wandb := sys.modules.get("wandb"):
        wandb.teardown()


@pytest.fixture(autouse=True)
def _small_numbers() -> Iterator[None]:
    """A training takes denormal numbers as 0, and so would what comes after it."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A finished run of `structured` on a few rows of the demo corpus."""
    from sentattn import fit

    return fit(tiny(f"output_dir={tmp_path_factory.mktemp('outputs')}"))


@pytest.fixture
def run_copy(tiny_run: LoadedRun, tmp_path: Path) -> Path:
    """A copy of the tiny run, to be changed."""
    return shutil.copytree(tiny_run.path, tmp_path / "run")
