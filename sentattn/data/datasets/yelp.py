"""Yelp's reviews and their stars: the Open Dataset, the sample of the GluonNLP tutorial, `yelp_review_full`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any

from sentattn.data.datasets.archives import container
from sentattn.data.datasets.base import Row, Source
from sentattn.data.datasets.formats import ColumnError, kind, read_delimited, read_json_lines
from sentattn.data.datasets.formats.parquet import read_parquet
from sentattn.data.datasets.json_arrays import array_items
from sentattn.data.datasets.yelp_files import WHERE, Form, Piece, find, fingerprint
from sentattn.errors import DataError

STARS = range(1, 6)
OF_STARS: Mapping[Any, int] = {form: n - 1 for n in STARS for form in (n, str(n), f"{n}.0")}
"""The class of a number of stars; 5.0 is found as 5 is."""
OF_LABELS: Mapping[Any, int] = {label: label for label in range(len(STARS))}


class Yelp(Source):
    """Reviews with one to five stars, the same rows in whatever form they are.

    Args:
        path: The Open Dataset's JSON lines; the tutorial's ZIP, or the JSON in it; or `yelp_review_full` (Zhang et al.
            2015), which alone has test rows of its own, as an archive or a folder of CSV, or as a folder of parquet.

    Raises:
        DataError: If there is nothing of that kind.
    """

    labels = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
    ordered = True

    def __init__(self, path: str | Path) -> None:
        self._pieces = find(Path(path).expanduser())
        self.splits = tuple(self._pieces)

    def fingerprint(self) -> str:
        """Returns a hash over sizes, times and samples of the files."""
        return fingerprint(chain.from_iterable(self._pieces.values()))

    def read(self, split: str) -> Iterator[Row]:
        """Yields the reviews in the order of the files; none of them is held.

        Raises:
            DataError: If a file is damaged, or a review has no text or no whole number of stars; the sentence names
                file and line.
        """
        for piece in self._pieces[split]:
            try:
                with piece.opened() as (stream, form):
                    yield from READERS[form](stream, piece)
            except ColumnError as error:
                raise DataError(f"{error} {WHERE}") from error


def _of_lines(stream: IO[bytes], piece: Piece) -> Iterator[Row]:
    for where, values in read_json_lines(stream, piece.name, ("stars", "text")):
        yield _row(values["text"], values["stars"], OF_STARS, f"{piece.name}, {where}")


def _of_arrays(stream: IO[bytes], piece: Piece) -> Iterator[Row]:
    """Goes through the file twice, because all texts may stand before the first label."""
    labels, texts = array("b"), 0
    for key, item in array_items(stream, piece.name):
        if key == "labels":
            labels.append(_label(item, OF_STARS, f"{piece.name}, label {len(labels) + 1:,}"))
        texts += key == "texts"
    if texts != len(labels) or not texts:
        counts = f"{texts:,} texts and {len(labels):,} labels"
        raise DataError(f"{piece.name} holds {counts}; it must hold as many of both. {WHERE}")
    with piece.opened() as (again, _):
        items = (item for key, item in array_items(again, piece.name) if key == "texts")
        for number, (text, label) in enumerate(zip(items, labels, strict=True), start=1):
            yield Row(_text(text, f"{piece.name}, text {number:,}"), label)


def _of_csv(stream: IO[bytes], piece: Piece) -> Iterator[Row]:
    for where, values in read_delimited(stream, piece.name, None):
        if len(values) != 2:
            found = f"{len(values)} column{'s' * (len(values) != 1)}"
            raise DataError(f"{piece.name}, {where}: {found} instead of two, stars and text. {WHERE}")
        stars, text = values.values()
        yield _row(_unescaped(text), stars, OF_STARS, f"{piece.name}, {where}")


def _of_parquet(_: IO[bytes], piece: Piece) -> Iterator[Row]:
    if piece.member or container(piece.path) != "plain":
        raise DataError(f"{piece.name} is parquet inside an archive; unpack it.")
    for where, values in read_parquet(piece.path, ("label", "text")):
        yield _row(_unescaped(values["text"]), values["label"], OF_LABELS, f"{piece.name}, {where}")


READERS: Mapping[Form, Callable[[IO[bytes], Piece], Iterator[Row]]] = {
    "lines": _of_lines,
    "arrays": _of_arrays,
    "csv": _of_csv,
    "parquet": _of_parquet,
}


def _unescaped(text: Any) -> Any:
    r"""Returns a text of `yelp_review_full` as it was written: there a line break is `\n` and a quote may be `\"`."""
    return text.replace("\\n", "\n").replace('\\"', '"') if isinstance(text, str) else text


def _row(text: Any, rating: Any, classes: Mapping[Any, int], where: str) -> Row:
    return Row(_text(text, where), _label(rating, classes, where))


def _text(value: Any, where: str) -> str:
    """Returns a text, "" where there is none."""
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: the text is {kind(value)}; take the row out.")
    return value or ""


def _label(value: Any, classes: Mapping[Any, int], where: str) -> int:
    label = classes.get(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    if label is None:
        legal = "1, 2, 3, 4 or 5 stars" if classes is OF_STARS else "a label from 0 to 4"
        raise DataError(
            f"{where}: {value!r} is not {legal}; take the row out, or let data=table with data.label=COLUMN make a "
            "class of each value."
        )
    return label
