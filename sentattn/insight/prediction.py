"""A model's prediction for a text with its attention: the object that terminal, picture and page show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prediction:
    """A label for a text, with the model's attention to its tokens.

    Attributes:
        text: The text as it was typed.
        label: The predicted class.
        probabilities: Probability of each class, in the order of the classes.
        tokens: The tokens that the model read, L of them.
        spans: Start and end of each token in `text`, in characters.
        attention: R rows (hops) of L weights, each 0 or more; a row sums to 1.
        pairs: Token-to-token weights, where the model has them and they were requested: H maps (heads) of L rows of
            L weights. Row t has the weights that token t gives to each token; it sums to 1.
        unknown: Indices of the tokens that are not in the model's vocabulary, in ascending order.
    """

    text: str
    label: str
    probabilities: dict[str, float]
    tokens: list[str]
    spans: list[tuple[int, int]]
    attention: list[list[float]]
    pairs: list[list[list[float]]] | None = None
    unknown: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.attention, "a prediction has at least one row of attention"
        length = len(self.tokens)
        assert {length} == {len(self.spans), *map(len, self.attention)}, "tokens, spans and weights differ"
        if self.pairs is not None:
            assert self.pairs, "pairs are None or at least one map"
            rows = [row for head in self.pairs for row in head]
            assert {length} == {*map(len, self.pairs), *map(len, rows)}, "a map is not L x L"

    @property
    def words(self) -> list[str]:
        """The tokens as they are written in the text, in upper and lower case."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def mean_attention(self) -> list[float]:
        """Mean over the hops, L weights."""
        return [sum(column) / len(column) for column in zip(*self.attention, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Returns an object for `json.dumps`, as `predict format=json` prints it; `pairs` only if there are any."""
        record: dict[str, Any] = {
            "text": self.text,
            "label": self.label,
            "probabilities": dict(self.probabilities),
            "tokens": list(self.tokens),
            "spans": [list(span) for span in self.spans],
            "unknown": list(self.unknown),
            "attention": [list(row) for row in self.attention],
        }
        return (
            record if self.pairs is None else record | {"pairs": [[list(row) for row in head] for head in self.pairs]}
        )
