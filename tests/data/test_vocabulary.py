"""Counting words and choosing those that are known."""

from __future__ import annotations

import numpy as np
import pytest

from sentattn.data.vocabulary import count_types, frequent_types, lookup_table
from sentattn.errors import DataError

COUNTS = np.array([2, 5, 0, 5, 1])


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_counts_only_the_rows_asked_for(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentattn.data.vocabulary.COUNTED_ROWS", at_once)
    tokens, offsets = np.array([0, 1, 1, 2, 3, 3, 3], dtype=np.int32), np.array([0, 3, 4, 7])
    assert count_types(tokens, offsets, np.array([0, 2]), 5).tolist() == [1, 2, 0, 3, 0]
    assert count_types(tokens, offsets, np.array([1]), 5).tolist() == [0, 0, 1, 0, 0]
    assert count_types(tokens, offsets, np.array([], dtype=np.int64), 5).tolist() == [0, 0, 0, 0, 0]


def test_ranks_by_count_and_then_by_word() -> None:
    assert frequent_types(COUNTS, min_count=1, vocab_size=10).tolist() == [1, 3, 0, 4]


def test_rare_words_and_those_beyond_the_size_are_left_out() -> None:
    assert frequent_types(COUNTS, min_count=2, vocab_size=10).tolist() == [1, 3, 0]
    assert frequent_types(COUNTS, min_count=1, vocab_size=1).tolist() == [1]


def test_no_word_left_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        frequent_types(COUNTS, min_count=6, vocab_size=10)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("data.min_count", "range")]


def test_lookup_counts_from_2_and_gives_1_to_unknown_words() -> None:
    assert lookup_table(["a", "b", "c"], ["c", "a", "elsewhere"]).tolist() == [3, 1, 2]
