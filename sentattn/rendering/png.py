"""Heat maps of attention as a picture (PNG, PDF or SVG): words are columns, hops are rows.

The font is that of matplotlib's own settings (`font.family` in a `matplotlibrc`).
"""

from __future__ import annotations

import functools
import io
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sentattn.errors import visible
from sentattn.prediction.prediction import (
    NGRAMS,
    UNREAD,
    Prediction,
    clipped,
    color_limit,
    limit_text,
    notes,
    pieces,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

# Lengths in inches, sizes of fonts in points.
DPI, POINTS = 150, 72
WIDTH, MARGIN, GUTTER, PADDING, GAP = 10.0, 0.15, 0.5, 0.05, 0.3
TALLEST = 40.0  # no line of a text is drawn below this height
TITLE, LINE, WORD_ROW, HOP_ROW, HOP_ROWS = 0.3, 0.17, 0.27, 0.16, 1.6
SMALL_SIZE, WORD_SIZE, TITLE_SIZE = 7.5, 9.5, 11.0
LETTERS, MAX_CLASSES = 100, 4  # of a line of notes, and next to a label

GREY, FRAME = "#666666", "#d9d9d9"
# Steep at its beginning: in a long text most weights are small compared with the largest.
COLORS = ((0.0, "#ffffff"), (0.1, "#ffe3bf"), (0.3, "#ffb561"), (0.65, "#f07d0a"), (1.0, "#a94400"))
DARK = 0.85  # share of the darkest color from which on letters are white


def picture(predictions: Sequence[Prediction], form: str = "png") -> bytes:
    """Returns the heat maps of texts, one below the other, as the bytes of a `png`, `pdf` or `svg` file."""
    return to_bytes(functools.partial(draw, predictions), form)


def to_bytes(drawing: Callable[[], Figure], form: str, dpi: int = DPI) -> bytes:
    """Draws the bytes of a file; a PDF has TrueType fonts, since publishers refuse those of type 3."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context({"pdf.fonttype": 42}):
        warnings.filterwarnings("ignore", message="Glyph")  # a page shows the characters that no font has
        drawing().savefig(buffer, format=form, dpi=dpi)
    return buffer.getvalue()


def draw(predictions: Sequence[Prediction]) -> Figure:
    """Draws the heat maps of texts: words on the mean over the hops, and a row for each hop.

    What does not fit is left out, and a note says so.
    """
    from matplotlib.figure import Figure

    figure = Figure(dpi=DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    y = MARGIN
    for prediction in map(Prediction.in_words, predictions):
        y, is_whole = _draw_text(axes, prediction, y)
        y += GAP
        if not is_whole:
            y = _write_note(axes, "the rest is not drawn; .html shows all", y)
            break
    figure.set_size_inches(WIDTH, y)
    axes.set(xlim=(0, WIDTH), ylim=(y, 0))
    return figure


def _font(size: float, weight: str = "normal") -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size, weight=weight)


@functools.cache
def _renderer() -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas: Any = FigureCanvasAgg(Figure(dpi=DPI))
    return canvas.get_renderer()


def _width(text: str) -> float:
    """Returns the width of a word with its padding."""
    pixels: float = _renderer().get_text_width_height_descent(text, _font(WORD_SIZE), False)[0]
    return pixels / DPI + 2 * PADDING


def _write(axes: Axes, x: float, y: float, text: str, size: float = SMALL_SIZE, **others: Any) -> None:
    """Writes a text whose letters are centered on `y`; words with and without descenders share a baseline."""
    look = {"color": GREY, "parse_math": False, "fontproperties": _font(size), **others}
    axes.text(x, y + 0.35 * size / POINTS, text, **look)


def _write_note(axes: Axes, note: str, top: float) -> float:
    """Writes a note below `top`; returns where it ends."""
    for line in textwrap.wrap(note, LETTERS):
        _write(axes, MARGIN, top + LINE / 2, line)
        top += LINE
    return top


def _draw_text(axes: Axes, prediction: Prediction, top: float) -> tuple[float, bool]:
    """Draws a text below `top`: its label, notes, and lines of words with a row for each hop.

    Returns where it ends, and whether all of it was drawn; where no words would fit, nothing is.
    """
    rows = {name: row if any(prediction.shades(row)) else [0.0] * len(row) for name, row in prediction.rows.items()}
    limit, largest = max(map(color_limit, rows.values())), max(max(row, default=0.0) for row in rows.values())
    scale = f"white: weight 0, darkest: {limit_text(limit, largest)}"
    if not any(map(any, rows.values())):  # white, as what a model without attention reads
        scale = "all words have the same weight"
    above = [line for note in (_others(prediction), scale, *notes(prediction)) for line in textwrap.wrap(note, LETTERS)]
    if top + TITLE + LINE * len(above) + 0.1 > TALLEST:
        return top, False
    title = f"{_short(prediction.name)}  {_percent(prediction.share)}"
    look = {"color": "black", "fontproperties": _font(TITLE_SIZE, "bold")}
    _write(axes, MARGIN, top + LINE / 2, title, TITLE_SIZE, **look)
    top += TITLE
    for line in above:
        top = _write_note(axes, line, top)
    top += 0.1
    for words in _lines(prediction):
        if top > TALLEST:
            return top, False
        top = _draw_line(axes, words, rows, top, limit=limit)
    return top, True


def _lines(prediction: Prediction) -> Iterator[list[tuple[str, int | None]]]:
    """Yields the words of a text with their tokens, in lines that fit into the width, from left to right."""
    step = -1 if _is_right_to_left(prediction.text) else 1
    line: list[tuple[str, int | None]] = []
    width = 0.0
    for piece in pieces(prediction.text, prediction.spans):
        if piece.token is None and not piece.unread:
            continue
        word = UNREAD.strip() if piece.unread else clipped(piece.text)
        width += _width(word)
        if line and width > WIDTH - GUTTER - 2 * MARGIN:
            yield line[::step]
            line, width = [], _width(word)
        line.append((word, piece.token))
    if line:
        yield line[::step]


def _draw_line(
    axes: Axes,
    line: Sequence[tuple[str, int | None]],
    rows: Mapping[str, Sequence[float]],
    top: float,
    *,
    limit: float,
) -> float:
    """Draws a line of words and a row for each hop, in the full color from a limit on; returns where it ends."""
    hop_row = min(HOP_ROW, max(0.07, HOP_ROWS / len(rows)))  # many hops share a fixed height
    left = MARGIN + (GUTTER if len(rows) > 1 else 0.0)
    x = np.cumsum([left, *(_width(word) for word, _ in line)])
    y = top + np.cumsum([0, WORD_ROW, *[hop_row] * (len(rows) - 1)])
    weights = [[np.nan if token is None else row[token] for _, token in line] for row in rows.values()]
    axes.pcolormesh(x, y, weights, cmap=_colors(), vmin=0, vmax=limit, edgecolors=FRAME, lw=0.4, clip_on=False)
    for (word, token), start, end, weight in zip(line, x, x[1:], weights[0], strict=False):
        color = GREY if token is None else "white" if weight > DARK * limit else "black"
        _write(axes, (start + end) / 2, top + WORD_ROW / 2, word, WORD_SIZE, color=color, ha="center")
    if len(rows) > 1:  # a single row has no name
        every = 1 if hop_row * POINTS >= SMALL_SIZE else 5
        names = [name if hop % every == 0 or hop == 1 or name == NGRAMS else "" for hop, name in enumerate(rows)]
        for name, upper, lower in zip(names, y, y[1:], strict=False):
            _write(axes, left - 0.06, (upper + lower) / 2, name, ha="right")
    return float(y[-1]) + 0.13


@functools.cache
def _colors() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", COLORS)


def _is_right_to_left(text: str) -> bool:
    """Whether the first letter of a text belongs to a script such as Hebrew or Arabic, as `dir=auto` of a page asks."""
    strong = (direction for letter in text if (direction := unicodedata.bidirectional(letter)) in ("L", "R", "AL"))
    return next(strong, "L") != "L"


def _others(prediction: Prediction) -> str:
    """Returns the next most probable classes."""
    others = prediction.ranked(MAX_CLASSES + 1)[1:]
    return "   ".join(f"{_short(name)} {_percent(share)}" for name, share in others)


def _short(name: str, most: int = 24) -> str:
    line = " ".join(visible(name[: 2 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
