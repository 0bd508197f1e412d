"""Forward passes over many texts."""

from __future__ import annotations

import numpy as np
import pytest

from sentattn.insight import forward
from sentattn.insight.forward import batches


def test_batches_hold_each_text_once_and_few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "TOKENS", 20)
    lengths = np.array([3, 50, 1, 7, 7, 7, 2, 20])
    found = list(batches(lengths))
    assert sorted(np.concatenate(found)) == list(range(8))
    assert all(len(one) * lengths[one].max() <= 20 or len(one) == 1 for one in found)
    assert len(found) == 5
