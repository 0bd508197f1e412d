"""The scale of colours of a picture: weights from 0 to the largest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentattn.insight.sheet import write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Steep at its beginning: on a long text most weights are small beside the largest.
COLOURS = ((0.0, "#ffffff"), (0.1, "#ffe3bf"), (0.3, "#ffb561"), (0.65, "#f07d0a"), (1.0, "#a94400"))
FRAME = "#d9d9d9"
STEPS = 128
SCALE_WIDTH, SCALE_HEIGHT, NUMBERS = 1.8, 0.1, 0.09  # inches
SCALE_ROOM = 3.6
"""Width of the scale with what is written beside it, and some air, in inches."""


class Scale:
    """Colours for weights.

    Args:
        largest: The weight with the darkest colour.
    """

    def __init__(self, largest: float) -> None:
        from matplotlib.colors import LinearSegmentedColormap, Normalize

        self.largest = largest
        self._norm = Normalize(0, largest)
        self._colours = LinearSegmentedColormap.from_list("attention", COLOURS)

    def ink(self, weight: float) -> str:
        """Returns the colour of letters that is legible on a weight's cell."""
        red, green, blue, _ = self._colours(weight / self.largest)
        return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.45 else "black"

    def draw_cells(self, axes: Axes, x: list[float], y: list[float], weights: list[list[float]]) -> None:
        """Draws rows of framed cells between the edges `x` and `y`; a cell that is not a number stays empty."""
        self._draw(axes, x, y, weights, edgecolors=FRAME, linewidth=0.4)

    def draw(self, axes: Axes, right: float, top: float) -> None:
        """Draws the scale itself, its end at `right`, with its numbers below."""
        left, below = right - SCALE_WIDTH, top + SCALE_HEIGHT + NUMBERS
        steps = [step / STEPS for step in range(STEPS + 1)]
        x = [left + step * SCALE_WIDTH for step in steps]
        self._draw(axes, x, [top, top + SCALE_HEIGHT], [[step * self.largest for step in steps[:-1]]])
        axes.plot(
            [left, right, right, left, left], [top, top, top + SCALE_HEIGHT, top + SCALE_HEIGHT, top], FRAME, lw=0.6
        )
        write(axes, left - 0.08, top + SCALE_HEIGHT / 2, "weight (a row sums to 1)", align="right")
        write(axes, left, below, "0")
        write(axes, left + SCALE_WIDTH / 2, below, f"{self.largest / 2:.2g}", align="center")
        write(axes, right, below, f"{self.largest:.2g}", align="right")

    def _draw(
        self, axes: Axes, x: list[float], y: list[float], weights: list[list[float]], **frame: str | float
    ) -> None:
        axes.pcolormesh(x, y, weights, cmap=self._colours, norm=self._norm, **frame)  # type: ignore[arg-type]
