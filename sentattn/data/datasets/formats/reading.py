"""A table by the ending of its name."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias, cast

from sentattn.data.datasets.formats.delimited import read_delimited
from sentattn.data.datasets.formats.json_lines import read_json_lines
from sentattn.data.datasets.formats.parquet import read_parquet
from sentattn.data.datasets.formats.parts import Record
from sentattn.errors import DataError, suggestion

Reader: TypeAlias = Callable[[IO[bytes], str, Sequence[str] | None], Iterator[Record]]

TEXT: dict[str, Reader] = {
    ".csv": partial(read_delimited, delimiter=","),
    ".tsv": partial(read_delimited, delimiter="\t"),
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_lines,
}
GZIP, PARQUET = ".gz", ".parquet"
ENDINGS = (*TEXT, PARQUET)
"""Endings of tables; all but parquet may be compressed, with `.gz` behind."""
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")


def records(path: Path, columns: Sequence[str] | None) -> Iterator[Record]:
    """Yields the records of a table, one after another; memory does not grow with the file.

    Args:
        path: A file whose name ends as in `ENDINGS`. JSON holds one object a line.
        columns: The columns wanted. None: all there are; a CSV then has no header, and its columns are "0", "1", ...

    Raises:
        DataError: If the file is missing, damaged or not what its ending says; the sentence names file and line.
    """
    require_table(path)
    ending, compressed = _ending(path)
    try:
        if ending == PARQUET:
            yield from read_parquet(path, columns)
            return
        with path.open("rb") as file, gzip.open(file) if compressed else nullcontext(file) as stream:
            yield from TEXT[ending](cast(IO[bytes], stream), str(path), columns)
    except (OSError, EOFError, zlib.error) as error:
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        raise DataError(f"{path} cannot be read to its end ({reason}).") from error


def require_table(path: Path, given: str = "", *, also: Sequence[str] = ()) -> None:
    """Refuses a file that is not there or has an unknown ending.

    Args:
        path: The file.
        given: How the user named it, such as `data.train=reviews.csv`; the path alone otherwise.
        also: Endings that are legal beside those of tables.

    Raises:
        DataError: With the closest name, or with the legal endings.
    """
    given = given or str(path)
    ending, compressed = _ending(path)
    if not path.exists():
        near = suggestion(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
        raise DataError(f"{given}: there is no such file.{near}")
    if path.is_dir():
        raise DataError(f"{given} is a folder; name one file in it.")
    if ending in SPREADSHEETS:
        raise DataError(f"{given} is a spreadsheet; save it as CSV (UTF-8) and give that.")
    if path.suffix not in also and (ending not in ENDINGS or (compressed and ending == PARQUET)):
        legal = ", ".join((*also, *ENDINGS))
        raise DataError(f"{given} has an unknown ending; legal are {legal}, and {GZIP} behind {', '.join(TEXT)}.")


def _ending(path: Path) -> tuple[str, bool]:
    """Returns the ending that tells the format, and whether `.gz` stands behind it."""
    compressed = path.suffix.lower() == GZIP
    return (Path(path.stem) if compressed else path).suffix.lower(), compressed
