"""Pieces joined to words: weights add up, spans cover the word, tokens that are words stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from example_predictions import pieces, with_spans

from sentattn.prediction.prediction import Prediction, join_pieces


def test_pieces_of_a_word_are_joined_and_special_tokens_left_out() -> None:
    words = pieces().in_words()
    assert words.tokens == ["playing", "not", "!", "12"]
    assert words.spans == [(0, 7), (8, 11), (11, 12), (13, 15)]
    np.testing.assert_allclose(words.attention, [[0.25, 0.3, 0.05, 0.2]])
    assert words.unknown == [0, 2]


def test_pairs_are_added_over_what_is_read_and_averaged_over_what_reads() -> None:
    before, [after] = np.array(pieces().pairs)[0], pieces().in_words().pairs or []
    groups = [[1, 2], [3], [4], [5]]
    expected = [[np.mean([before[i, list(to)].sum() for i in of]) for to in groups] for of in groups]
    np.testing.assert_allclose(after, expected)


def test_words_stay_as_they_are() -> None:
    prediction = with_spans("cannot 8/10", [(0, 3), (3, 6), (7, 11)], [0.5, 0.25, 0.25], are_pieces=False)
    assert prediction.in_words() is prediction


def test_an_empty_prediction_stays() -> None:
    assert Prediction.empty("...").in_words().tokens == []


def test_pieces_that_are_bytes_of_one_character_are_one_word() -> None:
    prediction = with_spans("a \u2764\ufe0f film", [(0, 1), (2, 4), (2, 4), (3, 4), (5, 9)], [0.2] * 5)
    words = prediction.in_words()
    assert words.spans == join_pieces(prediction.text, prediction.spans)[0] == [(0, 1), (2, 4), (5, 9)]
    np.testing.assert_allclose(words.attention, [[0.2, 0.6, 0.2]])


def test_weights_of_ngrams_on_pieces_are_added_where_the_attention_ranks_none() -> None:
    ngrams = [0.0, 0.1, 0.3, 0.2, 0.1, 0.3, 0.0]
    words = replace(pieces(), attention=[[1 / 7] * 7], ngram_weights=ngrams).in_words()
    np.testing.assert_allclose(words.rows["n-grams"], [0.4, 0.2, 0.1, 0.3])
    assert not any(words.shades(words.rows["mean"]))
    assert all(words.shades(words.rows["n-grams"]))
