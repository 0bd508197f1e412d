"""Predictions with weights set by hand."""

import re
from dataclasses import replace

from sentattn.insight.prediction import Prediction

SENTENCE = "Slow at first, but the ending is GREAT."
WORD = re.compile(r"\w+|[^\w\s]")


def example(text: str = SENTENCE, *rows: list[float], label: str = "positive") -> Prediction:
    """A prediction on a text; without rows, one hop that looks at the longest word only in part."""
    spans = [match.span() for match in WORD.finditer(text)]
    tokens = [text[start:end].lower() for start, end in spans]
    total = sum(map(len, tokens))
    attention = [list(row) for row in rows] or [[len(token) / total for token in tokens]]
    return Prediction(text, label, {"negative": 0.25, label: 0.75}, tokens, spans, attention)


def peaked(count: int, at: int, peak: float = 0.6) -> list[float]:
    """Weights with a peak at one place, the rest shared evenly."""
    return [peak if i == at else (1 - peak) / (count - 1) for i in range(count)]


def clipped(text: str, kept: list[int], at: int = 0) -> Prediction:
    """A prediction that read only some of the words."""
    spans = [match.span() for match in WORD.finditer(text)]
    spans = [spans[i] for i in kept]
    tokens = [text[start:end].lower() for start, end in spans]
    return Prediction(text, "positive", {"negative": 0.25, "positive": 0.75}, tokens, spans, [peaked(len(kept), at)])


def paired(text: str = SENTENCE, *maps: list[list[float]]) -> Prediction:
    """A prediction with pairs; without maps, one in which each token looks at the next one and a little at all."""
    prediction = example(text)
    count = len(prediction.tokens)
    return replace(prediction, pairs=list(maps) or [[peaked(count, at=(i + 1) % count) for i in range(count)]])
