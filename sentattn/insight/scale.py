"""The scale of colours of a picture: weights from 0 to the largest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Steep at its beginning: on a long text most weights are small beside the largest.
COLOURS = ((0.0, "#ffffff"), (0.1, "#ffe3bf"), (0.3, "#ffb561"), (0.65, "#f07d0a"), (1.0, "#a94400"))
FRAME = "#d9d9d9"
STEPS = 128


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
        return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.4 else "black"

    def draw_cells(self, axes: Axes, x: list[float], y: list[float], weights: list[list[float]]) -> None:
        """Draws rows of framed cells between the edges `x` and `y`; a cell that is not a number stays empty."""
        self._draw(axes, x, y, weights, edgecolors=FRAME, linewidth=0.4)

    def draw(self, axes: Axes, left: float, top: float, width: float, height: float) -> None:
        """Draws the scale itself."""
        steps = [step / STEPS for step in range(STEPS + 1)]
        x = [left + step * width for step in steps]
        self._draw(axes, x, [top, top + height], [[step * self.largest for step in steps[:-1]]])
        axes.plot(
            [left, left + width, left + width, left, left], [top, top, top + height, top + height, top], FRAME, lw=0.6
        )

    def _draw(
        self, axes: Axes, x: list[float], y: list[float], weights: list[list[float]], **frame: str | float
    ) -> None:
        axes.pcolormesh(x, y, weights, cmap=self._colours, norm=self._norm, **frame)  # type: ignore[arg-type]
