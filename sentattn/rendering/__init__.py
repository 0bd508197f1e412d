"""Predictions on the terminal, as an HTML page and as a picture; the look of all charts.

`save` is `plot=FILE`: a page or a picture, by the ending of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.errors import Fault, UserError, suggestion
from sentattn.run import replacing, writing

if TYPE_CHECKING:
    from sentattn.prediction.prediction import Prediction

PAGE, PAGE_ENDINGS, PICTURE_ENDINGS = ".html", (".html", ".htm"), (".png", ".pdf", ".svg")


def save(predictions: Sequence[Prediction], path: Path) -> None:
    """Draws predictions into a page or a picture, atomically; a `UserError` if it cannot."""
    from sentattn.rendering import html, png

    require_format(path)
    ending = path.suffix.lower()
    with writing(path, "plot"), replacing(path) as temporary:
        temporary.touch()  # an unwritable folder is reported before the work, not after it
        content = html.page(predictions).encode() if ending == PAGE else png.picture(predictions, ending[1:])
        temporary.write_bytes(content)


def require_format(path: Path, key: str = "plot", endings: Sequence[str] = (PAGE, *PICTURE_ENDINGS)) -> None:
    """Refuses a file of another format with a `UserError` that has the closest ending."""
    if (ending := path.suffix.lower()) not in endings:
        close = suggestion(ending, endings) if ending else ""
        message = f"{key}={path} must end in {', '.join(endings[:-1])} or {endings[-1]}.{close}"
        raise UserError(Fault(key, "unsupported", message))
