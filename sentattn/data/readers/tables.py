"""Tables by the ending of their name, as streams of records; what `data=table` and `input=` read. Imports no torch."""

from __future__ import annotations

import gzip
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from sentattn.data.readers.archives import existing, reading
from sentattn.data.readers.labels import class_faults
from sentattn.data.readers.text_tables import Record, damaged, read_delimited, read_json_lines, require_columns
from sentattn.errors import DataError, Fault

Reader: TypeAlias = Callable[[IO[bytes], str, Sequence[str] | None, str, bool], Iterator[Record]]

TEXT: dict[str, Reader] = {
    ".csv": partial(read_delimited, delimiter=","),
    ".tsv": partial(read_delimited, delimiter="\t"),
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_lines,
}
GZIP, PARQUET = ".gz", ".parquet"
ENDINGS = (*TEXT, PARQUET)
"""Endings of tables; all but parquet may be compressed, with `.gz` appended."""
ROWS, BUFFER_BYTES = 1000, 1 << 20
"""Rows, and bytes of a column, that are read from parquet at once."""
TARGET = "sentattn.data.datasets.table.Table"
SPLITS = ("train", "val", "test")
COLUMNS_HINT = "Name its columns with data.text=COLUMN data.label=COLUMN, and data.group=COLUMN if there is one."


def columns(text: str, label: str, group: str | None) -> list[str]:
    """Returns the names of the columns that are read."""
    return [text, label, *([] if group is None else [group])]


def records(
    path: Path, columns: Sequence[str] | None, hint: str = "", *, keep_others: bool = False
) -> Iterator[Record]:
    """Yields the records of a table, one after another; memory does not grow with the file.

    Args:
        path: A file whose name ends as in `ENDINGS`. JSON holds one object a line.
        columns: The columns wanted; None for all of them.
        hint: The end of the message that a column is missing.
        keep_others: Whether to return the columns that are not wanted too.

    Raises:
        DataError: If the file is missing, damaged or not what its ending says; the message names file and line.
    """
    require_table(path)
    ending, is_compressed = _ending(path)
    with reading(path, ""):
        if ending == PARQUET:
            yield from read_parquet(path, columns, hint, keep_others)
            return
        with path.open("rb") as file, gzip.open(file) if is_compressed else nullcontext(file) as stream:
            yield from TEXT[ending](cast(IO[bytes], stream), str(path), columns, hint, keep_others)


def read_parquet(
    path: Path, columns: Sequence[str] | None, hint: str = "", keep_others: bool = False
) -> Iterator[Record]:
    """Yields the rows of a parquet file; the arguments are those of `records`.

    Raises:
        DataError: If the file is damaged or lacks a column.
    """
    from pyarrow import ArrowException, float16, float32
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
            names = file.schema_arrow.names
            require_columns(names, names if columns is None else columns, str(path), hint)
            wanted = names if columns is None or keep_others else list(columns)
            types = {column: file.schema_arrow.field(column).type for column in wanted}
            short = {column: kind.to_pandas_dtype() for column, kind in types.items() if kind in (float16(), float32())}
            batches = file.iter_batches(batch_size=ROWS, columns=wanted, use_threads=False)
            for number, row in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), start=1):
                values = {column: row[column] for column in wanted}
                for column, kind in short.items():  # 0.1 in float32 is 0.1, not 0.10000000149011612
                    values[column] = None if values[column] is None else float(str(kind(values[column])))
                yield Record(f"row {number}", values)
    except (ArrowException, UnicodeDecodeError) as error:
        raise damaged(f"{path} cannot be read as parquet ({str(error).splitlines()[0].rstrip('.')}).") from error


def require_table(path: Path, key: str = "", *, also: Sequence[str] = ()) -> None:
    """Refuses a file that is missing, or has neither an ending of tables nor one of `also`.

    Raises:
        DataError: With the closest name, or with the legal endings; kind `not_found` or `unsupported`.
    """
    existing(path, key)
    ending, is_compressed = _ending(path)
    is_table = ending in ENDINGS and not (is_compressed and ending == PARQUET)
    if path.is_dir() or not (is_table or path.suffix in also):
        legal = f"{', '.join((*also, *ENDINGS))}, and {GZIP} after {', '.join(TEXT)}"
        message = f"{path} must be one file with an ending of these: {legal}. Save a spreadsheet as CSV (UTF-8)."
        raise DataError(Fault(key, "unsupported", message))


def _ending(path: Path) -> tuple[str, bool]:
    """Returns the ending that determines the format, and whether `.gz` follows it."""
    is_compressed = path.suffix.lower() == GZIP
    return (Path(path.stem) if is_compressed else path).suffix.lower(), is_compressed


def text_of(record: Record, column: str, path: Path) -> str:
    """Returns the text of a record, "" where there is none.

    Raises:
        DataError: If the column holds anything but texts.
    """
    value = record.values[column]
    if value is not None and not isinstance(value, str):
        message = f"{column!r} must be the column of texts, got {reprlib.repr(value)}."
        raise DataError(Fault("data.text", "type", f"{path}, {record.where}: {message}"))
    return value or ""


def setting_faults(data: Mapping[str, Any]) -> list[Fault]:
    """Returns which settings of `data=table` are out of range or exclude one another; reads no file."""
    faults = class_faults(data.get("classes") or ())
    val, val_size, group = data.get("val"), data.get("val_size"), data.get("group")
    named = {"text": data.get("text", "text"), "label": data.get("label", "label"), "group": group}
    for (first, column), (second, other) in combinations(named.items(), 2):
        if column == other:
            message = f"data.{first} and data.{second} both name the column {column!r}; they must differ."
            faults.append(Fault(f"data.{first}", "conflict", message))
    if group is None and data.get("val_by") == "group":
        message = "data.val_by=group needs data.group=COLUMN, the column that says which rows belong together."
        faults.append(Fault("data.group", "missing", message))
    if val is not None and val_size is not None:
        message = f"data.val_size={val_size} has no effect with data.val={val}; leave one of them out."
        faults.append(Fault("data.val_size", "no_effect", message))
    return faults


def check(data: Mapping[str, Any], *, split: str | None = None) -> None:
    """Checks settings of `data=table` and the first record of each file, before anything imports torch.

    Settings of other data sets pass. The file of the split that a trained model is evaluated on suffices.

    Raises:
        DataError: With all faults.
    """
    if data["_target_"] != TARGET:
        return
    faults, files = setting_faults(data), {name: str(data[name]) for name in SPLITS if data.get(name)}
    if split in files:
        files = {split: files[split]}
    elif "train" not in files:
        faults.append(missing_file(data))
    for name, file in files.items():
        try:
            path = Path(file).expanduser()
            require_table(path, f"data.{name}")
            group = None if split in files else data.get("group")  # a trained model needs no groups
            next(records(path, columns(data["text"], data["label"], group), COLUMNS_HINT), None)
        except DataError as error:
            faults += (replace(fault, key=fault.key or f"data.{name}") for fault in error.faults)
    if faults:
        raise DataError(*faults)


def missing_file(data: Mapping[str, Any]) -> Fault:
    """Returns the fault that the settings of `data=table` name no file to train on."""
    message = (
        f"data={data.get('name', 'table')} has no rows: type data.train=FILE data.text=COLUMN data.label=COLUMN, "
        "with a .csv, .tsv, .jsonl or .parquet file; to test a model, data.test=FILE."
    )
    return Fault("data.train", "missing", message)
