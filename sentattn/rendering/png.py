"""Heat maps of attention as a picture (PNG, PDF or SVG): tokens are columns, hops are rows, pairs are square maps."""

from __future__ import annotations

import functools
import io
import math
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sentattn.metrics import Floats
from sentattn.prediction.prediction import (
    QUANTILE,
    UNREAD,
    Prediction,
    clipped,
    color_limit,
    head_names,
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
TALLEST = 40.0  # no text begins, and no line of a text is drawn, below this height
LINE, WORD_ROW, HOP_ROW, HOP_ROWS = 0.17, 0.27, 0.16, 1.6
SMALL_SIZE, WORD_SIZE, TITLE_SIZE = 7.5, 9.5, 11.0
SCALE_LEFT, SCALE_WIDTH, SCALE_HEIGHT = 3.2, 1.8, 0.1
LETTERS, MAX_CLASSES = 130, 4  # of a line of notes, and next to a label
MAX_TOKENS, MAX_HEADS, MAX_COLUMNS = 60, 24, 4
SMALLEST_CELL, LARGEST_CELL, NUMBERED_CELL, SMALLEST_NUMBER = 0.1, 0.34, 0.25, 0.005
MAX_LETTERS, LABELS, SMALLEST_SIZE = 12, 0.65, 6.0  # of a word next to a map, the space for it, and its size

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
        warnings.filterwarnings("ignore", message="Glyph")  # `font_note` reports missing glyphs
        drawing().savefig(buffer, format=form, dpi=dpi)
    return buffer.getvalue()


def draw(predictions: Sequence[Prediction]) -> Figure:
    """Draws the heat maps of texts: words on the mean over the hops, a row for each hop, and square maps of pairs.

    Words that are not in the vocabulary are underlined. Notes count the texts, tokens and heads that do not fit.
    """
    page = _Page()
    for number, prediction in enumerate(map(Prediction.in_words, predictions)):
        if number and page.top > TALLEST:
            page.write_note(f"{len(predictions) - number} more texts are not drawn; .html shows all")
            break
        page.draw_text(prediction)
        if prediction.pairs is not None:
            page.draw_maps(prediction)
        page.top += GAP
    return page.finish()


def font_note(predictions: Sequence[Prediction]) -> str:
    """Returns which scripts no installed font has, such as `DEVANAGARI`; an empty string if none is missing."""
    texts = [text for prediction in predictions for text in [*prediction.tokens, *prediction.probabilities]]
    scripts = set()
    for character in set().union(*map(visible, texts)):
        if ord(character) not in _drawable() and unicodedata.category(character)[0] in "LNS":
            script = unicodedata.name(character, "other").split()[0]
            scripts.add("symbols" if unicodedata.category(character)[0] == "S" else script)
    return f"no installed font has {', '.join(sorted(scripts))}; .html shows all characters" if scripts else ""


@functools.cache
def families() -> list[str]:
    """Returns the fonts that are tried for a character, in this order."""
    from matplotlib.font_manager import fontManager

    installed = fontManager.get_font_names()
    return [FONT, *(name for name in FALLBACKS if name in installed)]


@functools.cache
def _drawable() -> frozenset[int]:
    """Returns the code points for which an installed font has a glyph."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(code for name in families() for code in get_font(findfont(name)).get_charmap())


def _font(size: float, weight: str = "normal") -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=families(), size=size, weight=weight)


class Word(NamedTuple):
    """A word of a line with its width, and its token; None for a stretch that was not read."""

    text: str
    width: float
    token: int | None


class _Page:
    """A figure that grows downwards, in inches; y is 0 at its top and negative below."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure(dpi=DPI, facecolor="white")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.axis("off")
        self.top, self.right = MARGIN, MARGIN
        canvas: Any = FigureCanvasAgg(self.figure)
        self._renderer = canvas.get_renderer()

    def finish(self) -> Figure:
        """Returns the figure, in the size of its content."""
        width, height = self.right + MARGIN, self.top - GAP + MARGIN
        self.figure.set_size_inches(width, height)
        self.axes.set(xlim=(0, width), ylim=(-height, 0))
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
            self.right = max(self.right, MARGIN + self.width(line, SMALL_SIZE))
            self.top += LINE

    def write_head(self, title: str, share: str, note: str, limit: float, largest: float) -> None:
        """Writes a title, with a note below it and a color scale from 0 to `limit` on its right."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        y, left = self.top + LINE / 2, MARGIN + self.width(title, TITLE_SIZE, "bold") + 0.12
        self.write(MARGIN, y, title, TITLE_SIZE, color="black", weight="bold")
        self.write(left, y, share, TITLE_SIZE, color="black")
        self.write(MARGIN, y + 0.2, note)
        ends = left + self.width(share, TITLE_SIZE), MARGIN + self.width(note, SMALL_SIZE)
        x = max(SCALE_LEFT, *(end + GAP for end in ends))

        is_cut = largest > limit
        scale = ScalarMappable(Normalize(0, limit), _colors())
        box = self._inset(x, self.top, SCALE_WIDTH, SCALE_HEIGHT)
        bar = self.figure.colorbar(scale, cax=box, orientation="horizontal", ticks=[0, limit / 2, limit])
        bar.outline.set(edgecolor=FRAME, linewidth=0.6)
        labels = ["0", f"{limit / 2:.2g}", f"\u2265 {limit:.2g}" if is_cut else f"{limit:.2g}"]
        box.set_xticklabels(labels, fontproperties=_font(SMALL_SIZE), color=GREY)
        box.tick_params(length=0, pad=2)
        legend = "weight"
        if is_cut:
            legend += f"; darkest from the {100 * QUANTILE:.0f} % quantile, largest {largest:.2g}"
        self.write(x + SCALE_WIDTH + 0.12, self.top + SCALE_HEIGHT / 2, legend)
        self.right = max(self.right, x + SCALE_WIDTH + 0.12 + self.width(legend, SMALL_SIZE))
        self.top += 0.4

    def draw_text(self, prediction: Prediction) -> None:
        """Draws a text: its label, notes, and lines of words with a row for each hop."""
        rows = list(prediction.rows.values())
        limit, largest = max(map(color_limit, rows)), max((max(row, default=0.0) for row in rows), default=0.0)
        name, share = _short(prediction.name), _percent(prediction.share)
        self.write_head(name, share, _others(prediction), limit, largest)
        for note in filter(None, [*notes(prediction), font_note([prediction])]):
            self.write_note(note)
        self.top += 0.1
        # Many hops share a fixed height.
        hop_row = min(HOP_ROW, max(0.07, HOP_ROWS / len(rows)))
        lines = list(self._lines(prediction))
        for number, line in enumerate(lines):
            if number and self.top > TALLEST:
                count = sum(word.token is not None for rest in lines[number:] for word in rest)
                self.write_note(f"{count} more tokens are not drawn; .html shows all")
                break
            self._draw_line(line, rows, hop_row, limit, prediction.unknown)

    def _lines(self, prediction: Prediction) -> Iterator[list[Word]]:
        """Yields the words of a text in lines that fit into the width."""
        line: list[Word] = []
        for piece in pieces(prediction.text, prediction.spans):
            if piece.token is None and not piece.unread:
                continue
            text = UNREAD.strip() if piece.unread else clipped(piece.text)
            word = Word(text, self.width(text, WORD_SIZE) + 2 * PADDING, piece.token)
            if line and sum(other.width for other in line) + word.width > WIDTH - GUTTER - 2 * MARGIN:
                yield line
                line = []
            line.append(word)
        if line:
            yield line

    def _draw_line(
        self, line: list[Word], rows: list[list[float]], hop_row: float, limit: float, unknown: Sequence[int]
    ) -> None:
        left = MARGIN + (GUTTER if len(rows) > 1 else 0.0)
        x = np.cumsum([left, *(word.width for word in line)])
        y = self.top + np.cumsum([0, WORD_ROW, *[hop_row] * (len(rows) - 1)])
        weights = [[np.nan if word.token is None else row[word.token] for word in line] for row in rows]
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
            names = ["mean", *(f"hop {hop}" if hop % every == 0 or hop == 1 else "" for hop in range(1, len(rows)))]
            for name, upper, lower in zip(names, y, y[1:], strict=False):
                self.write(left - 0.06, (upper + lower) / 2, name, ha="right")
        self.right = max(self.right, x[-1])
        self.top = y[-1] + 0.13

    def draw_maps(self, prediction: Prediction) -> None:
        """Draws a map of each head, queries by keys; of a long text the tokens with the most attention overall."""
        weights_HLL = np.array(prediction.pairs)
        heads, length = weights_HLL.shape[:2]
        columns = min(MAX_COLUMNS, math.ceil(math.sqrt(heads)))
        space = (WIDTH - 2 * MARGIN + GAP) / columns - GAP
        count = min(length, MAX_TOKENS, int((space - LABELS) / SMALLEST_CELL))
        tokens = np.sort(np.argsort(-weights_HLL.sum(axis=(0, 1)), kind="stable")[:count])
        words = [_short(prediction.tokens[token], MAX_LETTERS) for token in tokens]
        size = min(WORD_SIZE, max(SMALLEST_SIZE, 0.85 * POINTS * (space - LABELS) / count))
        labels = max(self.width(word, size) for word in words) + 0.06
        side = min(LARGEST_CELL * count, space - labels)
        above = labels + (0.3 if heads > 1 else 0.1)
        # Up to the largest weight, but at least twice an even share: even weights stay pale.
        limit = max(float(weights_HLL.max()), min(1.0, 2 / length))

        self.top += GAP / 2
        self.write_head("pairs", "", "row: the token that attends    column: the token attended to", limit, limit)
        if length > count:
            rest = f"{length - count} of {length} tokens, those with the least attention, are not drawn"
            self.write_note(f"{rest}; .html shows all")
        if heads > MAX_HEADS:
            self.write_note(f"{heads - MAX_HEADS} more heads are not drawn; .html shows all")
        self.top += 0.1
        for head, name in enumerate(head_names(heads)[:MAX_HEADS]):
            row, column = divmod(head, columns)
            x, y = MARGIN + labels + column * (side + labels + GAP), self.top + above + row * (side + above + GAP)
            self.write(x, y - above + 0.12, name, 9.0, color="black", weight="bold")
            weights_KK = weights_HLL[head][np.ix_(tokens, tokens)]
            axes = self._inset(x, y, side, side)
            _draw_map(axes, weights_KK, words, size, limit, is_numbered=side / count >= NUMBERED_CELL)
            self.right = max(self.right, x + side)
        self.top = y + side

    def _inset(self, x: float, y: float, width: float, height: float) -> Axes:
        """Returns axes on a part of the page, from its upper left corner."""
        return self.axes.inset_axes((x, -y - height, width, height), transform=self.axes.transData)


def _draw_map(
    axes: Axes, weights_KK: Floats, words: list[str], size: float, limit: float, *, is_numbered: bool
) -> None:
    edges, middles = np.arange(len(words) + 1.0), np.arange(len(words)) + 0.5
    _draw_cells(axes, edges, edges, weights_KK, limit)
    axes.invert_yaxis()
    axes.set_frame_on(False)
    look: dict[str, Any] = {"fontproperties": _font(size), "parse_math": False}
    axes.set_xticks(middles, words, rotation=90, **look)
    axes.set_yticks(middles, words, **look)
    axes.tick_params(length=0, pad=3, top=True, labeltop=True, labelbottom=False)
    for t, s in np.argwhere(weights_KK >= SMALLEST_NUMBER) if is_numbered else ():
        number, color = f"{weights_KK[t, s]:.2f}".removeprefix("0"), _text_color(weights_KK[t, s] / limit)
        axes.text(s + 0.5, t + 0.5, number, size=7, color=color, ha="center", va="center_baseline")


def _draw_cells(axes: Axes, x: Floats, y: Floats, weights: ArrayLike, limit: float) -> None:
    """Draws rows of framed cells between the edges `x` and `y`; a NaN stays empty."""
    axes.pcolormesh(x, y, weights, cmap=_colors(), vmin=0, vmax=limit, edgecolors=FRAME, lw=0.4, clip_on=False)


@functools.cache
def _colors() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", COLORS)


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
