"""Heat maps of attention in a file: a PNG picture or an interactive HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sentattn.errors import Fault, UserError, suggestion
from sentattn.insight.prediction import Prediction
from sentattn.run import replacing


def save(predictions: Sequence[Prediction], path: Path) -> str:
    """Draws predictions into a file, atomically.

    A `.png` has a row for each hop and a column for each token, wrapped to lines, and a square map for each head where
    there are pairs; a `.html` page is one file and switches between hops and between heads.

    Args:
        predictions: The predictions, one or more.
        path: The file, ending in `.png` or `.html`. Its folder exists.

    Returns:
        A note on what a picture cannot show; an empty string if it shows everything.

    Raises:
        UserError: If the ending is another one or the file cannot be written.
    """
    require_format(path)
    assert predictions, "there is at least one prediction"
    try:
        with replacing(path) as temporary:
            temporary.touch()  # an unwritable folder is reported before the work, not after it
            content, note = WRITERS[path.suffix.lower()](predictions)
            temporary.write_bytes(content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if not path.parent.is_dir():
            reason = f"there is no folder {path.parent}; make it, or name another"
        raise UserError(Fault("plot", "unwritable", f"The picture {path} cannot be written: {reason}.")) from error
    return note


def require_format(path: Path) -> None:
    """Refuses a file that is neither `.png` nor `.html`.

    Raises:
        UserError: With the closest ending.
    """
    if path.suffix.lower() not in WRITERS:
        ending = f"has the ending {path.suffix!r}" if path.suffix else "has no ending"
        close = suggestion(path.suffix.lower(), WRITERS) if path.suffix else ""
        message = f"The picture {path} {ending}; legal are .png and .html.{close}"
        raise UserError(Fault("plot", "unsupported", message))


def _png(predictions: Sequence[Prediction]) -> tuple[bytes, str]:
    from sentattn.insight.picture import font_note, picture

    return picture(predictions), font_note(predictions)


def _html(predictions: Sequence[Prediction]) -> tuple[bytes, str]:
    from sentattn.insight.page import page

    return page(predictions).encode(), ""


WRITERS: dict[str, Callable[[Sequence[Prediction]], tuple[bytes, str]]] = {".png": _png, ".html": _html}
