"""Data frames: their texts; and the columns of predictions, of frames and of files. Imports no library of frames."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sentattn.data.readers.tables import as_columns, joined
from sentattn.errors import DataError, Fault, SettingError
from sentattn.prediction.prediction import Prediction

Columns: TypeAlias = str | Sequence[str]
"""Name of the column of texts, or of several, whose texts are joined."""


def read_texts(source: Any, *, text: Columns | None, default: Columns) -> tuple[Iterable[object], Any]:
    """Returns the texts of one text, a list, a series or a data frame, and the frame, or None if there is none.

    Frames of polars and pyarrow and data sets of Hugging Face become frames of pandas.

    Raises:
        DataError: If the data frame does not have one such column of each name.
        SettingError: If `text` is set and the source has no columns.
    """
    frame = source.to_pandas() if hasattr(source, "to_pandas") else source
    if not isinstance(frame, Mapping) and not hasattr(frame, "assign"):
        if text is not None:
            message = f"text={text} has no effect without a data frame: leave it out."
            raise SettingError(Fault("text", "no_effect", message))
        return [frame] if isinstance(frame, str) else frame, None
    names, wanted = list(frame), as_columns(default if text is None else text)
    for column in wanted:
        if names.count(column) != 1:
            message = f"text={column} must name one column; there are {', '.join(map(repr, names))}."
            raise DataError(Fault("text", "missing", f"{message} Type text=COLUMN next to the frame."))
    if len(wanted) == 1:
        return frame[wanted[0]], frame
    rows = zip(*(frame[column] for column in wanted), strict=True)
    return [joined(part for part in row if isinstance(part, str)) for row in rows], frame


def prediction_columns(labels: Sequence[str], columns: Collection[str]) -> list[str]:
    """Returns the names of the columns of predictions next to those of the input: the label, then each probability."""
    return [free_name(name, columns) for name in ("label", *(f"probability_{label}" for label in labels))]


def prediction_values(prediction: Prediction, labels: Sequence[str]) -> list[Any]:
    """Returns the values of these columns, None and NaN where the text has no token."""
    return [prediction.label, *(prediction.probabilities.get(label, math.nan) for label in labels)]


def free_name(name: str, columns: Collection[str]) -> str:
    """Returns a name for a column of the output that is none of the input's."""
    while name in columns:
        name = f"predicted_{name}"
    return name
