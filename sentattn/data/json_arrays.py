"""A JSON object of long arrays, read item by item: neither the file nor an array has to fit into memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

from sentattn.data.text_tables import MAX_CHARACTERS, require_unicode
from sentattn.errors import DataError, Fault

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_DEPTH = 100


class _BoundedStream:
    """A stream that refuses to be read on while no item ends: `ijson` would hold a text of any length in memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.since_item = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.since_item += len(data)
        if self.since_item > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS:,} bytes without an end")
        return data


def array_items(stream: io.BufferedReader, name: str) -> Iterator[tuple[str, Any]]:
    """Yields the items of all arrays of a JSON object, each with the key of its array, in the order of the file.

    An item that is itself an array or an object is yielded as an empty one.

    Raises:
        DataError: If it is no whole JSON object in UTF-8; the message names the last item.
    """
    import ijson

    bounded = _BoundedStream(stream)
    depth, key, number, is_array = 0, "", 0, False
    if stream.peek(3).startswith(BYTE_ORDER_MARK):
        stream.read(3)
    try:
        for event, value in ijson.basic_parse(bounded, use_float=True):
            bounded.since_item = 0
            is_begin = event in ("start_map", "start_array")
            if depth == 2 and is_array and event != "end_array":
                number += 1
                require_unicode(value, f"{name}, item {number:,} of {key!r}")
                yield key, {"start_map": {}, "start_array": []}[event] if is_begin else value
            elif depth == 1 and event == "map_key":
                key, number = value, 0
            elif depth == 1:
                is_array = event == "start_array"
            depth += is_begin - (event in ("end_map", "end_array"))
            if depth > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} nested arrays or objects")
    except (ijson.JSONError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        place = f"after item {number:,} of {key!r}" if key else "at its beginning"
        message = f"{name} is no whole JSON object in UTF-8 ({reason}, {place})."
        raise DataError(Fault("data.path", "damaged", message)) from error
