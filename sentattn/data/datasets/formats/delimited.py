"""CSV and TSV: quotes as RFC 4180 has them, the sign between the columns told by the header."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import IO

from sentattn.data.datasets.formats.parts import LONGEST, Record, require_columns, text_lines
from sentattn.errors import DataError

DELIMITERS = (",", ";", "\t", "|")
HEADER_LINES = 20
"""Most lines that a header with line breaks in its names may have."""
LONG_NAME = 50
"""A header with a longer name is rather a row."""
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


def read_delimited(
    stream: IO[bytes], name: str, columns: Sequence[str] | None, *, delimiter: str = ","
) -> Iterator[Record]:
    """Yields the records of a CSV or TSV; empty lines and rows of empty fields are skipped.

    Args:
        stream: The table, opened as bytes.
        name: What it is called in errors.
        columns: The columns wanted, which the first row has to name; whatever of `DELIMITERS` parts them is taken
            for the sign between all columns. None: there is no header, and the columns are "0", "1", ...
        delimiter: The sign that is tried first.

    Raises:
        DataError: If the table is damaged; the sentence names the line.
    """
    csv.field_size_limit(LONGEST)
    lines = text_lines(stream, name)
    if columns is not None:
        first = list(islice(lines, HEADER_LINES))
        delimiter = _delimiter(first, columns, delimiter)
        lines = chain(first, lines)
    rows = _rows(lines, name, delimiter)
    number, header = next(rows, (1, []))
    if not header:
        raise DataError(f"{name} is empty.")
    if columns is None:
        rows = chain([(number, header)], rows)
        header = columns = [str(place) for place in range(len(header))]
    else:
        require_columns(header, columns, name, _header_missing(header, columns, delimiter))
    places = {column: header.index(column) for column in columns}
    for number, fields in rows:
        _require_width(fields, header, places, f"{name}, line {number}", delimiter)
        yield Record(f"line {number}", {column: fields[place] for column, place in places.items()})


def _rows(lines: Iterable[str], name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty, each with the line on which it begins."""
    kept = _Kept(lines)
    reader = csv.reader(kept, delimiter=delimiter, strict=True)
    sound = _sound(delimiter)
    while True:
        number = kept.forget()
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{name}, line {number}: {_reason(error)}") from error
        if fields is None:
            return
        if sound and any('"' in field for field in fields) and not sound.fullmatch(kept.text()):
            raise DataError(
                f"{name}, line {number}: a quote stands in a field that is not itself in quotes; "
                'write the field in quotes and each quote in it twice, as in "He said ""good""".'
            )
        if any(fields):
            yield number, fields


class _Kept:
    """Lines, of which those of the row that is being read are kept: `csv` does not tell where it began."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._number = 0
        self._row: list[str] = []

    def __iter__(self) -> _Kept:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._number += 1
        self._row.append(line)
        return line

    def forget(self) -> int:
        """Begins a row, and returns the number of its first line."""
        self._row.clear()
        return self._number + 1

    def text(self) -> str:
        return "".join(self._row)


def _sound(delimiter: str) -> re.Pattern[str] | None:
    """What a row matches whose quotes stand around fields and doubled in them; None for TSV, where they are plain."""
    if delimiter == "\t":
        return None
    sign = re.escape(delimiter)
    field = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{sign}\r\n]*+)'
    return re.compile(rf"{field}(?:{sign}{field})*+[\r\n]*")


def _reason(error: csv.Error) -> str:
    """Says what `csv` found: its own words are for programmers."""
    words = str(error)
    if "unexpected end of data" in words or "field larger" in words:
        return "a quote is opened in this row and never closed."
    if "expected after" in words:
        return 'signs stand behind a closing quote; write each quote inside a field twice, as in "He said ""good""".'
    return f"{words}."


def _delimiter(first: Sequence[str], columns: Sequence[str], own: str) -> str:
    """Returns the sign that parts the header into the columns wanted, or else into the most."""
    headers: dict[str, list[str]] = {}
    for sign in dict.fromkeys([own, *DELIMITERS]):
        try:
            headers[sign] = next(filter(any, csv.reader(first, delimiter=sign, strict=True)), [])
        except csv.Error:
            headers[sign] = []
    fitting = [sign for sign, header in headers.items() if set(columns) <= set(header)]
    return fitting[0] if fitting else max(headers, key=lambda sign: len(headers[sign]))


def _header_missing(header: Sequence[str], columns: Sequence[str], delimiter: str) -> str:
    """A sentence for a first row that looks like data."""
    if any(NUMBER.fullmatch(name.strip()) or len(name) > LONG_NAME for name in header):
        return f"That looks like a row of data: write a first line that names the columns, {delimiter.join(columns)!r}."
    return ""


def _require_width(
    fields: Sequence[str], header: Sequence[str], places: dict[str, int], where: str, delimiter: str
) -> None:
    """Refuses a row that does not fit under the header, save for empty fields too many or unread ones too few."""
    if any(fields[len(header) :]) or len(fields) <= max(places.values()):
        sign = "tab" if delimiter == "\t" else repr(delimiter)
        raise DataError(
            f"{where}: {len(fields)} field{'s' * (len(fields) != 1)} where there are {len(header)} columns; "
            f"a text with a {sign} or a line break in it must stand in quotes."
        )
