"""Data frames of pandas, polars, pyarrow and Hugging Face, and dictionaries of columns; imports none of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sentattn.data.readers.tables import as_columns, joined
from sentattn.errors import DataError, Fault, SettingError


def read_texts(
    source: Any, *, text: str | Sequence[str] | None, default: str | Sequence[str]
) -> tuple[Iterable[object], list[str] | None]:
    """Returns the texts of one text, a list, a series or a data frame, and the names of the columns of the last.

    `text` is the data frame's column of texts, or several, whose texts are joined; None for the default.

    Raises:
        DataError: If the data frame does not have one such column of each name.
        SettingError: If `text` is set and the source has no columns.
    """
    if isinstance(source, str):
        source = [source]
    names = source if isinstance(source, Mapping) else getattr(source, "column_names", None)
    names = getattr(source, "columns", None) if names is None else names
    wanted = as_columns(default if text is None else text)
    if names is not None:
        names = list(names)
        for column in wanted:
            if names.count(column) != 1:
                message = f"text={column} must name one column; there are {', '.join(map(repr, names))}."
                raise DataError(Fault("text", "missing", f"{message} Type text=COLUMN next to the frame."))
        if len(wanted) > 1:
            rows = zip(*(read_texts(source[column], text=None, default="")[0] for column in wanted), strict=True)
            return [joined(part for part in row if isinstance(part, str)) for row in rows], names
        source = source[wanted[0]]
    elif text is not None:
        message = f"text={text} has no effect without a data frame: leave it out."
        raise SettingError(Fault("text", "no_effect", message))
    return source.to_pylist() if hasattr(source, "to_pylist") else source, names


def prediction_columns(labels: Sequence[str], columns: Collection[str]) -> list[str]:
    """Returns the names of the columns of predictions next to those of the input: the label, then each probability."""
    return [free_name(name, columns) for name in ("label", *(f"probability_{label}" for label in labels))]


def free_name(name: str, columns: Collection[str]) -> str:
    """Returns a name for a column of the output that is none of the input's."""
    while name in columns:
        name = f"predicted_{name}"
    return name


def with_columns(frame: Any, columns: Mapping[str, list[Any]]) -> Any:
    """Returns a frame of the same type with more columns, in which None is a missing value.

    Raises:
        DataError: If the frame is of a type that has no known way to add columns.
    """
    if isinstance(frame, Mapping):
        return {**frame, **columns}
    if hasattr(frame, "assign"):  # pandas
        label, *shares = columns
        return frame.assign(**{label: columns[label]}, **{name: np.array(columns[name], float) for name in shares})
    if hasattr(frame, "hstack"):  # polars
        return frame.hstack(type(frame)(columns))
    if not hasattr(frame, "add_column"):
        message = f"columns cannot be added to a {type(frame).__name__}: predict its column of texts, a list or series."
        raise DataError(Fault("texts", "unsupported", message))
    for name, values in columns.items():
        is_arrow = hasattr(frame, "append_column")
        frame = frame.append_column(name, [values]) if is_arrow else frame.add_column(name, values)
    return frame
