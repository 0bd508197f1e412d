"""Data frames: their texts; and the columns of predictions, of frames and of files. Imports no library of frames."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sentattn.data.readers.tables import as_columns, joined
from sentattn.errors import DataError, Fault
from sentattn.prediction.prediction import Prediction

Columns: TypeAlias = str | Sequence[str]
"""Name of the column of texts, or of several, whose texts are joined."""
PANDAS_MISSING = ("NAType", "NaTType")
"""Classes of pandas' missing values; pandas is an extra."""


def read_texts(source: Any, *, text: Columns | None, default: Columns) -> tuple[Iterable[object], Any]:
    """Returns the texts of one text, a list, a series or a data frame, and the frame, or None if there is none.

    Frames of polars and pyarrow and data sets of Hugging Face become frames of pandas.

    Raises:
        DataError: If the data frame does not have one such column of each name.
    """
    frame = source.to_pandas() if hasattr(source, "to_pandas") else source
    if not isinstance(frame, Mapping) and not hasattr(frame, "assign"):
        return [frame] if isinstance(frame, str) else frame, None
    names, wanted = list(frame), as_columns(default if text is None else text)
    for column in wanted:
        if names.count(column) != 1:
            message = f"text={column} must name one column; there are {', '.join(map(repr, names))}."
            raise DataError(Fault("text", "missing", f"{message} Type text=COLUMN next to the frame."))
    if len(wanted) == 1:
        return frame[wanted[0]], frame
    return [joined(row) for row in zip(*(as_texts(frame[column]) for column in wanted), strict=True)], frame


def as_texts(values: Iterable[object]) -> Iterator[str]:
    """Yields texts, "" for a missing value; refuses other values, such as numbers and bytes, by their place."""
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str) and not _is_missing(value):
            raise DataError(Fault("text", "type", f"Text {number} is no text: {reprlib.repr(value)}."))
        yield value if isinstance(value, str) else ""


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in PANDAS_MISSING


def prediction_columns(labels: Sequence[str], columns: Collection[str], top: int | None = None) -> list[str]:
    """Returns the names of the columns of predictions next to those of the input: the label, then each probability.

    With `top` the most probable classes follow the label, each with its probability.
    """
    ranks = range(1, min(top or 0, len(labels)) + 1)
    ranked = [name for rank in ranks for name in (f"top_{rank}", f"top_{rank}_probability")]
    names = ["label", *(ranked or (f"probability_{label}" for label in labels))]
    return [free_name(name, columns) for name in names]


def prediction_values(prediction: Prediction, labels: Sequence[str], top: int | None = None) -> list[Any]:
    """Returns the values of these columns, None and NaN where the text has no token."""
    if top is None:
        return [prediction.label, *(prediction.probabilities.get(label, math.nan) for label in labels)]
    missing = [None, math.nan] * min(top, len(labels))
    return [prediction.label, *([value for pair in prediction.ranked(top) for value in pair] or missing)]


def free_name(name: str, columns: Collection[str]) -> str:
    """Returns a name for a column of the output that is none of the input's."""
    while name in columns:
        name = f"predicted_{name}"
    return name
