"""A model's prediction for a text with its attention, and the texts that terminal, picture and page share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.data.tokenizer import NAME_END, Span
from sentattn.errors import visible

NO_TEXT, NO_LABEL, NGRAMS = "no text", "no label", "n-grams"
OPTIONS = {"top": "Count", "threshold": "Share", "device": 'Literal["auto", "cpu", "cuda"]'}
"""Types of the options of `predict` that are the same for all models."""
UNREAD = " ... "
"""Shown for a stretch of the text that the model did not read."""
TIE = 1e-6
"""Weights with a smaller relative difference tie."""
QUANTILE = 0.98
MAX_WORDS, MAX_LETTERS = 10, 60
"""Most unknown words in a note, and most characters of a word in a page or a note."""
MAX_SHOWN = 20
"""Most predictions that a notebook shows of a list."""
Map: TypeAlias = Sequence[Sequence[float]]
"""L rows of L weights: row t has the weights that token t gives to each token."""

_LINE_BREAK = re.compile(r"\s*(?:<br\s*/?>\s*)+|\r\n?|[\u2028\u2029\x85]", re.IGNORECASE)
_WORD = re.compile(r"\w")


class TokenWeights(NamedTuple):
    """The L tokens of a text and their weights, float32 (R, L): a row for each of R hops, which sums to 1 if L > 0."""

    tokens: list[str]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Prediction:
    """A label for a text, with the model's attention to its tokens.

    Attributes:
        text: The text as it was typed.
        label: The predicted class; None in an empty prediction, of a text without a token, and below a threshold.
        probabilities: Probability of each class, in the order of the classes; none in an empty prediction. With `top`
            those of the most probable classes, in descending order.
        tokens: The tokens that the model read, L of them, as they are written in the text.
        spans: Start and end of each token in `text`, in characters.
        attention: R rows (hops) of L weights, each 0 or more; a row sums to 1, to less in `in_words`.
        pairs: Token-to-token weights, where the model has them and they were requested: H maps (heads) of L rows of
            L weights. Row t has the weights that token t gives to each token, with the same sum.
        unknown: Indices of the tokens that are not in the model's vocabulary, in ascending order.
        parts: The logit of each class from each part of a model that has several, `attention` and `wide`; their sum is
            the vector of logits whose softmax the probabilities are.
        ngram_weights: Of a model with an attention over n-grams, its L weights spread over tokens, the mean over the
            lengths of n-grams.
        are_pieces: Whether tokens are pieces of words and special tokens, which pages show by whole words.
        is_even: Whether tokens are words whose pieces all have the same weight, which ranks no word.
    """

    text: str
    label: str | None
    probabilities: dict[str, float]
    tokens: list[str]
    spans: list[tuple[int, int]]
    attention: list[list[float]]
    pairs: list[list[list[float]]] | None = None
    unknown: list[int] = field(default_factory=list)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    ngram_weights: list[float] | None = None
    are_pieces: bool = False
    is_even: bool = False

    def __post_init__(self) -> None:
        assert self.attention, "a prediction has at least one row of attention"
        length = len(self.tokens)
        weights = [*self.attention, *([] if self.ngram_weights is None else [self.ngram_weights])]
        assert {length} == {len(self.spans), *map(len, weights)}, "tokens, spans and weights differ"
        for head in self.pairs or ():
            assert {length} == {len(head), *map(len, head)}, "a map is not L x L"

    @classmethod
    def empty(cls, text: str = "") -> Prediction:
        """Returns the prediction for a text without a token: no label, no probabilities, one row of no weights."""
        return cls(text, label=None, probabilities={}, tokens=[], spans=[], attention=[[]])

    @property
    def name(self) -> str:
        """The label with visible signs for control characters; without one, that there is no text or no label."""
        if self.label is None:
            return NO_LABEL if self.tokens else NO_TEXT
        return visible(self.label)

    @property
    def share(self) -> float:
        """The largest probability, which is that of the label; 0 in an empty prediction."""
        return max(self.probabilities.values(), default=0.0)

    @property
    def is_cut(self) -> bool:
        """Whether the model read fewer words than the text has."""
        return any(piece.unread for piece in pieces(self.text, self.spans))

    @property
    def mean_attention(self) -> list[float]:
        """Mean over the hops, L weights."""
        return [sum(column) / len(column) for column in zip(*self.attention, strict=True)]

    @property
    def rows(self) -> dict[str, list[float]]:
        """The rows of weights by name: the mean over the hops, each hop if there are several, and that of n-grams."""
        hops = self.attention if len(self.attention) > 1 else []
        rows = {"mean": self.mean_attention, **{f"hop {r}": row for r, row in enumerate(hops, start=1)}}
        return rows if self.ngram_weights is None else rows | {NGRAMS: self.ngram_weights}

    def ranked(self, top: int | None = None) -> list[tuple[str, float]]:
        """Returns the most probable classes, in descending order, each with its probability."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1])[:top]

    def limited(self, top: int | None, threshold: float | None) -> Prediction:
        """Returns the prediction with the `top` most probable classes alone, and without a label below a threshold."""
        label = self.label if threshold is None or self.share >= threshold else None
        probabilities = self.probabilities if top is None else dict(self.ranked(top))
        return replace(self, probabilities=probabilities, label=label)

    def _repr_html_(self) -> str:
        """Returns the HTML for a notebook: the label, and the text shaded by each row of attention, without scripts."""
        if not self.tokens:
            return f"<p>{self.name}</p>"
        if self.are_pieces:
            return self.in_words()._repr_html_()
        words = [visible(word) for word in self.tokens]
        lines = [f"<p><b>{escape(self.name)}</b> {100 * self.share:.1f} %</p>"]
        for name, row in self.rows.items():
            shaded = (
                escape(piece.text)
                if piece.shade is None
                else f'<span style="background: rgb(255 135 0 / {piece.shade:.2f})">{escape(piece.text)}</span>'
                for piece in self.shaded(row)
            )
            lines.append(
                f"<details{' open' if name == 'mean' else ''}><summary>{name}: {escape(summary(words, row))}</summary>"
                f'<p dir="auto" style="line-height: 1.8; white-space: pre-wrap">{"".join(shaded)}</p></details>'
            )
        pairs = [] if self.pairs is None else [pair_summary(words, self.pairs)]
        texts = [*notes(self), *(f"largest weights from token to token: {top}" for top in pairs)]
        return "\n".join([*lines, *(f"<p><small>{escape(note)}</small></p>" for note in texts)])

    def in_words(self) -> Prediction:
        """Returns a prediction whose tokens are words: pieces of a word are joined, special tokens left out.

        The weights on the pieces of a word are added, and what its pieces attend to is averaged. The rows of special
        tokens are left out too, so a row may sum to less than 1. A prediction over words stays as it is.
        """
        if not self.are_pieces:
            return self
        spans, words_L = join_pieces(self.text, self.spans)
        member_WL = (words_L == np.arange(len(spans))[:, None]).astype(np.float64)
        pairs = None
        if self.pairs is not None:
            of_word_WL = member_WL / member_WL.sum(axis=1, keepdims=True)
            pairs = [(of_word_WL @ np.asarray(head) @ member_WL.T).tolist() for head in self.pairs]
        return replace(
            self,
            tokens=[self.text[start:end] for start, end in spans],
            spans=spans,
            attention=(np.asarray(self.attention) @ member_WL.T).tolist(),
            pairs=pairs,
            unknown=sorted({int(words_L[i]) for i in self.unknown if words_L[i] >= 0}),
            ngram_weights=None if self.ngram_weights is None else (self.ngram_weights @ member_WL.T).tolist(),
            are_pieces=False,
            is_even=all(ties(row[words_L >= 0]) for row in np.asarray(self.attention)),
        )

    def shades(self, row: Sequence[float]) -> list[float]:
        """Returns the strength of each token's color in a row of weights, 0 to 1; 0 where all weights tie."""
        is_even = self.is_even and row is not self.ngram_weights
        limit = math.inf if is_even or ties(np.array(row)) else color_limit(row)
        return [min(1.0, weight / limit) for weight in row]

    def shaded(self, row: Sequence[float]) -> Iterator[Piece]:
        """Yields the text piece by piece, tokens with the strength of their color in a row of weights."""
        strength, unknown = self.shades(row), set(self.unknown)
        for piece in pieces(self.text, self.spans):
            token = piece.token
            yield piece if token is None else piece._replace(shade=strength[token], is_unknown=token in unknown)

    def to_json(self) -> dict[str, object]:
        """Returns an object for `json.dumps`, as `predict format=json` prints it, without empty optional fields."""
        fields = ("text", "label", "probabilities", "tokens", "spans", "unknown", "attention")
        optional: dict[str, object] = {"cut": self.is_cut or None, "parts": self.parts or None}
        optional |= {"ngram_weights": self.ngram_weights, "pairs": self.pairs}
        record = {name: getattr(self, name) for name in fields}
        return record | {name: value for name, value in optional.items() if value is not None}


