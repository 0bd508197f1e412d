"""Tables that are text, as streams of records: CSV, TSV, JSON lines, and the arrays of a JSON object."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import IO, Any, NamedTuple

from sentattn.errors import DataError, Fault, suggestion

MAX_CHARACTERS = 1 << 24
"""Most characters of a line or a field: of a damaged file no more than this is held in memory."""
DELIMITERS = (",", ";", "\t", "|")
MAX_HEADER_LINES = 20
"""Most lines that a header with line breaks in its names may have."""
SHOWN_NAMES, SHOWN_CHARACTERS = 20, 40
QUOTES = (
    "a text with a delimiter, a line break or a quote in it must be in quotes, and each quote in it written twice, as "
    'in "He said ""good""".'
)


class Record(NamedTuple):
    """One record of a table.

    Attributes:
        where: The line on which it begins, such as `line 17`, or its row.
        values: Its values by column. Those of CSV and TSV are text.
    """

    where: str
    values: dict[str, Any]


def damaged(message: str) -> DataError:
    """Returns the error for a damaged file."""
    return DataError(Fault("", "damaged", message))


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

    The arguments are those of `tables.records`. The one of `DELIMITERS` that separates the wanted columns in the first
    row separates all columns; `delimiter` is tried first. Without `columns` there is no header, and the columns are
    "0", "1", ... With `keep_others`, later ones of columns with the same name get a number.

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
    require_columns(header, columns, name, hint)
    places = {column: header.index(column) for column in columns}
    wanted = {column: place for place, column in enumerate(_unique(header))} if keep_others else places
    for number, fields in rows:
        # Extra fields that are empty do not matter, nor do missing ones that are not wanted.
        if any(fields[len(header) :]) or len(fields) <= max(places.values()):
            raise damaged(f"{name}, line {number}: {len(fields)} fields instead of {len(header)}; {QUOTES}")
        fields += [""] * (len(header) - len(fields))
        yield Record(f"line {number}", {column: fields[place] for column, place in wanted.items()})


def _unique(names: Sequence[str]) -> list[str]:
    """Returns the names, with a number after later ones of the same name."""
    unique: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in unique or (number > 1 and candidate in names):
            number += 1
            candidate = f"{name} ({number})"
        unique.append(candidate)
    return unique


def _rows(lines: Iterable[str], name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty, each with the line on which it begins."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise damaged(f"{name}, line {number}: {error} in the row that begins here; {QUOTES}") from error
        if fields is None:
            return
        if any(fields):
            yield number, fields


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


def read_json_lines(
    stream: IO[bytes], name: str, columns: Sequence[str] | None, hint: str = "", keep_others: bool = False
) -> Iterator[Record]:
    """Yields the objects of JSON lines; empty lines are skipped. The arguments are those of `tables.records`.

    Raises:
        DataError: If a line holds no object or lacks a key; the message names the line.
    """
    for number, line in enumerate(text_lines(stream, name), start=1):
        if line.isspace():
            continue
        where = f"{name}, line {number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            message = f"{where} is no JSON object but {_cut(line.strip())}; each line must hold one whole object."
            raise damaged(message)
        if columns is not None:
            if not values.keys() >= set(columns):
                require_columns(list(values), columns, where, hint)
            values = values if keep_others else {column: values[column] for column in columns}
        for column, value in values.items():
            _require_unicode(value, f"{where}: {column!r}")
        yield Record(f"line {number}", values)


def _require_unicode(value: Any, where: str) -> None:
    """Refuses half a character: JSON can escape one half of a surrogate pair without the other."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as error:
        raise damaged(f"{where} holds half a character (position {error.start + 1}).") from error


class _BoundedStream:
    """Raises an error where no item ends for too long: `ijson` would hold a text of any length in memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.since_item = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.since_item += len(data)
        if self.since_item > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS:,} bytes without an end")
        return data


def read_json_arrays(stream: io.BufferedReader, name: str) -> Iterator[tuple[str, Any]]:
    """Yields the items of all arrays of a JSON object, each with the key of its array, in the order of the file.

    Neither the file nor an array has to fit into memory. An item that is itself an array or an object is yielded as
    an empty one.

    Raises:
        DataError: If it is no whole JSON object in UTF-8; the message names the last item.
    """
    import ijson

    bounded = _BoundedStream(stream)
    depth, key, number, is_array = 0, "", 0, False
    if stream.peek(3).startswith(b"\xef\xbb\xbf"):
        stream.read(3)
    try:
        for event, value in ijson.basic_parse(bounded, use_float=True):
            bounded.since_item = 0
            if depth == 2 and is_array and event != "end_array":
                number += 1
                _require_unicode(value, f"{name}, item {number:,} of {key!r}")
                empty: dict[str, Any] = {"start_map": {}, "start_array": []}
                yield key, empty.get(event, value)
            elif depth == 1 and event == "map_key":
                key, number = value, 0
            elif depth == 1:
                is_array = event == "start_array"
            depth += (event in ("start_map", "start_array")) - (event in ("end_map", "end_array"))
    except (ijson.JSONError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        raise damaged(
            f"{name} is no whole JSON object in UTF-8 ({reason}, after item {number:,} of {key!r})."
        ) from error


def text_lines(stream: IO[bytes], name: str) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 text with their ends, be they `\n`, `\r\n` or `\r`, without a byte-order mark.

    The stream stays open; `name` is its name in messages.

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
                byte = f"byte 0x{ord(line[error.start]) - 0xDC00:02x} after {line[: error.start][-20:]!r}"
                advice = "save the file as UTF-8 (in a spreadsheet: CSV UTF-8)"
                raise damaged(f"{where}: {byte} is not UTF-8; {advice}.") from error
            if len(line) == MAX_CHARACTERS and not line.endswith(("\n", "\r")):
                raise damaged(f"{where} is longer than {MAX_CHARACTERS:,} characters; is it a table of texts?")
            yield line
    finally:
        if not stream.closed:
            text.detach()


def require_columns(names: Sequence[str], wanted: Sequence[str], where: str, hint: str = "") -> None:
    """Refuses a table whose columns `names` lack one of `wanted`, or have it twice.

    Raises:
        DataError: With the columns of the table and the closest; kind `missing` or `conflict`.
    """
    listed = ", ".join(map(_cut, names[:SHOWN_NAMES])) + ", ..." * (len(names) > SHOWN_NAMES)
    for column in wanted:
        if column not in names:
            message = f"{where} has no column {column!r}; it has {listed}.{suggestion(column, names)} {hint}".rstrip()
            raise DataError(Fault("", "missing", message))
        if names.count(column) > 1:
            message = f"{where} has {names.count(column)} columns {column!r}; its columns are {listed}."
            raise DataError(Fault("", "conflict", message))


def _cut(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}...")
