"""A JSON object of long arrays, read item by item: neither the file nor an array has to fit into memory."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from sentattn.data.datasets.formats.parts import LONGEST
from sentattn.errors import DataError

CHARACTERS = 1 << 20
"""Read at once; an item that is longer makes it more."""
SPACE = re.compile(r"[ \t\r\n]*")
BEHIND_A_VALUE = tuple(" \t\r\n,:]}")


def array_items(stream: IO[bytes], name: str, size: int = CHARACTERS) -> Iterator[tuple[str, Any]]:
    """Yields the items of all arrays of an object, each with the key of its array, in the order of the file.

    Args:
        stream: The object, opened as bytes.
        name: What it is called in errors.
        size: Characters that are read at once.

    Raises:
        DataError: If it is no whole JSON object, or a text in it is not UTF-8; the sentence names the item.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    scanner = _Scanner(text, size)
    where = "its first character"
    try:
        for _ in scanner.members("{", "}"):
            key = scanner.value()
            scanner.take(":")
            if scanner.sign() != "[":
                scanner.value()
                continue
            for number, _ in enumerate(scanner.members("[", "]"), start=1):
                where = f"item {number:,} of {key!r}"
                item = scanner.value()
                if isinstance(item, str):
                    item.encode()
                yield key, item
        scanner.take("")
    except UnicodeEncodeError as error:
        raise DataError(f"{name}: character {error.start + 1:,} of {where} is not UTF-8; save it as UTF-8.") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{name} is no whole JSON object: it breaks off or is damaged near {where}.") from error
    finally:
        if not stream.closed:
            text.detach()


class _Scanner:
    """Reads signs and values one after another, and of the text no more than the next value needs.

    Raises:
        json.JSONDecodeError: From every method, if something else stands there.
    """

    def __init__(self, stream: IO[str], size: int) -> None:
        self._stream = stream
        self._size = size
        self._text = ""
        self._at = 0
        self._decode = json.JSONDecoder().raw_decode

    def members(self, opening: str, closing: str) -> Iterator[None]:
        """Goes through an object or an array; at each step the caller reads one member."""
        self.take(opening)
        if self.sign() == closing:
            self.take(closing)
            return
        yield
        while self.sign() != closing:
            self.take(",")
            yield
        self.take(closing)

    def sign(self) -> str:
        """Returns the next sign that is no space, or "" at the end."""
        while True:
            space = SPACE.match(self._text, self._at)
            assert space is not None, "it matches nothing as well"
            self._at = space.end()
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, sign: str) -> None:
        """Goes past the sign that has to stand here; "" is the end."""
        if self.sign() != sign:
            raise json.JSONDecodeError(f"{sign!r} is missing", "", 0)
        self._at += len(sign)

    def value(self) -> Any:
        """Returns the value that begins here, and goes past it."""
        self.sign()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._more():
                    raise
                continue
            # Of a number that goes on behind what was read, the beginning is a number as well.
            if self._text.startswith(BEHIND_A_VALUE, end) or not self._more():
                self._at = end
                return value

    def _more(self) -> bool:
        """Reads on, at least as much again as is waiting, so that a long item is not tried often."""
        waiting = self._text[self._at :]
        read = self._stream.read(max(self._size, len(waiting))) if len(waiting) < LONGEST else ""
        if read:
            self._text, self._at = waiting + read, 0
        return bool(read)
