"""Tables that are text: CSV, TSV and JSON lines as streams of records."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count, islice
from typing import IO, Any, NamedTuple

from sentattn.errors import DataError, Fault, suggestion

MAX_CHARACTERS = 1 << 24
"""Most characters of a line or a field: of a damaged file no more than this is held in memory."""
DELIMITERS = (",", ";", "\t", "|")
MAX_HEADER_LINES = 20
"""Most lines that a header with line breaks in its names may have."""
MAX_NAME = 50
"""A header with a longer name is rather a row."""
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
SHOWN_NAMES, SHOWN_CHARACTERS = 20, 40


class Record(NamedTuple):
    """One record of a table.

    Attributes:
        where: The line on which it begins, such as `line 17`, or its row.
        values: Its values by column. Those of CSV and TSV are text.
    """

    where: str
    values: dict[str, Any]


def read_delimited(
    stream: IO[bytes],
    name: str,
    columns: Sequence[str] | None,
    hint: str = "",
    keep_others: bool = False,
    *,
    delimiter: str = ",",
) -> Iterator[Record]:
    """Yields the records of a CSV or TSV; empty lines and rows of empty fields are skipped.

    Args:
        stream: The table, opened as bytes.
        name: Its name in messages.
        columns: The columns wanted, which the first row must name; the one of `DELIMITERS` that separates them there
            separates all columns. None: there is no header, and the columns are "0", "1", ...
        hint: The end of the message that a column is missing.
        keep_others: Whether to return the other columns too; of columns with the same name, later ones get a number.
        delimiter: The delimiter that is tried first.

    Raises:
        DataError: If the table is damaged or lacks a column; the message names the line.
    """
    csv.field_size_limit(MAX_CHARACTERS)
    lines = text_lines(stream, name)
    if columns is not None:
        first = list(islice(lines, MAX_HEADER_LINES))
        delimiter = _delimiter(first, columns, delimiter)
        lines = chain(first, lines)
    rows = _rows(lines, name, delimiter)
    number, header = next(rows, (1, []))
    if not header:
        raise DataError(Fault("", "missing", f"{name} is empty."))
    if columns is None:
        rows = chain([(number, header)], rows)
        header = columns = [str(index) for index in range(len(header))]
    else:
        require_columns(header, columns, name, _missing_header(header, columns, delimiter) or hint)
    indices = {column: header.index(column) for column in columns}
    names = dict(zip(_unique(header), range(len(header)), strict=True)) if keep_others else indices
    for number, fields in rows:
        _require_width(fields, header, indices, f"{name}, line {number}", delimiter)
        fields += [""] * (len(header) - len(fields))
        yield Record(f"line {number}", {column: fields[index] for column, index in names.items()})


def _unique(names: Sequence[str]) -> list[str]:
    """Returns the names, with a number after later ones of the same name."""
    unique: list[str] = []
    for name in names:
        numbered = chain([name] if name not in unique else [], (f"{name} ({number})" for number in count(2)))
        unique.append(next(other for other in numbered if other == name or other not in {*unique, *names}))
    return unique


def _rows(lines: Iterable[str], name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty, each with the line on which it begins."""
    row_lines = _RowLines(lines)
    reader = csv.reader(row_lines, delimiter=delimiter, strict=True)
    well_formed = _well_formed_row(delimiter)
    while True:
        number = row_lines.begin()
        try:
            fields = next(reader, None)
        except csv.Error as error:
            # What is unread at the end of the text or of `MAX_CHARACTERS` is an open quote.
            reason = (
                "a quote is opened in this row and never closed."
                if row_lines.is_exhausted or row_lines.characters > MAX_CHARACTERS
                else 'text follows a closing quote; write each quote inside a field twice, as in "He said ""good""".'
            )
            raise DataError(Fault("", "damaged", f"{name}, line {number}: {reason}")) from error
        if fields is None:
            return
        if well_formed and any('"' in field for field in fields) and not well_formed.fullmatch(row_lines.text()):
            message = (
                f"{name}, line {number}: a quote is in a field that is not itself in quotes; "
                'write the field in quotes and each quote in it twice, as in "He said ""good""".'
            )
            raise DataError(Fault("", "damaged", message))
        if any(fields):
            yield number, fields


