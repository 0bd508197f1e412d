"""What is kept of long texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.text import Clip, clipped, kept_positions


@pytest.mark.parametrize(
    ("clip", "rows"),
    [
        ("head", [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 0, 0]]),
        ("tail", [[3, 4, 5, 6], [0, 1, 2, 3], [0, 1, 0, 0]]),
        ("both", [[0, 1, 5, 6], [0, 1, 2, 3], [0, 1, 0, 0]]),
    ],
)
def test_kept_positions(clip: Clip, rows: list[list[int]]) -> None:
    positions, mask = kept_positions(np.array([7, 4, 2]), 4, clip)
    assert positions.tolist() == rows
    assert mask.tolist() == [[True] * 4, [True] * 4, [True, True, False, False]]


def test_an_odd_length_keeps_one_more_of_the_head() -> None:
    assert kept_positions(np.array([9]), 5, "both")[0].tolist() == [[0, 1, 2, 7, 8]]
    assert kept_positions(np.array([9]), 1, "both")[0].tolist() == [[0]]


@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    max_length=st.none() | st.integers(1, 20),
    clip=st.sampled_from(["head", "tail", "both"]),
)
def test_kept_positions_rise_within_each_text(lengths: list[int], max_length: int | None, clip: Clip) -> None:
    positions, mask = kept_positions(np.array(lengths), max_length, clip)
    assert mask.sum(axis=1).tolist() == clipped(np.array(lengths), max_length).tolist()
    assert not positions[~mask].any()
    for row, real, length in zip(positions, mask, lengths, strict=True):
        kept = row[real]
        assert (np.diff(kept) > 0).all()
        assert not len(kept) or 0 <= kept[0] <= kept[-1] < length
