"""Rows in memory: data frames and data sets, which `data=table` reads as files while a training lasts."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sentattn.config.schema import AUTO_RESUME, IN_MEMORY
from sentattn.config.types import Node, Tree
from sentattn.data.readers import tables
from sentattn.data.readers.hub import SPLITS
from sentattn.errors import DataError, Fault, SettingError, suggestion

FRAMES = "a data frame of pandas, polars or pyarrow, a data set of Hugging Face, or a dictionary of columns"


def with_table(words: Sequence[str]) -> list[str]:
    """Returns the arguments of a training on rows in memory: with `data=table`, unless others name the data.

    Raises:
        SettingError: If they name files too.
    """
    typed = {word.partition("=")[0] for word in words if word != f"resume={AUTO_RESUME}"}
    if files := sorted(typed & {f"data.{split}" for split in tables.SPLITS}):
        message = f"{files[0]} names a file, and data= holds the rows: leave one of them out."
        raise SettingError(Fault(files[0], "conflict", message))
    return [*words] if typed & {"data", "from", "resume"} else ["data=table", *words]


@contextmanager
def written(data: Any, settings: Node) -> Iterator[Tree]:
    """Writes rows as temporary tables, and yields the settings of `data=table` that read them.

    Args:
        data: A data frame, a data set or a dictionary of columns; or a dictionary of these by split.
        settings: Those of `data=table`, with the names of the columns.

    Raises:
        SettingError: If the settings are of other data.
        DataError: If the rows are none of these, or lack a column.
    """
    from pyarrow import parquet

    if settings["_target_"] != tables.TARGET:
        message = f"data= holds rows of data=table, and the settings have data={settings['name']}: type data=table."
        raise SettingError(Fault("data", "conflict", message))
    is_divided = isinstance(data, Mapping) and column_names(data.get("train")) is not None
    splits = data if is_divided else {"train": data}
    if unknown := [name for name in splits if name not in SPLITS]:
        message = (
            f"The splits in data= must be train, val and test, got {unknown[0]!r}.{suggestion(unknown[0], SPLITS)}"
        )
        raise DataError(Fault("data", "unknown", message))
    group = settings.get("group")
    columns = [*tables.as_columns(settings["text"]), settings["label"], *([] if group is None else [group])]
    with TemporaryDirectory(prefix=IN_MEMORY) as folder:
        files = {SPLITS[name]: str(Path(folder, f"{SPLITS[name]}.parquet")) for name in splits}
        for name, frame in splits.items():
            parquet.write_table(arrow_table(frame, columns, f"data= ({name})"), files[SPLITS[name]])
        yield {**settings, **dict.fromkeys(tables.SPLITS), **files}


def column_names(frame: Any) -> list[Any] | None:
    """Returns the names of the columns of a frame, or None if it is none."""
    if isinstance(frame, Mapping):
        return list(frame)
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    return None if names is None else list(names)


def arrow_table(frame: Any, columns: Sequence[str], where: str) -> Any:
    """Returns columns of a frame as a table of pyarrow, with the names of named classes.

    Raises:
        DataError: If it is no frame, or lacks a column; the message begins with `where` it was passed.
    """
    import pyarrow as pa

    if (names := column_names(frame)) is None:
        raise DataError(Fault("data", "type", f"{where} must be {FRAMES}, got {reprlib.repr(frame)}."))
    tables.require_columns([str(name) for name in names], columns, where, tables.COLUMNS_HINT)
    original, features, arrays = {str(name): name for name in names}, getattr(frame, "features", {}), {}
    try:
        for column in columns:
            values = frame[original[column]]
            values = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
            if classes := getattr(features.get(column), "names", None):
                values = [None if value is None or value < 0 else classes[value] for value in values]
            arrays[column] = pa.array(values, from_pandas=True)
        return pa.table(arrays)
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        message = f"{where}: the columns must be equally long, each with values of one type"
        raise DataError(Fault("data", "type", f"{message} ({str(error).splitlines()[0].rstrip('.')}).")) from error
