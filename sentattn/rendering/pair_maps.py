"""Token-to-token weights as square maps in a picture: queries are rows, keys are columns, each head has a map."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentattn.prediction.prediction import Prediction, head_names, visible
from sentattn.rendering.canvas import POINTS, SCALE_WIDTH, ColorScale, cut, width_of, write

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


class PairMaps:
    """The maps of a text, laid out in a grid, with K of the text's tokens on both axes.

    `tokens` and `heads` are the numbers of all; `width` is the largest width of a map with the words on its left.
    """

    def __init__(
        self, words: list[str], weights_HKK: NDArray[np.float64], tokens: int, heads: int, columns: int, width: float
    ) -> None:
        self.words, self.weights_HKK, self.columns = words, weights_HKK, columns
        cell = (width - _word_space(words, SMALLEST_SIZE)) / len(words)
        self.size = min(LARGEST_SIZE, max(SMALLEST_SIZE, math.floor(2 * 0.85 * POINTS * cell) / 2))
        self.word_space = _word_space(words, self.size)
        self.cell = min(LARGEST_CELL, (width - self.word_space) / len(words))
        self.names = head_names(heads)[: len(weights_HKK)]
        self.notes = []
        if tokens > len(words):
            self.notes.append(
                f"{tokens - len(words)} of {tokens} tokens, those with the least attention, are not drawn;"
                f" a row sums to 1 over all {tokens}; .html shows all"
            )
        if heads > len(weights_HKK):
            self.notes.append(f"{heads - len(weights_HKK)} more heads are not drawn; .html shows all")
        self.heading = HEADING + NOTE * len(self.notes)
        self.map_width = self.word_space + len(words) * self.cell
        self.map_height = TITLE * (heads > 1) + self.map_width
        heading_width = width_of(EXPLANATION) + BETWEEN + SCALE_WIDTH
        self.width = max(columns * (self.map_width + BETWEEN) - BETWEEN, heading_width, *map(width_of, self.notes))
        self.height = self.heading + math.ceil(len(weights_HKK) / columns) * (self.map_height + BETWEEN) - BETWEEN
        # Up to the largest weight, but at least twice an even share: even weights stay pale.
        self.limit = max(float(weights_HKK.max()), min(1.0, 2 / tokens))


def _word_space(words: list[str], size: float) -> float:
    return min(WIDEST_WORD, max(width_of(word, size) for word in words)) + PADDING


def lay_out(prediction: Prediction, *, width: float, height: float) -> PairMaps | None:
    """Lays out the maps of a text within a width and a height, or returns None where it has no pairs.

    All tokens and heads are drawn if they are legible. Otherwise as many tokens as are legible, those with the most
    attention over all queries and heads; then as many heads as fit. The notes count the others.
    """
    if prediction.pairs is None:
        return None
    weights_HLL = np.array(prediction.pairs)
    heads, length = weights_HLL.shape[:2]
    words = [" ".join(visible(word[:MAX_LETTERS]).split()) for word in prediction.tokens]
    ranked = np.argsort(-weights_HLL.sum(axis=(0, 1)), kind="stable")

    def maps(count: int, columns: int, drawn: int = heads) -> PairMaps:
        tokens = np.sort(ranked[:count])
        weights_HKK = weights_HLL[:drawn, tokens][:, :, tokens]
        labels = [words[i] for i in tokens]
        return PairMaps(labels, weights_HKK, length, heads, columns, (width + BETWEEN) / columns - BETWEEN)

    most = min(length, MAX_TOKENS)
    for count in range(most, min(most, MIN_TOKENS) - 1, -1):
        # With the largest cells that fit on a page, or else the smallest legible ones.
        map_width = _word_space([words[i] for i in ranked[:count]], SMALLEST_SIZE) + count * SMALLEST_CELL
        legible = max(1, math.floor((width + BETWEEN) / (map_width + BETWEEN)))
        even = sorted({math.ceil(heads / math.ceil(heads / columns)) for columns in range(1, legible + 1)})
        grids = [maps(count, columns) for columns in even]
        on_a_page = [grid for grid in grids if grid.height <= PAGE]
        best = max(on_a_page, key=lambda grid: (grid.cell, grid.columns), default=grids[-1])
        if best.height <= height:
            return best
    rows = math.floor((height - best.heading - NOTE + BETWEEN) / (best.map_height + BETWEEN))
    return maps(count, best.columns, max(1, rows) * best.columns)


def draw(axes: Axes, laid_out: PairMaps, left: float, top: float, *, right: float) -> None:
    """Draws the maps with their top left corner at `left` and `top`, and their color scale at `right`."""
    scale = ColorScale(laid_out.limit, laid_out.limit)
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
    cell, size = laid_out.cell, laid_out.size
    edges = [i * cell for i in range(len(laid_out.words) + 1)]
    scale.draw_cells(axes, [left + x for x in edges], [top + y for y in edges], weights_KK.tolist())
    for start, word in zip(edges, laid_out.words, strict=False):
        shortened, middle = cut(word, WIDEST_WORD, size), start + cell / 2
        write(axes, left - PADDING, top + middle, shortened, size=size, color="black", align="right")
        write(axes, left + middle, top - PADDING, shortened, size=size, color="black", upwards=True)
    if cell >= ANNOTATED_CELL:
        for t, s in np.argwhere(weights_KK >= SMALLEST_NUMBER):
            x, y = left + (s + 0.5) * cell, top + (t + 0.5) * cell
            number, color = f"{weights_KK[t, s]:.2f}".removeprefix("0"), scale.text_color(weights_KK[t, s])
            write(axes, x, y, number, size=NUMBER_SIZE, color=color, align="center")
