"""Files of texts in, files of predictions out, row by row."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sentattn.data.readers.tables import records, require_table, text_lines, text_of
from sentattn.errors import DataError, Fault, RunError
from sentattn.prediction.prediction import NO_TEXT
from sentattn.run import replacing, writing

if TYPE_CHECKING:
    from sentattn.prediction.prediction import Prediction

COLUMN, STDIN, TEXT = "text", "-", ".txt"
JSON = (".jsonl", ".ndjson", ".json")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
OUTPUTS = (".jsonl", *DELIMITERS)
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
HINT = "Name the column of texts with column=NAME."


class Row(NamedTuple):
    """A row of the input: where it is, such as `line 17`, its values by column, its text, and its prediction.

    The text is empty where the row has none; the prediction is None before, and where its text holds no token.
    """

    where: str
    values: dict[str, object]
    text: str
    prediction: Prediction | None = None


def is_lines(source: str) -> bool:
    """Whether a source has one text a line and no columns."""
    return source == STDIN or Path(source).suffix == TEXT


def read_rows(source: str, *, column: str = COLUMN) -> Iterator[Row]:
    """Yields the rows of a file in its order, those without a text too.

    A `.txt` file and the standard input (`-`) hold one text a line; a table (CSV, TSV, JSON lines, parquet) has a
    column of texts. Empty lines of a table are skipped. So that any row can be written again, NaN and infinity become
    None, and half characters, which JSON can hold inside a list or an object, become U+FFFD.

    Raises:
        DataError: If the file cannot be read; the message names file and line.
    """
    path = Path(source)
    if source != STDIN:
        require_table(path, "input", also=(TEXT,))
    if not is_lines(source):
        for record in records(path, [column], HINT, keep_others=True):
            values = {str(_writable(name)): _writable(value) for name, value in record.values.items()}
            yield Row(record.where, values, text_of(record, column, path))
        return
    try:
        with nullcontext(sys.stdin.buffer) if source == STDIN else path.open("rb") as stream:
            lines = text_lines(stream, "standard input" if source == STDIN else source)
            for number, line in enumerate(lines, start=1):
                text = line.rstrip("\r\n")
                yield Row(f"line {number}", {COLUMN: text}, text)
    except OSError as error:
        raise DataError(Fault("input", "unreadable", f"input={source} cannot be read: {error.strerror}.")) from error


def _writable(value: object) -> object:
    """Returns a value that JSON and UTF-8 have."""
    if isinstance(value, str):
        return HALF_CHARACTER.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_writable(key): _writable(inner) for key, inner in value.items()}
    return [_writable(inner) for inner in value] if isinstance(value, list) else value


def column_names(source: str, *, column: str = COLUMN) -> list[str]:
    """Returns the columns of the input in their order: those of any row, since objects of JSON lines may differ."""
    if is_lines(source):
        return [COLUMN]
    rows = read_rows(source, column=column)
    if not {*JSON} & {*Path(source).suffixes}:
        return list(next((row.values for row in rows), {column: ""}))
    return list(dict.fromkeys(name for row in rows for name in row.values))


def predict_rows(rows: Iterable[Row], predict: Callable[[Iterator[str]], Iterator[Prediction]]) -> Iterator[Row]:
    """Yields all rows in their order with their predictions; `predict` may read ahead."""
    waiting: deque[Row] = deque()

    def texts() -> Iterator[str]:
        for row in rows:
            waiting.append(row)
            yield row.text

    for prediction in predict(texts()):
        yield waiting.popleft()._replace(prediction=prediction if prediction.tokens else None)


def to_json(row: Row, columns: Sequence[str]) -> dict[str, object]:
    """Returns a row as an object: its columns, then the prediction as `Prediction.to_json` has it.

    A key of the prediction that is one of the input's columns begins with `predicted_`; a column `text` replaces the
    prediction's.
    """
    empty = {"text": "", "label": None, "error": NO_TEXT}
    fields = empty if row.prediction is None else row.prediction.to_json()
    if "text" in columns:
        del fields["text"]
    return row.values | {_free(key, columns): value for key, value in fields.items()}


def json_line(row: Row, columns: Sequence[str]) -> str:
    """Returns a row with its prediction as a line of JSON."""
    return json.dumps(to_json(row, columns), ensure_ascii=False, allow_nan=False, default=str)


def _free(name: str, columns: Sequence[str]) -> str:
    """Returns a name for a column of the output that is none of the input's."""
    while name in columns:
        name = f"predicted_{name}"
    return name


def write_predictions(path: Path, rows: Iterable[Row], *, columns: Sequence[str], labels: Sequence[str]) -> None:
    """Writes rows with their predictions, atomically.

    A `.jsonl` file holds everything, attention included; `.csv` and `.tsv` hold the columns of the input, label,
    probabilities, the words that are not in the vocabulary, and why a prediction is empty.

    Raises:
        RunError: If the file has another ending or cannot be written.
    """
    if path.suffix not in OUTPUTS:
        raise RunError(Fault("output", "unsupported", f"output={path} must end in {', '.join(OUTPUTS)}."))
    with (
        writing(path, "output"),
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        if path.suffix in DELIMITERS:
            writer = csv.writer(file, delimiter=DELIMITERS[path.suffix], lineterminator="\n")
            writer.writerows(_cells(rows, columns, labels))
        else:
            file.writelines(json_line(row, columns) + "\n" for row in rows)


def _cells(rows: Iterable[Row], columns: Sequence[str], labels: Sequence[str]) -> Iterator[list[str]]:
    """Yields the header of a table of predictions, then its rows."""
    added = ["label", *(f"probability_{label}" for label in labels), "unknown_words", "error"]
    yield [*columns, *(_free(name, columns) for name in added)]
    for row in rows:
        values = [_cell(row.values.get(column)) for column in columns]
        if (prediction := row.prediction) is None:
            yield [*values, *[""] * (len(added) - 1), NO_TEXT]
        else:
            shares = [f"{prediction.probabilities[label]:.6f}" for label in labels]
            unknown = " ".join(prediction.tokens[token] for token in prediction.unknown)
            yield [*values, str(prediction.label), *shares, unknown, ""]


def _cell(value: object) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | int | float | list | dict) else str(value)
