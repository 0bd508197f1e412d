"""Predictions with chosen weights."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sentattn.prediction.prediction import Prediction

SENTENCE = "Slow at first, but the ending is GREAT."
WORD = re.compile(r"\w+|[^\w\s]")


def example(
    text: str = SENTENCE, *rows: list[float], label: str = "positive", unknown: Sequence[int] = ()
) -> Prediction:
    """A prediction on a text; without rows, one hop whose weights grow with the length of the word."""
    spans = [match.span() for match in WORD.finditer(text)]
    tokens = [text[start:end] for start, end in spans]
    total = sum(map(len, tokens))
    attention = [list(row) for row in rows] or [[len(token) / total for token in tokens]]
    return Prediction(text, label, {"negative": 0.25, label: 0.75}, tokens, spans, attention, unknown=[*unknown])


def peaked(count: int, at: int, peak: float = 0.6) -> list[float]:
    """Weights with a peak at one token, the rest shared evenly."""
    return [peak if i == at else (1 - peak) / (count - 1) for i in range(count)]


def clipped(text: str, indices: list[int], at: int = 0) -> Prediction:
    """A prediction whose model read only some of the words."""
    spans = [match.span() for match in WORD.finditer(text)]
    spans = [spans[i] for i in indices]
    tokens = [text[start:end] for start, end in spans]
    return Prediction(text, "positive", {"negative": 0.25, "positive": 0.75}, tokens, spans, [peaked(len(indices), at)])


def paired(text: str = SENTENCE, *maps: list[list[float]]) -> Prediction:
    """A prediction with pairs; without maps, one in which each token attends to the next one and a little to all."""
    prediction = example(text)
    count = len(prediction.tokens)
    return replace(prediction, pairs=list(maps) or [[peaked(count, at=(i + 1) % count) for i in range(count)]])


PIECES = [(0, 0), (0, 4), (4, 7), (8, 11), (11, 12), (13, 15), (15, 15)]
"""[CLS] play ing not ! 12 [SEP]"""


def with_spans(
    text: str, spans: list[tuple[int, int]], weights: list[float], *, are_pieces: bool = True, **more: Any
) -> Prediction:
    """A prediction with one hop over pieces of words; tokens of empty spans are special."""
    tokens = [text[start:end] or ("[SEP]" if start else "[CLS]") for start, end in spans]
    return Prediction(text, "good", {"good": 1.0}, tokens, spans, [weights], are_pieces=are_pieces, **more)


def pieces() -> Prediction:
    """A prediction over pieces of words and special tokens, with pairs."""
    pairs = np.random.default_rng(0).dirichlet(np.ones(7), size=7)
    more: dict[str, Any] = {"pairs": [pairs.tolist()], "unknown": [2, 4]}
    return with_spans("playing not! 12", PIECES, [0.1, 0.2, 0.05, 0.3, 0.05, 0.2, 0.1], **more)
