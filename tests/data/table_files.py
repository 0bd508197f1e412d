"""Writes tables in every form."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def write_table(
    path: Path, rows: Sequence[Sequence[Any]], columns: Sequence[str], encoding: str = "utf-8", *, header: bool = True
) -> Path:
    """Writes rows in the format and the compression of the ending; the test is skipped where Excel has no package."""
    ending, *packed = [suffix.lower() for suffix in path.suffixes if suffix != ".reviews"]
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    text = io.StringIO(newline="")
    if ending == ".parquet":
        pq.write_table(pa.table({name: [row[name] for row in objects] for name in columns}), path)
        return path
    if ending == ".xlsx":
        return write_sheet(path, [columns, *rows])
    if ending == ".json":
        json.dump(objects, text, indent=1, default=str)
    elif ending in (".jsonl", ".ndjson"):
        text.writelines(json.dumps(row, default=str) + "\n" for row in objects)
    else:
        writer = csv.writer(text, delimiter="\t" if ending == ".tsv" else ",", quoting=csv.QUOTE_ALL)
        writer.writerows([columns, *rows] if header else rows)
    content = text.getvalue().encode(encoding)
    if packed == [".zst"]:
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(content)
    else:
        path.write_bytes(PACK[packed[0]](content) if packed else content)
    return path


def write_sheet(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    """Writes a sheet of Excel; the test is skipped where there is no package for it."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path
