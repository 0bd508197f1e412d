"""Files of texts in, files of predictions out; both are streamed."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sentattn.errors import DataError, RunError

if TYPE_CHECKING:
    from sentattn.insight.prediction import Prediction

COLUMN = "text"
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_texts(path: Path) -> Iterator[str]:
    """Yields the texts of a file in its order.

    A `.txt` file holds one text a line; `.csv` and `.tsv` have a column `text`; `.jsonl` objects have
    a key `text`.

    Raises:
        DataError: If the file cannot be read or a text is empty; the sentence names file and line.
    """
    readers = {".txt": _lines, ".csv": _table, ".tsv": _table, ".jsonl": _json_lines}
    if path.suffix not in readers:
        raise DataError(f"input={path} has an unknown ending; legal are {', '.join(readers)}.")
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, text in readers[path.suffix](file, path):
                if not text.strip():
                    raise DataError(f"{path}, line {number}: the text is empty; remove the line or fill it.")
                yield text
    except OSError as error:
        raise DataError(f"input={path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 after line {number} ({error.reason}); save it as UTF-8.") from error
    except csv.Error as error:
        raise DataError(f"{path}, after line {number}: {error}.") from error
    if not number:
        raise DataError(f"input={path} holds no text.")


def _lines(file: IO[str], path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, start=1):
        yield number, line.rstrip("\r\n")


def _table(file: IO[str], path: Path) -> Iterator[tuple[int, str]]:
    reader = csv.DictReader(file, delimiter=DELIMITERS[path.suffix], strict=True)
    if COLUMN not in (reader.fieldnames or ()):
        raise DataError(f"{path} has no column {COLUMN!r}; its columns are: {', '.join(reader.fieldnames or ())}.")
    for row in reader:
        yield reader.line_num, row[COLUMN] or ""


def _json_lines(file: IO[str], path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, start=1):
        try:
            text = json.loads(line)[COLUMN]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}, line {number}: no JSON object with a key {COLUMN!r}.") from error
        yield number, str(text)


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