class Predictions(list[Prediction]):
    """Predictions of several texts, as a list."""

    def _repr_html_(self) -> str:
        """Returns the HTML for a notebook: the first texts, each shaded by its attention."""
        more = [f"<p>and {len(self) - MAX_SHOWN:,} more</p>"] if len(self) > MAX_SHOWN else []
        return "\n<hr>\n".join([*(prediction._repr_html_() for prediction in self[:MAX_SHOWN]), *more])


def join_pieces(text: str, spans: Sequence[Span]) -> tuple[list[Span], NDArray[np.int64]]:
    """Returns the spans of words, and the number of the word of each piece, -1 for special tokens.

    A piece continues a word if letters or digits meet, or if both are parts of one character, as bytes of it may be.
    """
    words: list[Span] = []
    words_L = np.full(len(spans), -1)
    for i, (start, stop) in enumerate(spans):
        if start == stop:
            continue
        first, end = words[-1] if words else (0, 0)
        meets = start == end and text[end - 1 : end].isalnum() and text[start].isalnum()
        if words and (meets or start < end):
            words[-1] = first, max(end, stop)
        else:
            words.append((start, stop))
        words_L[i] = len(words) - 1
    return words, words_L


class Piece(NamedTuple):
    """A span of a text: a token with the strength of its color, or the characters between tokens, without a number."""

    text: str
    token: int | None = None
    unread: bool = False
    shade: float | None = None
    is_unknown: bool = False


