"""Heat maps of attention as a PNG picture: tokens are columns, hops are rows, long texts are wrapped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sentattn.insight import pair_maps
from sentattn.insight.canvas import (
    GREY,
    POINTS,
    SCALE_SPACE,
    SMALL_SIZE,
    ColorScale,
    Ruler,
    canvas,
    font,
    missing_scripts,
    quiet,
    to_png,
    write,
)
from sentattn.insight.pair_maps import PairMaps
from sentattn.insight.prediction import Prediction
from sentattn.insight.tokens import Column, color_limit, columns, cut, lines, unknown_note, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All lengths in inches, sizes of fonts in points.
WIDTH, NARROWEST, TALLEST, TALLEST_MAPS = 10.0, 5.5, 40.0, 14.0
MARGIN, GUTTER, PADDING = 0.15, 0.5, 0.05
TITLE, NOTE, BETWEEN_LINES, BETWEEN_TEXTS = 0.5, 0.17, 0.13, 0.25
WORD_ROW, HOP_ROW, THINNEST_HOP_ROW, HOP_ROWS = 0.27, 0.16, 0.07, 1.6
WORD_SIZE, LABEL_SIZE = 9.5, 11.0
MAX_CLASSES = 4


@dataclass
class Block:
    """A text to draw.

    Attributes:
        prediction: The text with its attention.
        rows: The mean over the hops; below it the hops, if there are several.
        lines: The columns, line by line.
        notes: The notes above the lines.
        maps: The token-to-token weights below, if there are any.
        left_out: Number of tokens that do not fit into the picture.
    """

    prediction: Prediction
    rows: list[list[float]]
    lines: list[list[Column]]
    notes: list[str]
    maps: PairMaps | None = None
    left_out: int = 0

    @property
    def hop_row(self) -> float:
        """Height of a hop's row; many hops share a fixed height."""
        return min(HOP_ROW, max(THINNEST_HOP_ROW, HOP_ROWS / len(self.rows)))

    @property
    def gutter(self) -> float:
        """Width of the names of the rows; a single row has none."""
        return GUTTER if len(self.rows) > 1 else 0.0

    @property
    def line_height(self) -> float:
        """Height of a line of the text with the hops below its words."""
        return WORD_ROW + (len(self.rows) - 1) * self.hop_row + BETWEEN_LINES

    @property
    def head(self) -> float:
        """Height of the title and the notes."""
        return TITLE + NOTE * len(self.notes)

    @property
    def height(self) -> float:
        """Height of the whole block."""
        note = 2 * BETWEEN_LINES if self.left_out else 0.0
        return self.head + len(self.lines) * self.line_height - BETWEEN_LINES + note + self.maps_height

    @property
    def maps_height(self) -> float:
        """Height of the maps of pairs, with the space above them."""
        return BETWEEN_TEXTS + self.maps.height if self.maps else 0.0


def picture(predictions: Sequence[Prediction]) -> bytes:
    """Returns the heat maps of texts, one below the other, as the bytes of a PNG file.

    The words are on the mean over the hops; below them each hop has a row. Words that are not in the vocabulary are
    underlined. Token-to-token weights follow as square maps. Each text has a color scale from 0 to the 98 % quantile
    of its weights, and one for its maps. The picture is at most `TALLEST` inches high; it counts what does not fit.
    """
    with quiet():
        blocks, texts_left_out = _bounded([_block(prediction) for prediction in predictions])
        gaps = len(blocks) if texts_left_out else len(blocks) - 1
        width, height = _width(blocks), sum(block.height for block in blocks) + gaps * BETWEEN_TEXTS + 2 * MARGIN
        figure, axes = canvas(width, height)
        top = MARGIN
        for block in blocks:
            _draw(axes, block, top, width - MARGIN)
            top += block.height + BETWEEN_TEXTS
        if texts_left_out:
            write(axes, MARGIN, top - BETWEEN_TEXTS / 2, f"{texts_left_out} more texts are not drawn; .html shows all")
        return to_png(figure)


def font_note(predictions: Sequence[Prediction]) -> str:
    """Returns which scripts are drawn as boxes because no installed font has them; an empty string if none are."""
    texts = {text for prediction in predictions for text in [*prediction.words, *prediction.probabilities]}
    scripts = missing_scripts(map(visible, texts))
    return f"no installed font has {', '.join(scripts)}: drawn as boxes; .html shows them" if scripts else ""


def _block(prediction: Prediction) -> Block:
    ruler = Ruler(font(WORD_SIZE))
    width = WIDTH - 2 * MARGIN - GUTTER
    items = columns(prediction, lambda text: ruler(text) + 2 * PADDING, widest=width / 2)
    hops = prediction.attention if len(prediction.attention) > 1 else []
    notes = [note for note in (unknown_note(prediction), font_note([prediction])) if note]
    small = Ruler(font(SMALL_SIZE))
    return Block(
        prediction,
        rows=[prediction.mean_attention, *hops],
        lines=list(lines(items, width)),
        notes=[cut(note, small, width) for note in notes],
        maps=pair_maps.lay_out(prediction, width=WIDTH - 2 * MARGIN, height=min(TALLEST_MAPS, TALLEST / 2)),
    )


