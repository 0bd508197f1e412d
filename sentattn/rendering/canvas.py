"""Drawing with matplotlib in inches from the top left corner: fonts, texts and the color scale of weights."""

from __future__ import annotations

import functools
import io
import logging
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from sentattn.prediction.prediction import QUANTILE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

DPI = 150
POINTS = 72  # an inch
SMALL_SIZE = 7.5  # points
GREY = "#666666"
FAMILY = "DejaVu Sans"  # matplotlib's own font
# For characters that it lacks, where one of these is installed.
FALLBACKS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari",
    "Segoe UI Symbol", "Noto Emoji", "Symbola",
)  # fmt: skip
BOX = "\u25a1"  # drawn for a character that no installed font has

# Steep at its beginning: in a long text most weights are small compared with the largest.
COLORS = ((0.0, "#ffffff"), (0.1, "#ffe3bf"), (0.3, "#ffb561"), (0.65, "#f07d0a"), (1.0, "#a94400"))
FRAME = "#d9d9d9"
STEPS = 128
# In inches; SCALE_SPACE is the width of the color scale with its labels and a margin.
SCALE_WIDTH, SCALE_HEIGHT, NUMBERS, SCALE_SPACE = 1.8, 0.1, 0.09, 3.6


def font(size: float, weight: str = "normal") -> FontProperties:
    """Returns matplotlib's own font, with the installed fallbacks for characters that it lacks."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=_families(), size=size, weight=weight)


@functools.cache
def _families() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {entry.name for entry in fontManager.ttflist}
    return [FAMILY, *(name for name in FALLBACKS if name in installed)]


@functools.cache
def _drawable_characters(weight: str) -> frozenset[int]:
    """Returns the code points for which an installed font has a glyph."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    paths = [findfont(FontProperties(family=family, weight=weight)) for family in _families()]
    return frozenset(code for path in paths for code in get_font(path).get_charmap())


def drawable(text: str, weight: str = "normal") -> str:
    """Returns a text with a box for each character that no installed font has."""
    if text.isascii():
        return text
    codes = _drawable_characters(weight)
    return "".join(character if ord(character) in codes else BOX for character in text)


def missing_scripts(texts: Iterable[str]) -> list[str]:
    """Returns the scripts of the characters that no installed font has, such as `Devanagari`, sorted."""
    codes, scripts = _drawable_characters("normal"), set()
    for character in set().union(*texts):
        category = unicodedata.category(character)[0]
        if ord(character) not in codes and category in "LNS":
            script = unicodedata.name(character, "other").split()[0]
            scripts.add("symbols" if category == "S" else script if script == "CJK" else script.capitalize())
    return sorted(scripts)


def width_of(text: str, size: float = SMALL_SIZE, weight: str = "normal") -> float:
    """Returns the width of a text in inches."""
    return _width(drawable(text, weight), size, weight)


@functools.lru_cache(maxsize=10_000)
def _width(text: str, size: float, weight: str) -> float:
    from matplotlib.backends.backend_agg import RendererAgg

    untyped: Any = RendererAgg
    pixels: float = untyped(DPI, DPI, DPI).get_text_width_height_descent(text, font(size, weight), False)[0]
    return pixels / DPI


def cut(text: str, widest: float, size: float) -> str:
    """Returns a text that is no wider than `widest` inches; a wider one is cut and ends in an ellipsis."""
    if width_of(text, size) <= widest:
        return text
    start = text[:500]  # a URL may have thousands of letters; a line holds a few hundred at most
    while start and width_of(start + "\u2026", size) > widest:
        start = start[:-1]
    return start + "\u2026"


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Returns a figure with axes over all of it, in inches, y from the top down."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return figure, axes


def write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float = SMALL_SIZE,
    weight: str = "normal",
    color: str = GREY,
    align: Literal["left", "center", "right"] = "left",
    upwards: bool = False,
) -> None:
    """Writes a text whose letters are centered on `y`, or with `upwards` a vertical text centered on `x`."""
    # Not centered on each text's box: words with and without descenders share one baseline.
    base = 0.35 * size / POINTS
    axes.text(
        x + base * upwards,
        y + base * (not upwards),
        drawable(text, weight),
        fontproperties=font(size, weight),
        color=color,
        ha=align,
        va="baseline",
        rotation=90 if upwards else 0,
        rotation_mode="anchor",
        parse_math=False,
    )


def to_png(figure: Figure) -> bytes:
    """Returns a figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()


@contextmanager
def quiet() -> Iterator[None]:
    """Hides matplotlib's log messages, such as that it builds its font cache."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class ColorScale:
    """Colors of weights: white for 0, the darkest from `limit` on; the legend says so where `largest` is more."""

    def __init__(self, limit: float, largest: float) -> None:
        from matplotlib.colors import LinearSegmentedColormap, Normalize

        self.limit = limit
        self.largest = largest
        self.colors = LinearSegmentedColormap.from_list("attention", COLORS)
        self._norm = Normalize(0, limit)

    def text_color(self, weight: float) -> str:
        """Returns the color of letters that is legible on the cell of a weight."""
        red, green, blue, _ = self.colors(min(1.0, weight / self.limit))
        return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.45 else "black"

    def draw_cells(self, axes: Axes, x: list[float], y: list[float], weights: list[list[float]]) -> None:
        """Draws rows of framed cells between the edges `x` and `y`; a NaN stays empty."""
        axes.pcolormesh(x, y, weights, cmap=self.colors, norm=self._norm, edgecolors=FRAME, linewidth=0.4)

    def draw(self, axes: Axes, right: float, top: float) -> None:
        """Draws the scale with its right end at `right`, its numbers below and its label on the left."""
        left, bottom = right - SCALE_WIDTH, top + SCALE_HEIGHT
        steps = [step / STEPS for step in range(STEPS + 1)]
        x = [left + step * SCALE_WIDTH for step in steps]
        weights = [[step * self.limit for step in steps[:-1]]]
        axes.pcolormesh(x, [top, bottom], weights, cmap=self.colors, norm=self._norm)
        axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], FRAME, lw=0.6)
        write(axes, left - 0.08, top + SCALE_HEIGHT / 2, "weight (a row sums to 1)", align="right")
        if self.largest > self.limit:
            note = f"darkest from the {100 * QUANTILE:.0f} % quantile; largest {self.largest:.2g}"
            write(axes, left - 0.08, bottom + NUMBERS, note, align="right")
        write(axes, left, bottom + NUMBERS, "0")
        write(axes, left + SCALE_WIDTH / 2, bottom + NUMBERS, f"{self.limit / 2:.2g}", align="center")
        end = f"\u2265 {self.limit:.2g}" if self.largest > self.limit else f"{self.limit:.2g}"
        write(axes, right, bottom + NUMBERS, end, align="right")
