"""Heat maps of attention in a file: a page, or a PNG picture with tokens as columns and hops as rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sentattn.errors import Fault, UserError, suggestion
from sentattn.prediction.prediction import UNREAD, Prediction, color_limit, pieces, unknown_note, visible
from sentattn.rendering import pair_maps
from sentattn.rendering.canvas import (
    GREY,
    POINTS,
    SCALE_SPACE,
    SMALL_SIZE,
    ColorScale,
    canvas,
    cut,
    missing_scripts,
    quiet,
    to_png,
    width_of,
    write,
)
from sentattn.rendering.html import page
from sentattn.run import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".png", ".html")
# All lengths in inches, sizes of fonts in points.
WIDTH, NARROWEST, TALLEST, TALLEST_MAPS = 10.0, 5.5, 40.0, 14.0
MARGIN, GUTTER, PADDING = 0.15, 0.5, 0.05
TITLE, NOTE, BETWEEN_LINES, BETWEEN_TEXTS = 0.5, 0.17, 0.13, 0.25
WORD_ROW, HOP_ROW, THINNEST_HOP_ROW, HOP_ROWS = 0.27, 0.16, 0.07, 1.6
WORD_SIZE, LABEL_SIZE = 9.5, 11.0
MAX_CLASSES = 4


def save(predictions: Sequence[Prediction], path: Path) -> str:
    """Draws one or more predictions into a file, atomically.

    A `.png` has a row for each hop and a column for each token, wrapped to lines, and a square map for each head where
    there are pairs; a `.html` page is one file and switches between hops and between heads.

    Returns:
        A note on what a picture cannot show; an empty string if it shows everything.

    Raises:
        UserError: If the ending is another one or the file cannot be written.
    """
    require_format(path)
    is_png = path.suffix.lower() == ".png"
    try:
        with replacing(path) as temporary:
            temporary.touch()  # an unwritable folder is reported before the work, not after it
            temporary.write_bytes(picture(predictions) if is_png else page(predictions).encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if not path.parent.is_dir():
            reason = f"there is no folder {path.parent}; make it, or name another"
        raise UserError(Fault("plot", "unwritable", f"The picture {path} cannot be written: {reason}.")) from error
    return font_note(predictions) if is_png else ""


def require_format(path: Path) -> None:
    """Refuses a file that is neither `.png` nor `.html`.

    Raises:
        UserError: With the closest ending.
    """
    if (ending := path.suffix.lower()) not in ENDINGS:
        close = suggestion(ending, ENDINGS) if ending else ""
        message = f"plot={path} must end in {' or '.join(ENDINGS)}.{close}"
        raise UserError(Fault("plot", "unsupported", message))


class Column(NamedTuple):
    """A column of a heat map: the word in it, its width, and its token, or None for a stretch that was not read."""

    text: str
    width: float
    token: int | None


@dataclass
class Block:
    """A text to draw: notes, lines of columns with a row for each hop below the mean, and maps of its pairs.

    `left_out` is the number of tokens that do not fit into the picture.
    """

    prediction: Prediction
    rows: list[list[float]]
    lines: list[list[Column]]
    notes: list[str]
    maps: pair_maps.PairMaps | None = None
    left_out: int = 0

    def __post_init__(self) -> None:
        # Many hops share a fixed height; a single row has no name.
        self.hop_row = min(HOP_ROW, max(THINNEST_HOP_ROW, HOP_ROWS / len(self.rows)))
        self.left = MARGIN + (GUTTER if len(self.rows) > 1 else 0.0)
        self.line_height = WORD_ROW + (len(self.rows) - 1) * self.hop_row + BETWEEN_LINES
        self.head = TITLE + NOTE * len(self.notes)
        self.maps_height = BETWEEN_TEXTS + self.maps.height if self.maps else 0.0

    @property
    def height(self) -> float:
        """Height of the whole block."""
        note = 2 * BETWEEN_LINES if self.left_out else 0.0
        return self.head + len(self.lines) * self.line_height - BETWEEN_LINES + note + self.maps_height


def picture(predictions: Sequence[Prediction]) -> bytes:
    """Returns the heat maps of texts, one below the other, as the bytes of a PNG file.

    The words are on the mean over the hops; below them each hop has a row. Words that are not in the vocabulary are
    underlined. Token-to-token weights follow as square maps. Each text has a color scale from 0 to the 98 % quantile
    of its weights, and one for its maps. The picture is at most `TALLEST` inches high; it counts what does not fit.
    """
    with quiet():
        blocks, texts_left_out = _bounded([_block(prediction) for prediction in predictions])
        gaps = len(blocks) if texts_left_out else len(blocks) - 1
        width = max(NARROWEST, 2 * MARGIN + max(width for block in blocks for width in _widths(block)))
        height = sum(block.height for block in blocks) + gaps * BETWEEN_TEXTS + 2 * MARGIN
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
    texts = {text for prediction in predictions for text in [*prediction.tokens, *prediction.probabilities]}
    scripts = missing_scripts(map(visible, texts))
    return f"no installed font has {', '.join(scripts)}: drawn as boxes; .html shows them" if scripts else ""


def columns(prediction: Prediction, *, widest: float) -> Iterator[Column]:
    """Yields the columns of a text; words wider than `widest` are cut."""
    for piece in pieces(prediction.text, prediction.spans):
        if piece.token is not None or piece.unread:
            text = cut(UNREAD.strip() if piece.unread else piece.text, widest - 2 * PADDING, WORD_SIZE)
            yield Column(text, width_of(text, WORD_SIZE) + 2 * PADDING, piece.token)


def lines(items: Iterable[Column], width: float) -> Iterator[list[Column]]:
    """Yields columns in lines of at most `width`."""
    line: list[Column] = []
    for column in items:
        if line and sum(other.width for other in line) + column.width > width:
            yield line
            line = []
        line.append(column)
    if line:
        yield line


def _block(prediction: Prediction) -> Block:
    width = WIDTH - 2 * MARGIN - GUTTER
    notes = [note for note in (unknown_note(prediction), font_note([prediction])) if note]
    return Block(
        prediction,
        rows=list(prediction.rows.values()),
        lines=list(lines(columns(prediction, widest=width / 2), width)),
        notes=[cut(note, width, SMALL_SIZE) for note in notes],
        maps=pair_maps.lay_out(prediction, width=WIDTH - 2 * MARGIN, height=min(TALLEST_MAPS, TALLEST / 2)),
    )


def _bounded(blocks: list[Block]) -> tuple[list[Block], int]:
    """Returns the blocks that fit, the last one shortened, and the number of those left out."""
    height = TALLEST - 2 * MARGIN
    for i, block in enumerate(blocks):
        if block.height + BETWEEN_TEXTS <= height:
            height -= block.height + BETWEEN_TEXTS
            continue
        space = height - block.maps_height - block.head - BETWEEN_LINES - BETWEEN_TEXTS
        fitting = math.floor(space / block.line_height)
        if fitting < 1 and i:
            return blocks[:i], len(blocks) - i
        dropped = block.lines[max(1, fitting) :]
        block.left_out = sum(column.token is not None for line in dropped for column in line)
        del block.lines[max(1, fitting) :]
        return blocks[: i + 1], len(blocks) - i - 1
    return blocks, 0


def _widths(block: Block) -> Iterator[float]:
    """Yields the widths of all parts of a block."""
    label = width_of(f"{_short(block.prediction.name)}  100.0 %", LABEL_SIZE, "bold")
    yield max(label, width_of(_other_classes(block.prediction))) + SCALE_SPACE
    yield from map(width_of, block.notes)
    yield from (block.left - MARGIN + sum(column.width for column in line) for line in block.lines)
    if block.maps:
        yield block.maps.width


def _draw(axes: Axes, block: Block, top: float, right: float) -> None:
    limit = max(color_limit(row) for row in block.rows)
    scale = ColorScale(limit, max(max(row, default=0.0) for row in block.rows))
    scale.draw(axes, right, top + 0.02)
    name, share = _short(block.prediction.name), _percent(block.prediction.share)
    write(axes, MARGIN, top + 0.08, name, size=LABEL_SIZE, weight="bold", color="black")
    left = MARGIN + width_of(name, LABEL_SIZE, "bold") + 0.12
    write(axes, left, top + 0.08, share, size=LABEL_SIZE, color="black")
    write(axes, MARGIN, top + 0.27, _other_classes(block.prediction))
    for number, note in enumerate(block.notes):
        write(axes, MARGIN, top + TITLE - 0.06 + NOTE * number, note)
    end, top = top + block.height, top + block.head
    for line in block.lines:
        _draw_line(axes, block, line, scale, top)
        top += block.line_height
    if block.left_out:
        write(axes, block.left, top, f"{block.left_out} more tokens are not drawn; .html shows all")
    if block.maps:
        pair_maps.draw(axes, block.maps, MARGIN, end - block.maps.height, right=right)


def _other_classes(prediction: Prediction) -> str:
    """Returns the probabilities of the other classes in their order; of many, the most likely ones."""
    others = {name: share for name, share in prediction.probabilities.items() if name != prediction.label}
    likely = sorted(others, key=lambda name: -others[name])[:MAX_CLASSES]
    return "   ".join(f"{_short(name)} {_percent(others[name])}" for name in others if name in likely)


def _draw_line(axes: Axes, block: Block, line: list[Column], scale: ColorScale, top: float) -> None:
    x = [block.left, *(block.left + used for used in itertools.accumulate(column.width for column in line))]
    y = [top, *(top + WORD_ROW + r * block.hop_row for r in range(len(block.rows)))]
    empty = float("nan")
    weights = [[empty if column.token is None else row[column.token] for column in line] for row in block.rows]
    scale.draw_cells(axes, x, y, weights)
    for (text, width, token), mean, start in zip(line, weights[0], x[:-1], strict=True):
        color = GREY if token is None else scale.text_color(mean)
        write(axes, start + width / 2, top + WORD_ROW / 2, text, size=WORD_SIZE, color=color, align="center")
        if token in block.prediction.unknown:
            ends, height = [start + PADDING, start + width - PADDING], top + 0.85 * WORD_ROW
            axes.plot(ends, [height, height], color=color, linewidth=0.8, linestyle=(0, (2, 1.5)))
    if len(block.rows) > 1:
        write(axes, block.left - 0.06, (y[0] + y[1]) / 2, "mean", align="right")
    every = 1 if block.hop_row * POINTS >= SMALL_SIZE else 5  # rows that are too thin for a name each
    for hop in range(1, len(block.rows)):
        if hop % every == 0 or hop == 1:
            write(axes, block.left - 0.06, (y[hop] + y[hop + 1]) / 2, f"hop {hop}", align="right")


def _short(name: str) -> str:
    line = " ".join(visible(name).split())
    return line if len(line) <= 24 else line[:23] + "\u2026"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
