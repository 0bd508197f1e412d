"""The heat map of the literature as a picture: hops are rows, tokens are columns, long texts are wrapped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sentattn.insight import pair_maps
from sentattn.insight.columns import Column, columns, lines
from sentattn.insight.pair_maps import PairMaps
from sentattn.insight.pieces import visible
from sentattn.insight.prediction import Prediction
from sentattn.insight.scale import SCALE_ROOM, Scale
from sentattn.insight.shares import full_colour
from sentattn.insight.sheet import GREY, POINTS, SMALL_SIZE, Ruler, font, quiet, sheet, to_png, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All lengths in inches, sizes of fonts in points.
WIDTH, NARROWEST, TALLEST, TALLEST_MAPS = 10.0, 5.5, 40.0, 14.0
MARGIN, GUTTER, PADDING = 0.15, 0.5, 0.05
HEAD, BETWEEN_LINES, BETWEEN_TEXTS = 0.5, 0.13, 0.25
WORD_ROW, HOP_ROW, THINNEST_HOP_ROW, HOP_ROWS = 0.27, 0.16, 0.07, 1.6
WORD_SIZE, LABEL_SIZE = 9.5, 11.0
MOST_CLASSES = 4


@dataclass
class Block:
    """A text to draw.

    Attributes:
        prediction: The text with its attention.
        rows: The mean over the hops; below it the hops, where there are several.
        lines: The columns, line by line.
        maps: The token-to-token weights below, where there are any.
        left_out: Number of tokens for which the picture has no room.
    """

    prediction: Prediction
    rows: list[list[float]]
    lines: list[list[Column]]
    maps: PairMaps | None = None
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
        return HEAD + len(self.lines) * self.line_height - BETWEEN_LINES + note + self.maps_height

    @property
    def maps_height(self) -> float:
        """Height of the maps of pairs, with what parts them from the lines."""
        return BETWEEN_TEXTS + self.maps.height if self.maps else 0.0


def picture(predictions: Sequence[Prediction]) -> bytes:
    """Returns the heat maps of texts, one below the other, as the bytes of a PNG file.

    The words stand on the mean over the hops; below them each hop has a row. Token-to-token weights
    follow as square maps. One scale of colours, from 0 to the largest weight, serves all rows, and
    another one all maps. The picture is at most `TALLEST` inches high; what has no room is counted
    in it.
    """
    with quiet():
        blocks, texts_left_out = _bounded([_block(prediction) for prediction in predictions])
        gaps = len(blocks) if texts_left_out else len(blocks) - 1
        width, height = _width(blocks), sum(block.height for block in blocks) + gaps * BETWEEN_TEXTS + 2 * MARGIN
        figure, axes = sheet(width, height)
        scale = Scale(max(full_colour(row) for block in blocks for row in block.rows))
        pair_scale = Scale(max((block.maps.largest for block in blocks if block.maps), default=1.0))
        scale.draw(axes, width - MARGIN, MARGIN + 0.02)
        top = MARGIN
        for block in blocks:
            _draw(axes, block, scale, top)
            top += block.height
            if block.maps:
                corner = MARGIN, top - block.maps.height
                pair_maps.draw(axes, block.maps, pair_scale, *corner, right=width - MARGIN)
            top += BETWEEN_TEXTS
        if texts_left_out:
            write(axes, MARGIN, top - BETWEEN_TEXTS / 2, f"{texts_left_out} more texts are not drawn; .html shows all")
        return to_png(figure)


def _block(prediction: Prediction) -> Block:
    ruler = Ruler(font(WORD_SIZE))
    room = WIDTH - 2 * MARGIN - GUTTER
    wanted = columns(prediction, lambda text: ruler(text) + 2 * PADDING, widest=room / 2)
    hops = prediction.attention if len(prediction.attention) > 1 else []
    maps = pair_maps.lay_out(prediction, width=WIDTH - 2 * MARGIN, height=min(TALLEST_MAPS, TALLEST / 2))
    return Block(prediction, [prediction.mean_attention, *hops], list(lines(wanted, room)), maps)


def _bounded(blocks: list[Block]) -> tuple[list[Block], int]:
    """Returns the blocks that fit, the last one shortened, and the number of those left out."""
    room = TALLEST - 2 * MARGIN
    for i, block in enumerate(blocks):
        if block.height + BETWEEN_TEXTS <= room:
            room -= block.height + BETWEEN_TEXTS
            continue
        fitting = math.floor((room - block.maps_height - HEAD - BETWEEN_LINES - BETWEEN_TEXTS) / block.line_height)
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
    maps = [block.maps.width for block in blocks if block.maps]
    return max(NARROWEST, 2 * MARGIN + max([*widths, *titles, *maps]))


def _draw(axes: Axes, block: Block, scale: Scale, top: float) -> None:
    _draw_title(axes, block.prediction, top)
    top += HEAD
    for line in block.lines:
        _draw_line(axes, block, line, scale, top)
        top += block.line_height
    if block.left_out:
        write(axes, MARGIN + block.gutter, top, f"{block.left_out} more tokens are not drawn; .html shows all")


def _draw_title(axes: Axes, prediction: Prediction, top: float) -> None:
    """Writes the label with its probability, and the probabilities of the other classes below."""
    name, share = _short(prediction.label), _percent(prediction.probabilities[prediction.label])
    write(axes, MARGIN, top + 0.08, name, size=LABEL_SIZE, weight="bold", color="black")
    beside = MARGIN + Ruler(font(LABEL_SIZE, "bold"))(name) + 0.12
    write(axes, beside, top + 0.08, share, size=LABEL_SIZE, color="black")
    write(axes, MARGIN, top + 0.27, _others(prediction))


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
        write(axes, middle, top + WORD_ROW / 2, column.text, size=WORD_SIZE, color=color, align="center")
    _draw_row_names(axes, block, y)


def _draw_row_names(axes: Axes, block: Block, y: list[float]) -> None:
    """Names the rows beside a line; of rows too thin for a name, every fifth."""
    if len(block.rows) == 1:
        return
    end = MARGIN + block.gutter - 0.06
    write(axes, end, (y[0] + y[1]) / 2, "mean", align="right")
    every = 1 if block.hop_row * POINTS >= SMALL_SIZE else 5
    for hop in range(1, len(block.rows)):
        if hop % every == 0 or hop == 1:
            write(axes, end, (y[hop] + y[hop + 1]) / 2, f"hop {hop}", align="right")


def _short(name: str) -> str:
    shown = " ".join(visible(name).split())
    return shown if len(shown) <= 24 else shown[:23] + "\u2026"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