def _bounded(blocks: list[Block]) -> tuple[list[Block], int]:
    """Returns the blocks that fit, the last one shortened, and the number of those left out."""
    height = TALLEST - 2 * MARGIN
    for i, block in enumerate(blocks):
        if block.height + BETWEEN_TEXTS <= height:
            height -= block.height + BETWEEN_TEXTS
            continue
        fitting = math.floor(
            (height - block.maps_height - block.head - BETWEEN_LINES - BETWEEN_TEXTS) / block.line_height
        )
        if fitting < 1 and i:
            return blocks[:i], len(blocks) - i
        dropped = block.lines[max(1, fitting) :]
        block.left_out = sum(column.token is not None for line in dropped for column in line)
        del block.lines[max(1, fitting) :]
        return blocks[: i + 1], len(blocks) - i - 1
    return blocks, 0


def _width(blocks: list[Block]) -> float:
    return max(NARROWEST, 2 * MARGIN + max(width for block in blocks for width in _widths(block)))


def _widths(block: Block) -> Iterator[float]:
    """Yields the widths of all parts of a block."""
    small = Ruler(font(SMALL_SIZE))
    label = Ruler(font(LABEL_SIZE, "bold"))(f"{_short(block.prediction.label)}  100.0 %")
    yield max(label, small(_other_classes(block.prediction))) + SCALE_SPACE
    yield from (small(note) for note in block.notes)
    yield from (block.gutter + sum(column.width for column in line) for line in block.lines)
    if block.maps:
        yield block.maps.width


def _draw(axes: Axes, block: Block, top: float, right: float) -> None:
    limit = max(color_limit(row) for row in block.rows)
    scale = ColorScale(limit, max(max(row, default=0.0) for row in block.rows))
    scale.draw(axes, right, top + 0.02)
    _draw_title(axes, block.prediction, top)
    for number, note in enumerate(block.notes):
        write(axes, MARGIN, top + TITLE - 0.06 + NOTE * number, note)
    end, top = top + block.height, top + block.head
    for line in block.lines:
        _draw_line(axes, block, line, scale, top)
        top += block.line_height
    if block.left_out:
        write(axes, MARGIN + block.gutter, top, f"{block.left_out} more tokens are not drawn; .html shows all")
    if block.maps:
        pair_maps.draw(axes, block.maps, MARGIN, end - block.maps.height, right=right)


def _draw_title(axes: Axes, prediction: Prediction, top: float) -> None:
    """Writes the label with its probability, and below it the probabilities of the other classes."""
    name, share = _short(prediction.label), _percent(prediction.probabilities[prediction.label])
    write(axes, MARGIN, top + 0.08, name, size=LABEL_SIZE, weight="bold", color="black")
    left = MARGIN + Ruler(font(LABEL_SIZE, "bold"))(name) + 0.12
    write(axes, left, top + 0.08, share, size=LABEL_SIZE, color="black")
    write(axes, MARGIN, top + 0.27, _other_classes(prediction))


def _other_classes(prediction: Prediction) -> str:
    """Returns the probabilities of the other classes in their order; of many, the most likely ones."""
    others = {name: share for name, share in prediction.probabilities.items() if name != prediction.label}
    likely = sorted(others, key=lambda name: -others[name])[:MAX_CLASSES]
    return "   ".join(f"{_short(name)} {_percent(others[name])}" for name in others if name in likely)


def _draw_line(axes: Axes, block: Block, line: list[Column], scale: ColorScale, top: float) -> None:
    left = MARGIN + block.gutter
    x = [left, *(left + used for used in itertools.accumulate(column.width for column in line))]
    y = [top, *(top + WORD_ROW + r * block.hop_row for r in range(len(block.rows)))]
    empty = float("nan")
    weights = [[empty if column.token is None else row[column.token] for column in line] for row in block.rows]
    scale.draw_cells(axes, x, y, weights)
    unknown = set(block.prediction.unknown)
    for column, mean, start in zip(line, weights[0], x[:-1], strict=True):
        color = GREY if column.token is None else scale.text_color(mean)
        write(
            axes, start + column.width / 2, top + WORD_ROW / 2, column.text, size=WORD_SIZE, color=color, align="center"
        )
        if column.token in unknown:
            ends, height = [start + PADDING, start + column.width - PADDING], top + 0.85 * WORD_ROW
            axes.plot(ends, [height, height], color=color, linewidth=0.8, linestyle=(0, (2, 1.5)))
    _draw_row_names(axes, block, y)


def _draw_row_names(axes: Axes, block: Block, y: list[float]) -> None:
    """Names the rows next to a line; of rows too thin for a name, every fifth."""
    if len(block.rows) == 1:
        return
    right = MARGIN + block.gutter - 0.06
    write(axes, right, (y[0] + y[1]) / 2, "mean", align="right")
    every = 1 if block.hop_row * POINTS >= SMALL_SIZE else 5
    for hop in range(1, len(block.rows)):
        if hop % every == 0 or hop == 1:
            write(axes, right, (y[hop] + y[hop + 1]) / 2, f"hop {hop}", align="right")


def _short(name: str) -> str:
    line = " ".join(visible(name).split())
    return line if len(line) <= 24 else line[:23] + "\u2026"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
