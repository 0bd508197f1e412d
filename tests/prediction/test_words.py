"""Pieces joined to words: weights add up, spans cover the word, tokens that are words stay."""

from __future__ import annotations

import numpy as np

from sentattn.prediction.prediction import NGram, Prediction
from sentattn.prediction.words import in_words


def make(text: str, spans: list[tuple[int, int]], weights: list[float], **more: object) -> Prediction:
    tokens = [text[start:end] or "[CLS]" for start, end in spans]
    return Prediction(text, "good", {"good": 1.0}, tokens, spans, [weights], **more)  # type: ignore[arg-type]


SPANS = [(0, 0), (0, 4), (4, 7), (8, 11), (11, 12), (13, 15), (15, 15)]
"""[CLS] play ing not ! 12 [SEP]"""


def pieces() -> Prediction:
    pairs = np.random.default_rng(0).dirichlet(np.ones(7), size=7)
    more = {"pairs": [pairs.tolist()], "unknown": [2, 4], "ngrams": [NGram((1, 4), {"good": 0.5})]}
    return make("playing not! 12", SPANS, [0.1, 0.2, 0.05, 0.3, 0.05, 0.2, 0.1], **more)


def test_pieces_of_a_word_are_joined_and_special_tokens_left_out() -> None:
    words = in_words(pieces())
    assert words.tokens == ["playing", "not", "!", "12"]
    assert words.spans == [(0, 7), (8, 11), (11, 12), (13, 15)]
    np.testing.assert_allclose(words.attention, [[0.25, 0.3, 0.05, 0.2]])
    assert words.unknown == [0, 2]
    assert words.words(words.ngrams[0]) == "playing not"


def test_pairs_are_added_over_what_is_read_and_averaged_over_what_reads() -> None:
    before, [after] = np.array(pieces().pairs)[0], in_words(pieces()).pairs or []
    groups = [[1, 2], [3], [4], [5]]
    expected = [[np.mean([before[i, list(to)].sum() for i in of]) for to in groups] for of in groups]
    np.testing.assert_allclose(after, expected)


def test_words_stay_as_they_are() -> None:
    prediction = make("not bad, 8/10", [(0, 3), (4, 7), (7, 8), (9, 13)], [0.25] * 4)
    assert in_words(prediction) is prediction


def test_an_empty_prediction_stays() -> None:
    assert in_words(Prediction.empty("...")).tokens == []