class _RowLines:
    """Lines for `csv.reader`, which does not say where a row begins: those of the current row are kept."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._number = 0
        self._row: list[str] = []
        self.characters = 0
        self.is_exhausted = False

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.is_exhausted = True
            raise
        self._number += 1
        self.characters += len(line)
        self._row.append(line)
        return line

    def begin(self) -> int:
        """Begins a row, and returns the number of its first line."""
        self._row.clear()
        self.characters = 0
        return self._number + 1

    def text(self) -> str:
        return "".join(self._row)


def _well_formed_row(delimiter: str) -> re.Pattern[str] | None:
    """Matches a row whose quotes are around fields and doubled in them; None for TSV, where quotes are plain."""
    if delimiter == "\t":
        return None
    sign = re.escape(delimiter)
    field = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{sign}\r\n]*+)'
    return re.compile(rf"{field}(?:{sign}{field})*+[\r\n]*")


def _delimiter(first: Sequence[str], columns: Sequence[str], preferred: str) -> str:
    """Returns the delimiter that splits the header into the columns wanted, or else into the most."""
    headers: dict[str, list[str]] = {}
    for sign in dict.fromkeys([preferred, *DELIMITERS]):
        try:
            headers[sign] = next(filter(any, csv.reader(first, delimiter=sign, strict=True)), [])
        except csv.Error:
            headers[sign] = []
    fitting = [sign for sign, header in headers.items() if set(columns) <= set(header)]
    return fitting[0] if fitting else max(headers, key=lambda sign: len(headers[sign]))


def _missing_header(header: Sequence[str], columns: Sequence[str], delimiter: str) -> str:
    """Returns advice where the first row looks like data."""
    if any(NUMBER.fullmatch(name.strip()) or len(name) > MAX_NAME for name in header):
        return f"That looks like a row of data: write a first line that names the columns, {delimiter.join(columns)!r}."
    return ""


def _require_width(
    fields: Sequence[str], header: Sequence[str], indices: dict[str, int], where: str, delimiter: str
) -> None:
    """Refuses a row that does not fit the header, save for extra fields that are empty and missing ones not wanted."""
    if any(fields[len(header) :]) or len(fields) <= max(indices.values()):
        sign = "tab" if delimiter == "\t" else repr(delimiter)
        message = (
            f"{where}: {len(fields)} field{'s' * (len(fields) != 1)} where there are {len(header)} columns; "
            f"a text with a {sign} or a line break in it must be in quotes."
        )
        raise DataError(Fault("", "damaged", message))


def read_json_lines(
    stream: IO[bytes], name: str, columns: Sequence[str] | None, hint: str = "", keep_others: bool = False
) -> Iterator[Record]:
    """Yields the objects of JSON lines; empty lines are skipped.

    Args:
        stream: The lines, opened as bytes.
        name: Their name in messages.
        columns: The keys wanted, which every object must have; None for all that an object has.
        hint: The end of the message that a key is missing.
        keep_others: Whether to return the other keys too.

    Raises:
        DataError: If a line holds no object or lacks a key; the message names the line.
    """
    for number, line in enumerate(text_lines(stream, name), start=1):
        if line.isspace():
            continue
        where = f"{name}, line {number}"
        values = _json_object(line, where)
        if columns is not None:
            if not values.keys() >= set(columns):
                require_columns(list(values), columns, where, hint)
            values = values if keep_others else {column: values[column] for column in columns}
        for column, value in values.items():
            require_unicode(value, f"{where}: {column!r}")
        yield Record(f"line {number}", values)


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        start = line.strip()
        cut = f"{start[:SHOWN_CHARACTERS]}..." if len(start) > SHOWN_CHARACTERS else start
        message = f"{where} is no JSON, {cut!r}; each line must hold one whole object, {{...}}."
        raise DataError(Fault("", "damaged", message)) from error
    if not isinstance(value, dict):
        raise DataError(Fault("", "damaged", f"{where} holds no JSON object; each line must hold one, {{...}}."))
    return value


def require_unicode(value: Any, where: str) -> None:
    """Refuses half a character: JSON can escape one half of a surrogate pair without the other."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as error:
        message = f"{where} holds half a character (position {error.start + 1})."
        raise DataError(Fault("", "damaged", message)) from error


def text_lines(stream: IO[bytes], name: str) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 text with their ends, be they `\n`, `\r\n` or `\r`, without a byte-order mark.

    Args:
        stream: The text, opened as bytes; it stays open.
        name: Its name in messages.

    Raises:
        DataError: If a line is not UTF-8 or too long; the message names it.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        for number, line in enumerate(iter(partial(text.readline, MAX_CHARACTERS), ""), start=1):
            where = f"{name}, line {number}"
            try:
                line.encode()
            except UnicodeEncodeError as error:
                raise DataError(Fault("", "damaged", _not_utf8(where, line, error.start))) from error
            if len(line) == MAX_CHARACTERS and not line.endswith(("\n", "\r")):
                message = f"{where} is longer than {MAX_CHARACTERS:,} characters; is it a table of texts?"
                raise DataError(Fault("", "damaged", message))
            yield line
    finally:
        if not stream.closed:
            text.detach()


def _not_utf8(where: str, line: str, position: int) -> str:
    if line.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        return f"{where}: the file is UTF-16; save it as UTF-8 (in a spreadsheet: CSV UTF-8)."
    byte = ord(line[position]) - 0xDC00
    return (
        f"{where}: byte 0x{byte:02x} after {line[:position][-20:]!r} is not UTF-8; "
        "save the file as UTF-8 (in a spreadsheet: CSV UTF-8)."
    )


def require_columns(names: Sequence[str], wanted: Sequence[str], where: str, hint: str = "") -> None:
    """Refuses a table without a column that is wanted, or with two of its name.

    Args:
        names: The columns of the table.
        wanted: The columns to be read.
        where: The table.
        hint: The end of the message.

    Raises:
        DataError: With the columns of the table and the closest; kind `missing` or `conflict`.
    """
    if missing := [column for column in wanted if column not in names]:
        close = "".join(dict.fromkeys(suggestion(column, names) for column in missing))
        columns = f"column{'s' * (len(missing) > 1)} {' and '.join(map(repr, missing))}"
        message = f"{where} has no {columns}; it has {_shown(names)}.{close} {hint}".rstrip()
        raise DataError(Fault("", "missing", message))
    for column in wanted:
        if names.count(column) > 1:
            message = f"{where} has {names.count(column)} columns {column!r}; each needs a name of its own."
            raise DataError(Fault("", "conflict", message))


def _shown(names: Sequence[str]) -> str:
    """Returns the names of columns as a list in words, long ones cut."""
    listed = [repr(n if len(n) <= SHOWN_CHARACTERS else f"{n[:SHOWN_CHARACTERS]}...") for n in names[:SHOWN_NAMES]]
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"{', '.join(listed)}{more}" if listed else "no columns"
