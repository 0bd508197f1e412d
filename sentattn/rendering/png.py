"""Heat maps of attention as a picture (PNG, PDF or SVG): words are columns, hops are rows."""

from __future__ import annotations

import functools
import io
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sentattn.metrics import Floats
from sentattn.prediction.prediction import (
    NGRAMS,
    QUANTILE,
    UNREAD,
    Prediction,
    clipped,
    color_limit,
    notes,
    pieces,
    visible,
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
LINE, WORD_ROW, HOP_ROW, HOP_ROWS = 0.17, 0.27, 0.16, 1.6
SMALL_SIZE, WORD_SIZE, TITLE_SIZE = 7.5, 9.5, 11.0
SCALE_LEFT, SCALE_WIDTH, SCALE_HEIGHT = 5.1, 1.8, 0.1
LETTERS, MAX_CLASSES = 100, 4  # of a line of notes, and next to a label

GREY, FRAME = "#666666", "#d9d9d9"
# Steep at its beginning: in a long text most weights are small compared with the largest.
COLORS = ((0.0, "#ffffff"), (0.1, "#ffe3bf"), (0.3, "#ffb561"), (0.65, "#f07d0a"), (1.0, "#a94400"))
FONT = "DejaVu Sans"  # matplotlib's own
# For characters that it lacks, where they are installed.
FALLBACKS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari",
    "Segoe UI Symbol", "Noto Emoji", "Symbola",
)  # fmt: skip


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

    Words that are not in the vocabulary are underlined. What does not fit is left out, and a note says so.
    """
    page = _Page()
    for prediction in map(Prediction.in_words, predictions):
        if not page.draw_text(prediction):
            page.write_note("the rest is not drawn; .html shows all")
            break
        page.top += GAP
    return page.finish()


@functools.cache
def families() -> list[str]:
    """Returns the fonts that are tried for a character, in this order."""
    from matplotlib.font_manager import fontManager

    installed = fontManager.get_font_names()
    return [FONT, *(name for name in FALLBACKS if name in installed)]


def _font(size: float, weight: str = "normal") -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=families(), size=size, weight=weight)


class Word(NamedTuple):
    """A word of a line with its width, and its token; None for a stretch that was not read."""

    text: str
    width: float
    token: int | None


class _Page:
    """A figure that is filled from its top, in inches; y is 0 there and negative below."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure(dpi=DPI, facecolor="white")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.axis("off")
        self.top = MARGIN
        canvas: Any = FigureCanvasAgg(self.figure)
        self._renderer = canvas.get_renderer()

    def finish(self) -> Figure:
        """Returns the figure, in the size of its content."""
        height = self.top + MARGIN
        self.figure.set_size_inches(WIDTH, height)
        self.axes.set(xlim=(0, WIDTH), ylim=(-height, 0))
        return self.figure

    def width(self, text: str, size: float, weight: str = "normal") -> float:
        """Returns the width of a text."""
        pixels: float = self._renderer.get_text_width_height_descent(text, _font(size, weight), False)[0]
        return pixels / DPI

    def write(self, x: float, y: float, text: str, size: float = SMALL_SIZE, **others: Any) -> None:
        """Writes a text whose letters are centered on `y` from the top."""
        # Not centered on the box of the text: words with and without descenders share a baseline.
        look = {"color": GREY, "parse_math": False, **others}
        self.axes.text(x, -y - 0.35 * size / POINTS, text, fontproperties=_font(size), **look)

    def write_note(self, note: str) -> None:
        """Writes a note below the content."""
        for line in textwrap.wrap(note, LETTERS):
            self.write(MARGIN, self.top + LINE / 2, line)
            self.top += LINE

    def draw_text(self, prediction: Prediction) -> bool:
        """Draws a text: its label, notes, and lines of words with a row for each hop; returns whether all fits."""
        rows = [row if any(prediction.shades(row)) else [0.0] * len(row) for row in prediction.rows.values()]
        limit, largest = max(map(color_limit, rows)), max((max(row, default=0.0) for row in rows), default=0.0)
        title, y = _short(prediction.name), self.top + LINE / 2
        self.write(MARGIN, y, title, TITLE_SIZE, color="black", weight="bold")
        left = MARGIN + self.width(title, TITLE_SIZE, "bold") + 0.12
        self.write(left, y, _percent(prediction.share), TITLE_SIZE, color="black")
        if any(map(any, rows)):
            self._draw_scale(limit, largest)
        else:  # white, as what a model without attention reads
            self.write(SCALE_LEFT, self.top + SCALE_HEIGHT / 2, "all words have the same weight")
        self.top += 0.3
        for note in [_others(prediction), *notes(prediction)]:
            self.write_note(note)
        self.top += 0.1
        # Many hops share a fixed height.
        hop_row = min(HOP_ROW, max(0.07, HOP_ROWS / len(rows)))
        for line in self._lines(prediction):
            if self.top > TALLEST:
                return False
            self._draw_line(line, dict(zip(prediction.rows, rows, strict=True)), hop_row, limit, prediction.unknown)
        return True

    def _draw_scale(self, limit: float, largest: float) -> None:
        """Draws a color scale from 0 to `limit`."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        is_cut = largest > limit
        box = self.axes.inset_axes(
            (SCALE_LEFT, -self.top - SCALE_HEIGHT, SCALE_WIDTH, SCALE_HEIGHT), transform=self.axes.transData
        )
        scale = ScalarMappable(Normalize(0, limit), _colors())
        bar = self.figure.colorbar(scale, cax=box, orientation="horizontal", ticks=[0, limit / 2, limit])
        bar.outline.set(edgecolor=FRAME, linewidth=0.6)
        labels = ["0", f"{limit / 2:.2g}", f"\u2265 {limit:.2g}" if is_cut else f"{limit:.2g}"]
        box.set_xticklabels(labels, fontproperties=_font(SMALL_SIZE), color=GREY)
        box.tick_params(length=0, pad=2)
        legend = "weight"
        if is_cut:
            legend += f"; darkest from the {100 * QUANTILE:.0f} % quantile, largest {largest:.2g}"
        self.write(SCALE_LEFT + SCALE_WIDTH + 0.12, self.top + SCALE_HEIGHT / 2, legend)

    def _lines(self, prediction: Prediction) -> Iterator[list[Word]]:
        """Yields the words of a text in lines that fit into the width, from left to right as they are drawn."""
        step = -1 if _is_right_to_left(prediction.text) else 1
        line: list[Word] = []
        for piece in pieces(prediction.text, prediction.spans):
            if piece.token is None and not piece.unread:
                continue
            text = UNREAD.strip() if piece.unread else clipped(piece.text)
            word = Word(text, self.width(text, WORD_SIZE) + 2 * PADDING, piece.token)
            if line and sum(other.width for other in line) + word.width > WIDTH - GUTTER - 2 * MARGIN:
                yield line[::step]
                line = []
            line.append(word)
        if line:
            yield line[::step]

    def _draw_line(
        self, line: list[Word], rows: Mapping[str, list[float]], hop_row: float, limit: float, unknown: Sequence[int]
    ) -> None:
        left = MARGIN + (GUTTER if len(rows) > 1 else 0.0)
        x = np.cumsum([left, *(word.width for word in line)])
        y = self.top + np.cumsum([0, WORD_ROW, *[hop_row] * (len(rows) - 1)])
        weights = [[np.nan if word.token is None else row[word.token] for word in line] for row in rows.values()]
        _draw_cells(self.axes, x, -y, weights, limit)
        for word, start, weight in zip(line, x, weights[0], strict=False):
            color = GREY if word.token is None else _text_color(weight / limit)
            middle = start + word.width / 2
            self.write(middle, self.top + WORD_ROW / 2, word.text, WORD_SIZE, color=color, ha="center")
            if word.token in unknown:
                ends = [start + PADDING, start + word.width - PADDING]
                self.axes.plot(ends, [-self.top - 0.85 * WORD_ROW] * 2, color=color, lw=0.8, ls=(0, (2, 1.5)))
        if len(rows) > 1:  # a single row has no name
            every = 1 if hop_row * POINTS >= SMALL_SIZE else 5
            names = [name if hop % every == 0 or hop == 1 or name == NGRAMS else "" for hop, name in enumerate(rows)]
            for name, upper, lower in zip(names, y, y[1:], strict=False):
                self.write(left - 0.06, (upper + lower) / 2, name, ha="right")
        self.top = y[-1] + 0.13


def _draw_cells(axes: Axes, x: Floats, y: Floats, weights: ArrayLike, limit: float) -> None:
    """Draws rows of framed cells between the edges `x` and `y`; a NaN stays empty."""
    axes.pcolormesh(x, y, weights, cmap=_colors(), vmin=0, vmax=limit, edgecolors=FRAME, lw=0.4, clip_on=False)


@functools.cache
def _colors() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", COLORS)


def _is_right_to_left(text: str) -> bool:
    """Whether the first letter of a text belongs to a script such as Hebrew or Arabic, as `dir=auto` of a page asks."""
    strong = (direction for letter in text if (direction := unicodedata.bidirectional(letter)) in ("L", "R", "AL"))
    return next(strong, "L") != "L"


def _text_color(strength: float) -> str:
    """Returns the color of letters that is legible on a cell, whose strength is 1 where it is darkest."""
    red, green, blue, _ = _colors()(min(1.0, strength))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.45 else "black"


def _others(prediction: Prediction) -> str:
    """Returns the probabilities of the other classes in their order; of many, the most likely ones."""
    others = {name: share for name, share in prediction.probabilities.items() if name != prediction.label}
    likely = sorted(others, key=lambda name: -others[name])[:MAX_CLASSES]
    return "   ".join(f"{_short(name)} {_percent(others[name])}" for name in others if name in likely)


def _short(name: str, most: int = 24) -> str:
    line = " ".join(visible(name[: 2 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
