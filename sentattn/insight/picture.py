"""The heat map of the literature as a picture: hops are rows, tokens are columns, long texts are wrapped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sentattn.insight.columns import Column, columns, lines
from sentattn.insight.pieces import visible
from sentattn.insight.prediction import Prediction
from sentattn.insight.scale import Scale
from sentattn.insight.shares import full_colour
from sentattn.insight.sheet import POINTS, Ruler, font, quiet, sheet, to_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All lengths in inches, sizes of fonts in points.
WIDTH, NARROWEST, TALLEST = 10.0, 5.5, 40.0
MARGIN, GUTTER, PADDING = 0.15, 0.5, 0.05
HEAD, BETWEEN_LINES, BETWEEN_TEXTS = 0.5, 0.13, 0.25
WORD_ROW, HOP_ROW, THINNEST_HOP_ROW, HOP_ROWS = 0.27, 0.16, 0.07, 1.6
WORD_SIZE, LABEL_SIZE, SMALL_SIZE = 9.5, 11.0, 7.5
SCALE_WIDTH, SCALE_HEIGHT, SCALE_ROOM = 1.8, 0.1, 3.6
GREY = "#666666"
MOST_CLASSES = 4


@dataclass
class Block:
    """A text to draw.

    Attributes:
        prediction: The text with its attention.
        rows: The mean over the hops; below it the hops, where there are several.
        lines: The columns, line by line.
        left_out: Number of tokens for which the picture has no room.
    """

    prediction: Prediction
    rows: list[list[float]]
    lines: list[list[Column]]
    left_out: int = 0

    @property
    def hop_row(self) -> float:
        """Height of a hop's row; many hops share a fixed height."""
        return min(HOP_ROW, max(THINNEST_HOP_ROW, HOP_ROWS / len(self.rows)))

    @property
    def gutter(self) -> float:
        """Width of the names of the rows; a single row needs none."""
        return GUTTER if len(self.rows) > 1 else 0.0

    @property
    def line_height(self) -> float:
        """Height of a line of the text with the hops below its words."""
        return WORD_ROW + (len(self.rows) - 1) * self.hop_row + BETWEEN_LINES

    @property
    def height(self) -> float:
        """Height of all of it."""
        note = 2 * BETWEEN_LINES if self.left_out else 0.0
        return HEAD + len(self.lines) * self.line_height - BETWEEN_LINES + note


def picture(predictions: Sequence[Prediction]) -> bytes:
    """Returns the heat maps of texts, one below the other, as the bytes of a PNG file.

    The words stand on the mean over the hops; below them each hop has a row. One scale of colours,
    from 0 to the largest weight, serves all. The picture is at most `TALLEST` inches high; what has
    no room is counted in it.
    """
    with quiet():
        blocks, texts_left_out = _bounded([_block(prediction) for prediction in predictions])
        gaps = len(blocks) if texts_left_out else len(blocks) - 1
        width, height = _width(blocks), sum(block.height for block in blocks) + gaps * BETWEEN_TEXTS + 2 * MARGIN
        figure, axes = sheet(width, height)
        scale = Scale(max(full_colour(row) for block in blocks for row in block.rows))
        _draw_scale(axes, scale, width - MARGIN)
        top = MARGIN
        for block in blocks:
            _draw(axes, block, scale, top)
            top += block.height + BETWEEN_TEXTS
        if texts_left_out:
            _write(axes, MARGIN, top - BETWEEN_TEXTS / 2, f"{texts_left_out} more texts are not drawn; .html shows all")
        return to_png(figure)


def _block(prediction: Prediction) -> Block:
    ruler = Ruler(font(WORD_SIZE))
    room = WIDTH - 2 * MARGIN - GUTTER
    wanted = columns(prediction, lambda text: ruler(text) + 2 * PADDING, widest=room / 2)
    hops = prediction.attention if len(prediction.attention) > 1 else []
    return Block(prediction, [prediction.mean_attention, *hops], list(lines(wanted, room)))


def _bounded(blocks: list[Block]) -> tuple[list[Block], int]:
    """Returns the blocks that fit, the last one shortened, and the number of those left out."""
    room = TALLEST - 2 * MARGIN
    for i, block in enumerate(blocks):
        if block.height + BETWEEN_TEXTS <= room:
            room -= block.height + BETWEEN_TEXTS
            continue
        fitting = math.floor((room - HEAD - BETWEEN_LINES - BETWEEN_TEXTS) / block.line_height)
        if fitting < 1 and i:
            return blocks[:i], len(blocks) - i
        dropped = block.lines[max(1, fitting) :]
        block.left_out = sum(column.token is not None for line in dropped for column in line)
        del block.lines[max(1, fitting) :]
        return blocks[: i + 1], len(blocks) - i - 1
    return blocks, 0


