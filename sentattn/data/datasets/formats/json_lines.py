"""JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, Any

from sentattn.data.datasets.formats.parts import Record, require_columns, text_lines
from sentattn.errors import DataError

SHOWN = 40


def read_json_lines(stream: IO[bytes], name: str, columns: Sequence[str] | None) -> Iterator[Record]:
    """Yields the objects of JSON lines; empty lines are skipped.

    Args:
        stream: The lines, opened as bytes.
        name: What they are called in errors.
        columns: The keys wanted, which every object must have; None for all that an object has.

    Raises:
        DataError: If a line holds no object or lacks a key; the sentence names the line.
    """
    for number, line in enumerate(text_lines(stream, name), start=1):
        if line.isspace():
            continue
        where = f"{name}, line {number}"
        found = _object(line, where)
        if columns is not None:
            if not found.keys() >= set(columns):
                require_columns(list(found), columns, where)
            found = {column: found[column] for column in columns}
        for column, value in found.items():
            _require_unicode(value, column, where)
        yield Record(f"line {number}", found)


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        start = line.strip()
        cut = f"{start[:SHOWN]}..." if len(start) > SHOWN else start
        raise DataError(f"{where} is no JSON, {cut!r}; each line must hold one whole object, {{...}}.") from error
    if not isinstance(found, dict):
        raise DataError(f"{where} holds no JSON object; each line must hold one, {{...}}.")
    return found


def _require_unicode(value: Any, column: str, where: str) -> None:
    """Refuses half a character: JSON can escape one half of a surrogate pair without the other."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {column!r} holds half a character (position {error.start + 1}).") from error
