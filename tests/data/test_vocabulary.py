"""Counting words, and scripts whose words have no spaces between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sentattn.data.corpus import Corpus
from sentattn.data.vocabulary import count_types, unspaced


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_counts_of_chosen_rows(at_once: int, corpus_of: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentattn.data.vocabulary.COUNTED_ROWS", at_once)
    corpus = corpus_of(train=["a b b", "c", "d d d"], test=["e"])
    for rows, counts in (([0, 2], [1, 2, 0, 3, 0]), ([1], [0, 0, 1, 0, 0]), ([], [0] * 5)):
        assert count_types(corpus, np.array(rows, dtype=np.int64)).tolist() == counts


@pytest.mark.parametrize(
    ("types", "counts", "warned"),
    [
        (["film", "\u4e00\u90e8\u597d\u7535\u5f71"], [1, 1], True),  # 5 of 9 letters
        (["film", "\u3044\u3044\u6620\u753b"], [1, 1], True),
        (["film", "\u0e2b\u0e19\u0e31\u0e07"], [1, 1], True),
        (["film", "\u597d"], [9, 4], False),  # 4 of 40 letters
        (["film", "\u597d"], [9, 5], True),
        (["film", "8/10", "\u597d"], [9, 99, 5], True),  # digits are no letters
        (["film", "\u597d"], [1, 0], False),
        (["\ud55c\uae00", "\u0444\u0438\u043b\u044c\u043c", "\u0647\u0646\u062f", "\u1ea1\u0307"], [1, 1, 1, 1], False),
        (["!"], [1], False),
    ],
)
def test_scripts_without_spaces_are_warned_of(types: list[str], counts: list[int], warned: bool) -> None:
    messages = unspaced(types, np.array(counts))
    assert len(messages) == warned
    assert all("data.tokenizer=" in message for message in messages)
