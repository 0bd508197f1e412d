"""Heat maps of attention in a file: a picture for a paper, or a page to look around in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sentattn.errors import UserError, suggestion
from sentattn.insight.prediction import Prediction

Writer = Callable[[Sequence[Prediction]], bytes]


def save(predictions: Sequence[Prediction], path: Path) -> None:
    """Draws predictions into a file, at once or not at all.

    A `.png` has one row a hop and one column a token, wrapped to lines, and a square map a head where
    there are pairs; a `.html` page stands alone and switches between the hops and between the heads.

    Args:
        predictions: What to draw, one or more.
        path: The file, ending in `.png` or `.html`. Its folder exists.

    Raises:
        UserError: If the ending is another one or the file cannot be written.
    """
    draw = writer(path)
    assert predictions, "there is something to draw"
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.touch()  # an unwritable folder is told before the work, not after it
        beside.write_bytes(draw(predictions))
        os.replace(beside, path)
    except OSError as error:
        raise UserError(f"The picture {path} cannot be written: {_reason(path, error)}.") from error
    finally:
        _remove(beside)


def writer(path: Path) -> Writer:
    """Returns what draws the kind of file that a path names.

    Raises:
        UserError: If it is neither `.png` nor `.html`.
    """
    writers: dict[str, Writer] = {".png": _png, ".html": _html}
    if path.suffix.lower() not in writers:
        ending = f"has the ending {path.suffix!r}" if path.suffix else "has no ending"
        close = suggestion(path.suffix.lower(), writers) if path.suffix else ""
        raise UserError(f"The picture {path} {ending}; legal are .png and .html.{close}")
    return writers[path.suffix.lower()]


def _png(predictions: Sequence[Prediction]) -> bytes:
    from sentattn.insight.picture import picture

    return picture(predictions)


def _html(predictions: Sequence[Prediction]) -> bytes:
    from sentattn.insight.page import page

    return page(predictions).encode()


def _reason(path: Path, error: OSError) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}; make it, or name another"
    return (error.strerror or str(error)).lower()


def _remove(beside: Path) -> None:
    try:
        beside.unlink(missing_ok=True)
    except OSError:  # the folder is no folder; what hinders has been told
        return
