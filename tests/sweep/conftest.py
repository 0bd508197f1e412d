"""What takes most of the time of a short test of studies is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import pytest

from sentattn.config.request import read_request
from sentattn.sweep import resume


@pytest.fixture(autouse=True)
def _no_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def composed_once() -> Iterator[None]:
    """Each start of a study composes its settings: here once for all starts with the same settings."""
    composed = cache(lambda *words: read_request(words))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume, "read_request", lambda words: composed(*words))
        yield
