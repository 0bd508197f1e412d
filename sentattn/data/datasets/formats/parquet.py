"""Parquet, read in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from sentattn.data.datasets.formats.parts import Record, require_columns
from sentattn.errors import DataError

ROWS = 1000
BUFFER = 1 << 20
"""Bytes of a column that are read at once."""


def read_parquet(path: Path, columns: Sequence[str] | None) -> Iterator[Record]:
    """Yields the rows of a parquet file.

    Args:
        path: The file.
        columns: The columns wanted, or None for all.

    Raises:
        DataError: If the file is damaged or lacks a column.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
            names = file.schema_arrow.names
            wanted = names if columns is None else list(columns)
            require_columns(names, wanted, str(path))
            batches = file.iter_batches(batch_size=ROWS, columns=wanted, use_threads=False)
            for number, row in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), start=1):
                yield Record(f"row {number}", {column: row[column] for column in wanted})
    except (ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{path} cannot be read as parquet ({reason}); was it written to its end?") from error