def pieces(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """Yields a text piece by piece; joined they are the text, as far as the model read it.

    HTML line breaks become line breaks; control characters become visible signs.
    """
    end = 0
    for token, (start, stop) in enumerate(spans):
        if start > end:
            yield _between(text[end:start])
        if stop > start:
            yield Piece(visible(text[start:stop]), token)
        end = max(end, stop)
    if end < len(text):
        yield _between(text[end:])


def _between(text: str) -> Piece:
    text = _LINE_BREAK.sub(lambda match: "\n" * min(2, max(1, match[0].lower().count("<br"))), text)
    is_read = text.startswith(NAME_END, len(text.rstrip()) - 1) or not _WORD.search(text)
    return Piece(visible(text)) if is_read else Piece(UNREAD, unread=True)


def clipped(word: str) -> str:
    """Returns a word with control characters as visible signs; a very long word is cut, and its length is added."""
    if len(word) <= MAX_LETTERS:
        return visible(word)
    return f"{visible(word[:MAX_LETTERS])}\u2026 ({len(word):,} characters)"


def color_limit(weights: Sequence[float]) -> float:
    """Returns the weight from which on the color is full: the row's 98 % quantile, but at least twice an even share.

    So an outlier does not turn the rest of a long row white, an even row stays pale, and in a row of fewer than 50
    weights the limit is the largest.
    """
    ranked = sorted(weights, reverse=True)
    quantile = ranked[len(ranked) // round(1 / (1 - QUANTILE))] if ranked else 0.0
    return max(quantile, min(1.0, 2 / max(1, len(ranked))))


def limit_text(limit: float, largest: float) -> str:
    """Returns the weight of the full color as text, with a note where larger weights share this color."""
    note = f" or more ({100 * QUANTILE:.0f} % quantile; largest {largest:.3g})" if largest > limit else ""
    return f"{limit:.3g}{note}"


def ties(scores_L: NDArray[np.floating]) -> bool:
    """Whether scores differ by rounding alone, as those of no token do."""
    return not scores_L.size or bool(np.ptp(scores_L) <= TIE * np.abs(scores_L).max())


def summary(words: Sequence[str], weights: Sequence[float], count: int = 3) -> str:
    """Returns the words with the largest weights of a row in one line, or how many words tie."""
    if top := _standing_out(np.array(weights), count):
        return " \u00b7 ".join(f"{words[i]} {weights[i]:.3f}" for i in top)
    largest = max(weights, default=0.0)
    return f"{sum(weight >= largest * (1 - TIE) for weight in weights)} words tie at {largest:.3f}"


def _standing_out(weights: NDArray[np.floating], count: int) -> list[int]:
    """Returns the places of the largest weights.

    Those that tie with the first one left out are left out too: only their order in the text would rank them.
    """
    largest = (
        np.sort(np.argpartition(-weights, count)[: count + 1]) if count < len(weights) else np.arange(len(weights))
    )
    order = largest[np.argsort(-weights[largest], kind="stable")].tolist()
    left_out = weights[order[count]] if len(order) > count else 0.0
    return [i for i in order[:count] if weights[i] > max(0.0, left_out * (1 + TIE))]


def head_names(count: int) -> list[str]:
    """Returns the names of the maps of pairs; a single one has none."""
    return [f"head {head}" for head in range(1, count + 1)] if count > 1 else [""]


def pair_summary(words: Sequence[str], maps: Sequence[Map], count: int = 3) -> str:
    """Returns the pairs of different tokens with the largest weights in one line, `query -> key` with the weight.

    With several heads, each pair has its head.
    """
    weights_HLL = np.array(maps)
    weights_HLL[:, range(len(words)), range(len(words))] = -1
    names, top = head_names(len(maps)), []
    for index in _standing_out(weights_HLL.ravel(), count):
        head, query, key = map(int, np.unravel_index(index, weights_HLL.shape))
        pair = f"{words[query]} \u2192 {words[key]} {weights_HLL[head, query, key]:.3f}"
        top.append(f"{pair} ({names[head]})" if names[head] else pair)
    return " \u00b7 ".join(top) or "no pair of words stands out"


def notes(prediction: Prediction) -> list[str]:
    """Returns the notes next to a text, if any: that it is cut, parts of its logit, and unknown words."""
    label = next((name for name, _ in prediction.ranked(1)), "")
    name, found = visible(label), [cut_note(prediction)]
    if prediction.parts:
        above = {part: logits[label] - sum(logits.values()) / len(logits) for part, logits in prediction.parts.items()}
        terms = ", ".join(f"{part} {value:+.2f}" for part, value in above.items())
        found.append(f"logit of {name} above the mean of the classes: {terms}")
    if count := len(prediction.unknown):
        words = list(dict.fromkeys(clipped(prediction.tokens[token]) for token in prediction.unknown))
        more = f" and {len(words) - MAX_WORDS} more" if len(words) > MAX_WORDS else ""
        start = (
            f"{count} of {len(prediction.tokens)} tokens {'is' if count == 1 else 'are'} not in the model's vocabulary"
        )
        found.append(f"{start}: {', '.join(words[:MAX_WORDS])}{more}")
    return [*filter(None, found)]


def cut_note(prediction: Prediction) -> str:
    """Returns a note where the model reads fewer words than a text has; else an empty string."""
    if not prediction.is_cut:
        return ""
    return f"the text is cut: the model reads {len(prediction.tokens):,} tokens of it, and nothing where it shows ..."
