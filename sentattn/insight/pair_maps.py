"""Token-to-token weights as square maps in a picture: queries are rows, keys are columns, each head has a map."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentattn.insight.canvas import POINTS, SCALE_WIDTH, SMALL_SIZE, ColorScale, Ruler, font, write
from sentattn.insight.prediction import Prediction
from sentattn.insight.tokens import cut, head_names, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All lengths in inches, sizes of fonts in points.
MAX_TOKENS, MIN_TOKENS = 70, 8
SMALLEST_CELL, LARGEST_CELL, ANNOTATED_CELL = 0.1, 0.34, 0.25
SMALLEST_SIZE, LARGEST_SIZE, HEADING_SIZE, TITLE_SIZE, NUMBER_SIZE = 6.0, 9.5, 11.0, 9.0, 7.0
WIDEST_WORD, PADDING, BETWEEN, TITLE = 0.9, 0.06, 0.25, 0.25
HEADING, NOTE, PAGE = 0.5, 0.17, 7.0
MAX_LETTERS = 100  # wider than any axis; a URL may have thousands of letters
SMALLEST_NUMBER = 0.005
EXPLANATION = "row: the token that attends    column: the token attended to"


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
        word_space: Length of the longest word of an axis.
        size: Size of the words' font.
    """

    words: list[str]
    weights_HKK: NDArray[np.float64]
    tokens: int
    heads: int
    columns: int
    cell: float
    word_space: float
    size: float

    @property
    def names(self) -> list[str]:
        """Titles of the maps."""
        return head_names(self.heads)[: len(self.weights_HKK)]

    @property
    def notes(self) -> list[str]:
        """What does not fit into the picture."""
        notes = []
        if tokens_left_out := self.tokens - len(self.words):
            notes.append(
                f"{tokens_left_out} of {self.tokens} tokens, those with the least attention, are not drawn;"
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
        return self.word_space + len(self.words) * self.cell

    @property
    def map_height(self) -> float:
        """Height of a map with the words and the title above it."""
        return TITLE * (self.heads > 1) + self.map_width

    @property
    def width(self) -> float:
        """Width of all maps and of the heading."""
        ruler = _ruler(SMALL_SIZE)
        heading = ruler(EXPLANATION) + BETWEEN + SCALE_WIDTH
        return max(self.columns * (self.map_width + BETWEEN) - BETWEEN, heading, *map(ruler, self.notes))

    @property
    def height(self) -> float:
        """Height of all maps with the heading."""
        return self.heading + self.rows * (self.map_height + BETWEEN) - BETWEEN

    @property
    def heading(self) -> float:
        """Height of the heading."""
        return HEADING + NOTE * len(self.notes)

    @property
    def scale(self) -> ColorScale:
        """The color scale, up to the largest weight, but at least twice an even share: even weights stay pale."""
        limit = max(float(self.weights_HKK.max()), min(1.0, 2 / self.tokens))
        return ColorScale(limit, limit)


def lay_out(prediction: Prediction, *, width: float, height: float) -> PairMaps | None:
    """Lays out the maps of a text, or returns None where it has no pairs.

    All tokens and heads are drawn if they are legible. Otherwise as many tokens as are legible, those with the most
    attention over all queries and heads; then as many heads as fit. The notes count the others.

    Args:
        prediction: The text with its pairs.
        width: Largest width of the maps.
        height: Largest height of the maps.
    """
    if prediction.pairs is None:
        return None
    weights_HLL = np.array(prediction.pairs)
    words = [" ".join(visible(word[:MAX_LETTERS]).split()) for word in prediction.words]
    ranked = np.argsort(-weights_HLL.sum(axis=(0, 1)), kind="stable")
    count = min(len(words), MAX_TOKENS)
    laid_out = _grid(words, weights_HLL, np.sort(ranked[:count]), width)
    while laid_out.height > height and count > MIN_TOKENS:
        count -= 1
        laid_out = _grid(words, weights_HLL, np.sort(ranked[:count]), width)
    return _bounded(laid_out, height)


def _grid(words: Sequence[str], weights_HLL: NDArray[np.float64], tokens: NDArray[np.intp], width: float) -> PairMaps:
    """Lays out maps of some tokens: with the largest cells that fit on a page, or else the smallest legible ones."""
    labels = [words[i] for i in tokens]
    map_width = _word_space(labels, SMALLEST_SIZE) + len(tokens) * SMALLEST_CELL
    legible = max(1, math.floor((width + BETWEEN) / (map_width + BETWEEN)))
    heads = len(weights_HLL)
    even = sorted({math.ceil(heads / math.ceil(heads / columns)) for columns in range(1, legible + 1)})
    grids = [
        PairMaps(
            words=labels,
            weights_HKK=weights_HLL[:, tokens][:, :, tokens],
            tokens=len(words),
            heads=heads,
            columns=columns,
            **_sizes(labels, (width + BETWEEN) / columns - BETWEEN),
        )
        for columns in even
    ]
    on_a_page = [grid for grid in grids if grid.height <= PAGE]
    return max(on_a_page, key=lambda grid: (grid.cell, grid.columns), default=grids[-1])


def _sizes(words: Sequence[str], width: float) -> dict[str, float]:
    """Returns the sizes of a map that is at most this wide."""
    cell = (width - _word_space(words, SMALLEST_SIZE)) / len(words)
    size = min(LARGEST_SIZE, max(SMALLEST_SIZE, math.floor(2 * 0.85 * POINTS * cell) / 2))
    word_space = _word_space(words, size)
    return {"cell": min(LARGEST_CELL, (width - word_space) / len(words)), "word_space": word_space, "size": size}


@functools.cache
def _ruler(size: float) -> Ruler:
    return Ruler(font(size))


def _word_space(words: Sequence[str], size: float) -> float:
    return min(WIDEST_WORD, max(map(_ruler(size), words))) + PADDING


def _bounded(laid_out: PairMaps, height: float) -> PairMaps:
    """Leaves out the heads that do not fit."""
    space = height - laid_out.heading - NOTE + BETWEEN
    rows = max(1, math.floor(space / (laid_out.map_height + BETWEEN)))
    if laid_out.height <= height:
        return laid_out
    return replace(laid_out, weights_HKK=laid_out.weights_HKK[: rows * laid_out.columns])


def draw(axes: Axes, laid_out: PairMaps, left: float, top: float, *, right: float) -> None:
    """Draws the maps with their top left corner at `left` and `top`, and their color scale at `right`."""
    scale = laid_out.scale
    scale.draw(axes, right, top + 0.02)
    write(axes, left, top + 0.08, "pairs", size=HEADING_SIZE, weight="bold", color="black")
    for line, text in enumerate([EXPLANATION, *laid_out.notes]):
        write(axes, left, top + 0.27 + line * NOTE, text)
    top += laid_out.heading
    for i, name in enumerate(laid_out.names):
        row, column = divmod(i, laid_out.columns)
        cells_left = left + column * (laid_out.map_width + BETWEEN) + laid_out.word_space
        title_top = top + row * (laid_out.map_height + BETWEEN)
        write(axes, cells_left, title_top + 0.4 * TITLE, name, size=TITLE_SIZE, weight="bold", color="black")
        cells_top = title_top + laid_out.map_height - len(laid_out.words) * laid_out.cell
        _draw_map(axes, laid_out, laid_out.weights_HKK[i], scale, cells_left, cells_top)


def _draw_map(
    axes: Axes, laid_out: PairMaps, weights_KK: NDArray[np.float64], scale: ColorScale, left: float, top: float
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
            write(axes, x, y, number, size=NUMBER_SIZE, color=scale.text_color(weights_KK[t, s]), align="center")
