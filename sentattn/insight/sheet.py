"""A sheet of paper for matplotlib: a figure measured in inches from its top left corner, with our fonts."""

from __future__ import annotations

import functools
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

DPI = 150
POINTS = 72  # an inch
SMALL_SIZE = 7.5  # points
GREY = "#666666"
# For signs that matplotlib's own font lacks, where one of these is installed.
FALLBACKS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari",
    "Segoe UI Symbol", "Noto Emoji", "Symbola",
)  # fmt: skip


def font(size: float, weight: str = "normal") -> FontProperties:
    """Returns matplotlib's own font, with what is installed for signs that it lacks."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=_families(), size=size, weight=weight)


@functools.cache
def _families() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {entry.name for entry in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in FALLBACKS if name in installed)]


class Ruler:
    """Measures the widths of texts in one font, in inches."""

    def __init__(self, prop: FontProperties) -> None:
        from matplotlib.backends.backend_agg import RendererAgg

        untyped: Any = RendererAgg
        self._renderer = untyped(DPI, DPI, DPI)
        self._prop = prop
        self._widths: dict[str, float] = {}

    def __call__(self, text: str) -> float:
        """Returns the width of a text in inches."""
        if text not in self._widths:
            pixels, _, _ = self._renderer.get_text_width_height_descent(text, self._prop, False)
            self._widths[text] = pixels / DPI
        return self._widths[text]


def sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """Returns a figure and axes over all of it, in inches, y from the top down."""
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
    """Writes a text whose letters are centred on `y`, or with `upwards` a text that climbs from `y`, centred on `x`."""
    # Not centred on each text's own box: words with and without descenders share one line.
    base = 0.35 * size / POINTS
    axes.text(
        x + base * upwards,
        y + base * (not upwards),
        text,
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
    """Keeps matplotlib from telling the user of signs without a glyph and of its font cache."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
