"""What the tests of sweeps share: settings that are composed once, and one thread."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch

from sentattn.config.request import read_request
from sentattn.sweep import resume


@pytest.fixture(scope="module")
def composed_once() -> Iterator[None]:
    """Each start of a study composes its settings: here once for all starts with the same settings."""
    composed = cache(lambda *words: read_request(words))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume, "read_request", lambda words: composed(*words))
        yield


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """A trial sets the threads of its process."""
    yield
    torch.set_num_threads(1)
