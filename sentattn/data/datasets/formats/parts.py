"""What all formats share: records, lines of text, and the sentences on columns."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from sentattn.errors import DataError, suggestion

LONGEST = 1 << 24
"""Most characters of a line or a field: so much of a damaged file is held at once, not all of it."""

MOST_NAMES, LONGEST_NAME = 20, 40


class Record(NamedTuple):
    """One record of a table.

    Attributes:
        where: Where it stands, such as `line 17`: the line on which it begins.
        values: Its values by column. Those of CSV and TSV are text.
    """

    where: str
    values: dict[str, Any]


class ColumnError(DataError):
    """A column that a table, or a record of it, does not have."""


def text_lines(stream: IO[bytes], name: str) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 text with their ends, be they `\n`, `\r\n` or `\r`; a byte-order mark is left out.

    Args:
        stream: The text, opened as bytes; it stays open.
        name: What it is called in errors.

    Raises:
        DataError: If a line is not UTF-8 or has no end; the sentence names it.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        for number, line in enumerate(iter(partial(text.readline, LONGEST), ""), start=1):
            try:
                line.encode()
            except UnicodeEncodeError as error:
                raise DataError(_not_utf8(f"{name}, line {number}", line, error.start)) from error
            if len(line) == LONGEST and not line.endswith(("\n", "\r")):
                raise DataError(f"{name}, line {number} is longer than {LONGEST:,} characters; is it a table of texts?")
            yield line
    finally:
        if not stream.closed:
            text.detach()


def _not_utf8(where: str, line: str, position: int) -> str:
    if line.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        return f"{where}: the file is UTF-16; save it as UTF-8 (in a spreadsheet: CSV UTF-8)."
    byte = ord(line[position]) - 0xDC00
    return (
        f"{where}: byte 0x{byte:02x} behind {line[:position][-20:]!r} is not UTF-8; "
        "save the file as UTF-8 (in a spreadsheet: CSV UTF-8)."
    )


def require_columns(found: Sequence[str], wanted: Sequence[str], name: str, hint: str = "") -> None:
    """Refuses a table without a column that is wanted, or with two of its name.

    Args:
        found: The columns there are.
        wanted: The columns to be read.
        name: The table.
        hint: A sentence to end with.

    Raises:
        ColumnError: With the columns there are and the closest.
    """
    missing = [column for column in wanted if column not in found]
    if missing:
        close = "".join(dict.fromkeys(suggestion(column, found) for column in missing))
        columns = f"column{'s' * (len(missing) > 1)} {' and '.join(map(repr, missing))}"
        raise ColumnError(f"{name} has no {columns}; it has {shown(found)}.{close}{hint and ' '}{hint}")
    for column in wanted:
        if found.count(column) > 1:
            raise ColumnError(f"{name} has {found.count(column)} columns {column!r}; give each a name of its own.")


def shown(names: Sequence[str]) -> str:
    """Returns the names of columns as a list in words, long ones cut."""
    listed = [repr(n if len(n) <= LONGEST_NAME else f"{n[:LONGEST_NAME]}...") for n in names[:MOST_NAMES]]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(listed)}{more}" if listed else "no columns"


def text_of(record: Record, column: str, path: Path) -> str:
    """Returns the text of a record, "" where there is none.

    Args:
        record: The record.
        column: The column of texts.
        path: The table, for errors.

    Raises:
        DataError: If something else than a text stands there.
    """
    value = record.values[column]
    if value is not None and not isinstance(value, str):
        raise DataError(f"{path}, {record.where}: {column!r} holds {kind(value)}, no text; is it the column of texts?")
    return value or ""


def kind(value: Any) -> str:
    """Returns in words what a value is that should be something else."""
    kinds = {bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "an object"}
    shown = f" ({value!r})" if isinstance(value, bool | int | float) else ""
    return f"{kinds.get(type(value), f'a value of type {type(value).__name__}')}{shown}"
