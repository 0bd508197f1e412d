"""Files of texts in, files of predictions out; both are streamed."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sentattn.data.tables import records, require_table, text_of
from sentattn.data.text import LINE_BREAK
from sentattn.data.text_tables import text_lines
from sentattn.errors import DataError, RunError

if TYPE_CHECKING:
    from sentattn.insight.prediction import Prediction

COLUMN = "text"
TEXT = ".txt"
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_texts(path: Path, *, column: str = COLUMN, left_out: Callable[[str], None]) -> Iterator[str]:
    """Yields the texts of a file in its order.

    A `.txt` file holds one text a line; a table (CSV, TSV, JSON lines, parquet) has a column of texts. Rows of a table
    without a text are left out.

    Args:
        path: The file.
        column: The column of texts, for a table.
        left_out: Is told where a row stands that is left out, such as `line 17`.

    Raises:
        DataError: If the file cannot be read or holds no text, or a line of a `.txt` file is empty; the sentence
            names file and line.
    """
    require_table(path, "input", also=(TEXT,))
    texts = _lines(path) if path.suffix == TEXT else _column(path, column, left_out)
    first = next(texts, None)
    if first is None:
        raise DataError(f"input={path} holds no text.")
    yield first
    yield from texts


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(text_lines(file, str(path)), start=1):
                if _is_blank(line):
                    raise DataError(f"{path}, line {number}: the text is empty; remove the line or fill it.")
                yield line.rstrip("\r\n")
    except OSError as error:
        raise DataError(f"input={path} cannot be read: {error.strerror}.") from error


def _column(path: Path, column: str, left_out: Callable[[str], None]) -> Iterator[str]:
    for record in records(path, [column], "Name the column of texts with column=NAME."):
        text = text_of(record, column, path)
        if _is_blank(text):
            left_out(record.where)
        else:
            yield text


def _is_blank(text: str) -> bool:
    """Whether a text holds no token, HTML breaks being spaces."""
    return not re.sub(LINE_BREAK, " ", text).strip()


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> int:
    """Writes a file of predictions at once or not at all, and returns how many there are.

    A `.jsonl` file holds everything, attention included; `.csv` and `.tsv` hold text, label and
    probabilities.

    Raises:
        RunError: If the file cannot be written.
    """
    writers: dict[str, Callable[[IO[str], Iterable[Prediction], str], int]] = {
        ".jsonl": _write_json_lines,
        ".csv": _write_table,
        ".tsv": _write_table,
    }
    if path.suffix not in writers:
        raise RunError(f"output={path} has an unknown ending; legal are {', '.join(writers)}.")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            count = writers[path.suffix](file, predictions, path.suffix)
        os.replace(beside, path)
    except OSError as error:
        raise RunError(f"output={path} cannot be written: {error.strerror}.") from error
    finally:
        beside.unlink(missing_ok=True)
    return count


def _write_json_lines(file: IO[str], predictions: Iterable[Prediction], suffix: str) -> int:
    count = 0
    for prediction in predictions:
        file.write(json.dumps(prediction.to_json(), ensure_ascii=False) + "\n")
        count += 1
    return count


def _write_table(file: IO[str], predictions: Iterable[Prediction], suffix: str) -> int:
    writer = csv.writer(file, delimiter=DELIMITERS[suffix], lineterminator="\n")
    count = 0
    for count, prediction in enumerate(predictions, start=1):
        if count == 1:
            writer.writerow([COLUMN, "label", *(f"probability_{label}" for label in prediction.probabilities)])
        writer.writerow([prediction.text, prediction.label, *(f"{p:.6f}" for p in prediction.probabilities.values())])
    return count
