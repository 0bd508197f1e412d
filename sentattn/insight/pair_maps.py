"""Token-to-token weights as square maps in a picture: a row for each token that looks, a map for each head."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentattn.insight.columns import cut
from sentattn.insight.pairs import head_names, most_looked_at
from sentattn.insight.pieces import visible
from sentattn.insight.prediction import Prediction
from sentattn.insight.scale import SCALE_WIDTH, Scale
from sentattn.insight.sheet import POINTS, SMALL_SIZE, Ruler, font, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All lengths in inches, sizes of fonts in points.
MOST_TOKENS, FEWEST_TOKENS = 70, 8
SMALLEST_CELL, LARGEST_CELL, ANNOTATED_CELL = 0.1, 0.34, 0.25
SMALLEST_SIZE, LARGEST_SIZE, HEADING_SIZE, TITLE_SIZE, NUMBER_SIZE = 6.0, 9.5, 11.0, 9.0, 7.0
WIDEST_WORD, PADDING, BETWEEN, TITLE = 0.9, 0.06, 0.25, 0.25
HEADING, NOTE, PAGE = 0.5, 0.17, 7.0
MOST_LETTERS = 100  # wider than any axis; a URL may be thousands of letters long
SMALLEST_NUMBER = 0.005
EXPLANATION = "row: the token that looks    column: the token looked at"


@dataclass(frozen=True)
class PairMaps:
    """The maps of a text, laid out in a grid.

    Attributes:
        words: The words on both axes, K of the text's tokens in their order.
        weights_HKK: Their weights, a map for each head that is drawn.
        tokens: Number of the text's tokens.
        heads: Number of the model's heads.
        columns: Maps side by side.
        cell: Width and height of a cell.
        word_room: Room for the words of an axis.
        size: Size of the words' font.
    """

    words: list[str]
    weights_HKK: NDArray[np.float64]
    tokens: int
    heads: int
    columns: int
    cell: float
    word_room: float
    size: float

    @property
    def names(self) -> list[str]:
        """Titles of the maps."""
        return head_names(self.heads)[: len(self.weights_HKK)]

    @property
    def notes(self) -> list[str]:
        """What the picture has no room for, in sentences."""
        notes = []
        if tokens_left_out := self.tokens - len(self.words):
            notes.append(
                f"{tokens_left_out} of {self.tokens} tokens, those looked at least, are not drawn;"
                f" a row sums to 1 over all {self.tokens}; .html shows all"
            )
        if heads_left_out := self.heads - len(self.weights_HKK):
            notes.append(f"{heads_left_out} more heads are not drawn; .html shows all")
        return notes

    @property
    def rows(self) -> int:
        """Maps one below the other."""
        return math.ceil(len(self.weights_HKK) / self.columns)

    @property
    def map_width(self) -> float:
        """Width of a map with the words on its left."""
        return self.word_room + len(self.words) * self.cell

    @property
    def map_height(self) -> float:
        """Height of a map with the words and the title above it."""
        return TITLE * (self.heads > 1) + self.map_width

    @property
    def width(self) -> float:
        """Width of all of them and of what is written above."""
        ruler = _ruler(SMALL_SIZE)
        beside_the_scale = ruler(EXPLANATION) + BETWEEN + SCALE_WIDTH
        return max(self.columns * (self.map_width + BETWEEN) - BETWEEN, beside_the_scale, *map(ruler, self.notes))

    @property
    def height(self) -> float:
        """Height of all of them and of what is written above."""
        return self.heading + self.rows * (self.map_height + BETWEEN) - BETWEEN

    @property
    def heading(self) -> float:
        """Height of what is written above."""
        return HEADING + NOTE * len(self.notes)

    @property
    def largest(self) -> float:
        """The weight that gets the full colour: at least twice an even share, so that even weights stay pale."""
        return max(float(self.weights_HKK.max()), min(1.0, 2 / self.tokens))


def lay_out(prediction: Prediction, *, width: float, height: float) -> PairMaps | None:
    """Lays out the maps of a text, or returns None where it has no pairs.

    All tokens and heads are drawn where they can be read. Else the tokens that are looked at most, as
    many as can; then as many heads as there is room for. The notes tell what is left out.

    Args:
        prediction: The text with its pairs.
        width: Room for the maps side by side.
        height: Room for the maps one below the other.
    """
    if prediction.pairs is None:
        return None
    weights_HLL = np.array(prediction.pairs)
    words = [" ".join(visible(word[:MOST_LETTERS]).split()) for word in prediction.words]
    ranked = most_looked_at(weights_HLL)
    count = min(len(words), MOST_TOKENS)
    laid_out = _grid(words, weights_HLL, np.sort(ranked[:count]), width)
    while laid_out.height > height and count > FEWEST_TOKENS:
        count -= 1
        laid_out = _grid(words, weights_HLL, np.sort(ranked[:count]), width)
    return _bounded(laid_out, height)


def _grid(words: Sequence[str], weights_HLL: NDArray[np.float64], kept: NDArray[np.intp], width: float) -> PairMaps:
    """Lays out maps of some tokens: with the largest cells that keep to a page, or else as small as can be read."""
    chosen = [words[i] for i in kept]
    map_width = _word_room(chosen, SMALLEST_SIZE) + len(kept) * SMALLEST_CELL
    readable = max(1, math.floor((width + BETWEEN) / (map_width + BETWEEN)))
    heads = len(weights_HLL)
    even = sorted({math.ceil(heads / math.ceil(heads / columns)) for columns in range(1, readable + 1)})
    grids = [
        PairMaps(
            words=chosen,
            weights_HKK=weights_HLL[:, kept][:, :, kept],
            tokens=len(words),
            heads=heads,
            columns=columns,
            **_sizes(chosen, (width + BETWEEN) / columns - BETWEEN),
        )
        for columns in even
    ]
    on_a_page = [grid for grid in grids if grid.height <= PAGE]
    return max(on_a_page, key=lambda grid: (grid.cell, grid.columns), default=grids[-1])


def _sizes(words: Sequence[str], width: float) -> dict[str, float]:
    """Returns the sizes of a map that is at most this wide."""
    cell = (width - _word_room(words, SMALLEST_SIZE)) / len(words)
    size = min(LARGEST_SIZE, max(SMALLEST_SIZE, math.floor(2 * 0.85 * POINTS * cell) / 2))
    word_room = _word_room(words, size)
    return {"cell": min(LARGEST_CELL, (width - word_room) / len(words)), "word_room": word_room, "size": size}


@functools.cache
def _ruler(size: float) -> Ruler:
    return Ruler(font(size))


def _word_room(words: Sequence[str], size: float) -> float:
    return min(WIDEST_WORD, max(map(_ruler(size), words))) + PADDING


def _bounded(laid_out: PairMaps, height: float) -> PairMaps:
    """Leaves out the heads for which there is no room."""
    room = height - laid_out.heading - NOTE + BETWEEN
    rows = max(1, math.floor(room / (laid_out.map_height + BETWEEN)))
    return (
        laid_out
        if laid_out.height <= height
        else replace(laid_out, weights_HKK=laid_out.weights_HKK[: rows * laid_out.columns])
    )


def draw(axes: Axes, laid_out: PairMaps, scale: Scale, left: float, top: float, *, right: float) -> None:
    """Draws the maps from `left` and `top` on, the scale of their colours at `right`."""
    scale.draw(axes, right, top + 0.02)
    write(axes, left, top + 0.08, "pairs", size=HEADING_SIZE, weight="bold", color="black")
    for line, text in enumerate([EXPLANATION, *laid_out.notes]):
        write(axes, left, top + 0.27 + line * NOTE, text)
    top += laid_out.heading
    for i, name in enumerate(laid_out.names):
        row, column = divmod(i, laid_out.columns)
        cells_left = left + column * (laid_out.map_width + BETWEEN) + laid_out.word_room
        title_top = top + row * (laid_out.map_height + BETWEEN)
        write(axes, cells_left, title_top + 0.4 * TITLE, name, size=TITLE_SIZE, weight="bold", color="black")
        cells_top = title_top + laid_out.map_height - len(laid_out.words) * laid_out.cell
        _draw_map(axes, laid_out, laid_out.weights_HKK[i], scale, cells_left, cells_top)


def _draw_map(
    axes: Axes, laid_out: PairMaps, weights_KK: NDArray[np.float64], scale: Scale, left: float, top: float
) -> None:
    edges = [i * laid_out.cell for i in range(len(laid_out.words) + 1)]
    words = [cut(word, _ruler(laid_out.size), WIDEST_WORD) for word in laid_out.words]
    scale.draw_cells(axes, [left + x for x in edges], [top + y for y in edges], weights_KK.tolist())
    for start, word in zip(edges, words, strict=False):
        middle = start + laid_out.cell / 2
        write(axes, left - PADDING, top + middle, word, size=laid_out.size, color="black", align="right")
        write(axes, left + middle, top - PADDING, word, size=laid_out.size, color="black", upwards=True)
    if laid_out.cell >= ANNOTATED_CELL:
        for t, s in np.argwhere(weights_KK >= SMALLEST_NUMBER):
            x, y = left + (s + 0.5) * laid_out.cell, top + (t + 0.5) * laid_out.cell
            number = f"{weights_KK[t, s]:.2f}".removeprefix("0")
            write(axes, x, y, number, size=NUMBER_SIZE, color=scale.ink(weights_KK[t, s]), align="center")