def _width(blocks: list[Block]) -> float:
    widths = [block.gutter + sum(column.width for column in line) for block in blocks for line in block.lines]
    titles = [_title_width(block.prediction) for block in blocks]
    return max(NARROWEST, 2 * MARGIN + max([*widths, *titles]))


def _draw_scale(axes: Axes, scale: Scale, right: float) -> None:
    left, top = right - SCALE_WIDTH, MARGIN + 0.02
    scale.draw(axes, left, top, SCALE_WIDTH, SCALE_HEIGHT)
    _write(axes, left - 0.08, top + SCALE_HEIGHT / 2, "weight (a row sums to 1)", align="right")
    below = top + SCALE_HEIGHT + 0.09
    _write(axes, left, below, "0")
    _write(axes, left + SCALE_WIDTH / 2, below, f"{scale.largest / 2:.2g}", align="center")
    _write(axes, right, below, f"{scale.largest:.2g}", align="right")


def _draw(axes: Axes, block: Block, scale: Scale, top: float) -> None:
    _draw_title(axes, block.prediction, top)
    top += HEAD
    for line in block.lines:
        _draw_line(axes, block, line, scale, top)
        top += block.line_height
    if block.left_out:
        _write(axes, MARGIN + block.gutter, top, f"{block.left_out} more tokens are not drawn; .html shows all")


def _draw_title(axes: Axes, prediction: Prediction, top: float) -> None:
    """Writes the label with its probability, and the probabilities of the other classes below."""
    name, share = _short(prediction.label), _percent(prediction.probabilities[prediction.label])
    _write(axes, MARGIN, top + 0.08, name, size=LABEL_SIZE, weight="bold", color="black")
    beside = MARGIN + Ruler(font(LABEL_SIZE, "bold"))(name) + 0.12
    _write(axes, beside, top + 0.08, share, size=LABEL_SIZE, color="black")
    _write(axes, MARGIN, top + 0.27, _others(prediction))


def _title_width(prediction: Prediction) -> float:
    """Returns the width of the title, the scale beside it included."""
    label = Ruler(font(LABEL_SIZE, "bold"))(f"{_short(prediction.label)}  100.0 %")
    return max(label, Ruler(font(SMALL_SIZE))(_others(prediction))) + SCALE_ROOM


def _others(prediction: Prediction) -> str:
    """Returns the probabilities of the other classes in their order; of many, the most likely ones."""
    others = {name: share for name, share in prediction.probabilities.items() if name != prediction.label}
    likely = sorted(others, key=lambda name: -others[name])[:MOST_CLASSES]
    return "   ".join(f"{_short(name)} {_percent(others[name])}" for name in others if name in likely)


def _draw_line(axes: Axes, block: Block, line: list[Column], scale: Scale, top: float) -> None:
    left = MARGIN + block.gutter
    x = [left, *(left + used for used in itertools.accumulate(column.width for column in line))]
    y = [top, *(top + WORD_ROW + r * block.hop_row for r in range(len(block.rows)))]
    nothing = float("nan")
    values = [[nothing if column.token is None else row[column.token] for column in line] for row in block.rows]
    scale.draw_cells(axes, x, y, values)
    for column, mean, start in zip(line, values[0], x[:-1], strict=True):
        color = GREY if column.token is None else scale.ink(mean)
        middle = start + column.width / 2
        _write(axes, middle, top + WORD_ROW / 2, column.text, size=WORD_SIZE, color=color, align="center")
    _draw_row_names(axes, block, y)


def _draw_row_names(axes: Axes, block: Block, y: list[float]) -> None:
    """Names the rows beside a line; of rows too thin for a name, every fifth."""
    if len(block.rows) == 1:
        return
    end = MARGIN + block.gutter - 0.06
    _write(axes, end, (y[0] + y[1]) / 2, "mean", align="right")
    every = 1 if block.hop_row * POINTS >= SMALL_SIZE else 5
    for hop in range(1, len(block.rows)):
        if hop % every == 0 or hop == 1:
            _write(axes, end, (y[hop] + y[hop + 1]) / 2, f"hop {hop}", align="right")


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float = SMALL_SIZE,
    weight: str = "normal",
    color: str = GREY,
    align: Literal["left", "center", "right"] = "left",
) -> None:
    """Writes a text whose letters are centred on `y`."""
    properties = font(size, weight)
    # Not centred on each text's own box: words with and without descenders share one line.
    base = y + 0.35 * size / POINTS
    axes.text(x, base, text, fontproperties=properties, color=color, ha=align, va="baseline", parse_math=False)


def _short(name: str) -> str:
    shown = " ".join(visible(name).split())
    return shown if len(shown) <= 24 else shown[:23] + "\u2026"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
