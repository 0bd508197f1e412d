"""What a model says about a text, and what it attended to: the one object that every view draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prediction:
    """A label for a text, with the attention behind it.

    Attributes:
        text: The text as it was given.
        label: The predicted class.
        probabilities: Probability of each class, in the order of the classes.
        tokens: What the model read, L tokens.
        spans: Where each token stands in `text`: start and end, in characters.
        attention: R rows (hops) of L weights, each 0 or more; a row sums to 1.
    """

    text: str
    label: str
    probabilities: dict[str, float]
    tokens: list[str]
    spans: list[tuple[int, int]]
    attention: list[list[float]]

    def __post_init__(self) -> None:
        assert self.attention, "a prediction has at least one row of attention"
        assert {len(self.tokens)} == {len(self.spans), *map(len, self.attention)}, "tokens, spans and weights differ"

    @property
    def words(self) -> list[str]:
        """The tokens as the text has them, in its own upper and lower case."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def mean_attention(self) -> list[float]:
        """Mean over the hops, L weights."""
        return [sum(column) / len(column) for column in zip(*self.attention, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Returns an object for `json.dumps`, as `predict format=json` prints it."""
        return {
            "text": self.text,
            "label": self.label,
            "probabilities": dict(self.probabilities),
            "tokens": list(self.tokens),
            "spans": [list(span) for span in self.spans],
            "attention": [list(row) for row in self.attention],
        }
