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
        pairs: Token-to-token weights, where the model has them and they were asked for: H maps (heads) of L rows
            of L weights. Row t says how much token t looks at each token; it sums to 1.
    """

    text: str
    label: str
    probabilities: dict[str, float]
    tokens: list[str]
    spans: list[tuple[int, int]]
    attention: list[list[float]]
    pairs: list[list[list[float]]] | None = None

    def __post_init__(self) -> None:
        assert self.attention, "a prediction has at least one row of attention"
        length = len(self.tokens)
        assert {length} == {len(self.spans), *map(len, self.attention)}, "tokens, spans and weights differ"
        if self.pairs is not None:
            assert self.pairs, "pairs are None, or there is at least one map"
            rows = [row for head in self.pairs for row in head]
            assert {length} == {*map(len, self.pairs), *map(len, rows)}, "a map is not L x L"

    @property
    def words(self) -> list[str]:
        """The tokens as the text has them, in its own upper and lower case."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def mean_attention(self) -> list[float]:
        """Mean over the hops, L weights."""
        return [sum(column) / len(column) for column in zip(*self.attention, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Returns an object for `json.dumps`, as `predict format=json` prints it; `pairs` where there are any."""
        found: dict[str, Any] = {
            "text": self.text,
            "label": self.label,
            "probabilities": dict(self.probabilities),
            "tokens": list(self.tokens),
            "spans": [list(span) for span in self.spans],
            "attention": [list(row) for row in self.attention],
        }
        return found if self.pairs is None else found | {"pairs": [[list(row) for row in head] for head in self.pairs]}
