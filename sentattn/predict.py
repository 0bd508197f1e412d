"""Predict texts with a trained model: label, probabilities, attention.

usage: python -m sentattn.predict run=DIR text="This movie is amazing" [plot=FILE] [format=json]
       python -m sentattn.predict run=DIR input=FILE [output=FILE] [plot=FILE] [format=json]

  run         run directory, `latest`, or hf://USER/NAME on the Hugging Face Hub; it may also be typed without a key
  text        a text, taken as it was typed; where the model has token-to-token weights, they are shown too: as a map
              with the tokens on both axes (plot=FILE.html), as lists of rows (json) or as the largest ones
  input       file of texts: .txt (one a line) or a table, .csv, .tsv, .json, .jsonl, .parquet or .xlsx, or several
              tables as a list or a pattern; `-` reads lines of text from the standard input. For model=states a file
              or folder of states, with the table of its rows next to it, if there is one
  column      the table's column of texts, or several, which are joined, as column=[title,body]; default those of the
              table that the run was trained on, or `text`
  header      header=false: a CSV without a header, whose columns are numbers, as column=2; default header=true
              with column=, else that of the run's table
  encoding    encoding of the input, such as latin-1; default utf-8
  quotes      quotes=false: quotes of a CSV or TSV are text; quotes=true: texts of a TSV in quotes may have line breaks;
              default that of the run's table
  output      file for the predictions: .jsonl (with attention), .csv or .tsv. It has all columns and all rows of the
              input in their order, then label, probability_CLASS, unknown_words and error; where the input has such a
              column, the new one begins with predicted_. A row without a text has an empty prediction, and the
              reason is in error. A CSV has the delimiter and the byte-order mark of the first CSV of the input
  plot        picture of the attention: .html to open in a browser, .png, .pdf or .svg (of a file: its first 50
              texts)
  format      text (default) or json, one object a line; its `unknown` lists the indices of the tokens that are not in
              the model's vocabulary, `cut` is true where the text is longer than the model reads, and of a model with a
              wide part its `parts` are the logits of attention and wide
  top         top=3: the three most probable classes alone, as columns top_1, top_1_probability and so on in place of
              probability_CLASS; default all classes, in text= the ten most probable
  threshold   threshold=0.8: no label (an empty cell, null) where its probability is lower; says for how many rows
  device      cpu (default), cuda, or auto: a GPU if there is one
  batch_size  texts in a batch; default 64
  trust       trust=true loads a run with classes of your own: it can run any code that the run names

Examples:
  python -m sentattn.predict run=latest text="It's great, but slow (10/10)!"
  python -m sentattn.predict run=latest text="Slow at first, but wonderful." plot=attention.png
  python -m sentattn.predict run=latest input=reviews.csv column=review output=labels.csv
  cat reviews.txt | python -m sentattn.predict run=latest input=-
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sentattn.config import command_line, types
from sentattn.console import Progress, csv_lines
from sentattn.data.readers import tables
from sentattn.data.readers.archives import reading
from sentattn.data.readers.tables import JSON_ENDINGS, Options, as_columns
from sentattn.errors import DataError, Fault, RunError, SettingError
from sentattn.prediction.frames import free_name, prediction_columns, prediction_values
from sentattn.prediction.prediction import NO_TEXT, OPTIONS, Prediction
from sentattn.rendering import require_format, save
from sentattn.run import replacing, writing

if TYPE_CHECKING:
    from sentattn.prediction.model import Classifier

KEYS = {
    "run": "str",
    "text": "str",
    "input": "str",
    "column": "str",
    "header": "bool",
    "encoding": "str",
    "quotes": "bool",
    "output": "str",
    "plot": "str",
    "format": 'Literal["text", "json"]',
    "batch_size": "Count",
    "trust": "bool",
    **OPTIONS,
}
MAX_PLOTTED = 50
MAX_PLACES = 5
COLUMN, STDIN, TEXT = "text", "-", ".txt"
CSV, TSV = ".csv", ".tsv"
OUTPUTS = (".jsonl", CSV, TSV)
READING = Options(keep_others=True)
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
C1_CONTROL = re.compile("[\x7f-\x9f]")
"""Characters that a terminal may execute and `json` leaves as they are."""
HINT = "Name the column of texts with column=NAME; header=true reads the names from line 1, header=false numbers them."


class Row(NamedTuple):
    """A row of the input: where it is, such as `line 17`, its values by column, its text, and its prediction.

    The text is empty where the row has none; the prediction is None before, and where its text holds no token.
    """

    where: str
    values: dict[str, object]
    text: str
    prediction: Prediction | None = None


@dataclass
class Summary:
    """Counts of the rows of a file, of which there are `total` if that is known, and the predictions to draw."""

    total: int | None = None
    plotted: list[Prediction] = field(default_factory=list)
    predictions: int = 0
    without_text: list[str] = field(default_factory=list)
    tokens: int = 0
    unknown: int = 0
    cut: int = 0
    without_label: int = 0

    def count(self, rows: Iterable[Row], source: str) -> Iterator[Row]:
        """Yields rows, counting them and showing progress; raises a `DataError` at the end if none has a text."""
        with Progress() as progress:
            for number, row in enumerate(rows, start=1):
                if (prediction := row.prediction) is None:
                    self.without_text.append(row.where)
                else:
                    self.predictions += 1
                    self.tokens += len(prediction.tokens)
                    self.unknown += len(prediction.unknown)
                    self.cut += prediction.is_cut
                    self.without_label += prediction.label is None
                    if len(self.plotted) < MAX_PLOTTED:
                        self.plotted.append(prediction)
                yield row
                if source:
                    progress("predicting", number, self.total)
        if not self.predictions:
            key, typed = ("input", f"input={source}") if source else ("text", "text=")
            raise DataError(Fault(key, "missing", f"{typed} holds no word or sign to read."))

    def notes(self) -> Iterator[str]:
        """Yields warnings about the rows of a file."""
        if places := self.without_text:
            more = f" and {len(places) - MAX_PLACES:,} more" if len(places) > MAX_PLACES else ""
            listed = f"{', '.join(places[:MAX_PLACES])}{more}"
            yield f"rows without a text: {len(places):,} ({listed}); their predictions are empty"
        if self.without_label:
            yield f"texts below the threshold: {self.without_label:,} of {self.predictions:,}; they have no label"
        if self.cut:
            yield f"texts that are longer than the model reads: {self.cut:,} of {self.predictions:,}"
        if self.unknown:
            yield f"{self.unknown:,} of {self.tokens:,} tokens are not in the model's vocabulary"


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    arguments = command_line.run_first(arguments, KEYS)
    settings = command_line.raw_arguments(arguments, KEYS, required=["run"])
    _check(settings)

    from sentattn.models.states import States
    from sentattn.prediction.model import load
    from sentattn.training.signals import Signals

    run = load(settings["run"], trust=settings.get("trust", False))
    classifier = run.classifier

    source = settings.get("input", "")
    trained = run.settings.get("data", {})
    column = types.parse_names(settings.get("column", "")) or trained.get("text") or COLUMN
    header = settings.get("header", "column" in settings or trained.get("header", True))
    quotes = settings.get("quotes", trained.get("quotes"))
    options = READING._replace(header=header, encoding=settings.get("encoding", tables.UTF8), quotes=quotes)
    text = settings.get("text", "")
    columns, rows = [COLUMN], iter([Row("text", {COLUMN: text}, text)])
    is_of_states = isinstance(classifier.model.embedding, States)

    if source and is_of_states:
        columns, rows = read_states(source, classifier, options, cache=trained.get("cache_dir"))
    elif source:
        columns, rows = read_rows(source, column=column, options=options)
    summary = Summary()
    if "output" in settings and source not in ("", STDIN) and not is_of_states:
        summary.total = sum(1 for _ in read_rows(source, column=column, options=options)[1])

    typed = {key: settings[key] for key in (*OPTIONS, "batch_size") if key in settings}
    rows = summary.count(predict_rows(rows, partial(classifier.stream, pairs=not source, **typed)), source)
    if "output" in settings:
        with Signals():  # the file that was begun is removed
            like = dialect("" if is_of_states else source, column=column, options=options)
            names, top = classifier.labels, settings.get("top")
            write_predictions(Path(settings["output"]), rows, columns=columns, labels=names, top=top, dialect=like)
        print(f"{summary.predictions:,} predictions in {settings['output']}")
    else:
        _print(rows, columns, settings)
    for note in summary.notes() if source else ():
        print(note, file=sys.stderr)
    if "plot" in settings:
        save(summary.plotted, Path(settings["plot"]))
        print(f"picture in {settings['plot']}", file=sys.stderr)


def _check(settings: Mapping[str, Any]) -> None:
    """Checks which settings go together, before anything is loaded; raises a `UserError`."""
    if "input" in settings and "text" in settings:
        message = "text= and input= exclude one another; leave one out."
        raise SettingError(Fault("input", "conflict", message))
    if "input" not in settings and not settings.get("text", "").strip():
        raise SettingError(Fault("text", "missing", 'Nothing to predict: type text="..." or input=FILE.'))
    if "plot" in settings:
        require_format(Path(settings["plot"]))


def _print(rows: Iterable[Row], columns: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Prints a text with its attention, rows of a file in one line each, or JSON."""
    from sentattn.rendering import terminal

    for row in rows:
        if settings.get("format") == "json":
            print(to_json(row, columns))
        elif row.prediction is None:
            print(f"({row.where}: {NO_TEXT})")
        elif "input" in settings:
            print(terminal.line(row.prediction, settings.get("top", 1)))
        else:
            color = sys.stdout.isatty()
            width, top = shutil.get_terminal_size().columns, settings.get("top", terminal.MAX_CLASSES)
            print(terminal.render(row.prediction, color=color, width=width, top=top))


def is_lines(source: str) -> bool:
    """Whether a source has one text a line and no columns."""
    return source == STDIN or Path(source).suffix.lower() == TEXT


def read_rows(
    source: str, *, column: str | Sequence[str] = COLUMN, options: Options = READING
) -> tuple[list[str], Iterator[Row]]:
    """Returns the columns of a file, and its rows in their order, those without a text too.

    A `.txt` file and the standard input (`-`) hold one text a line; tables (CSV, parquet, ...) have a
    column of texts, or several, which are joined. Empty lines of a table are skipped. Of JSON the columns are the keys
    of all objects, for which a file is read once more.

    Raises:
        DataError: If the file cannot be read; the message names file and line.
    """
    if is_lines(source):
        return [COLUMN], _lines(source, options)
    names, paths = as_columns(column), tables.table_paths(types.parse_names(source), "input")
    columns: dict[str, None] = {}
    for path in paths:
        rows = _table_rows([path], names, options)
        for row in rows if tables.endings(path)[0] in JSON_ENDINGS else itertools.islice(rows, 1):
            columns |= dict.fromkeys(row.values)
    return list(columns), _table_rows(paths, names, options)


def read_states(
    source: str, classifier: Classifier, options: Options, *, cache: str | None = None
) -> tuple[list[str], Iterator[Row]]:
    """Returns the columns and rows of the table next to a file of states, whose rows a classifier then reads.

    Without a table, the column `row` numbers them.

    Raises:
        DataError: If the file cannot be read, its width is not that of the model, or it has other rows than the table.
    """
    from sentattn.data.datasets.states import ROW, shown
    from sentattn.data.readers.states import open_states, rows_table
    from sentattn.data.states import StateTable, StateTokenizer

    states, path = open_states(source, "input", cache), rows_table(source)
    table = StateTable([states])
    known: dict[str, Any] = {}
    tokenizer = StateTokenizer(max_length=classifier.tokenizer.max_length, clip=classifier.tokenizer.clip)
    tokenizer.find = known.get
    classifier.open(tokenizer, table)
    if path is None:
        records = [tables.Record(f"row {number}", {ROW: number}) for number in range(len(states))]
    else:
        records = list(tables.records(path, [], "", options))
    if len(records) != len(states):
        message = f"input={source} has states of {len(states):,} rows, and {path} has {len(records):,}."
        raise DataError(Fault("input", "conflict", message))

    def rows() -> Iterator[Row]:
        for number, record in enumerate(records):
            places = states.places(number)
            text = record.values.get(COLUMN)
            text, spans = shown(record, path, text if isinstance(text, str) else "", f"row {number}", len(places))
            known[text] = ((places + table.starts[0]).astype("int32"), spans)
            yield Row(record.where, record.values, text)

    return list(dict.fromkeys(name for record in records for name in record.values)), rows()


def dialect(source: str, *, column: str | Sequence[str], options: Options) -> tuple[str, bool]:
    """Returns the delimiter of a source's first file, and whether it has a byte-order mark; of no CSV a comma."""
    first = None if not source or is_lines(source) else tables.table_paths(types.parse_names(source), "input")[0]
    if first is None or tables.endings(first)[0] != CSV:
        return ",", False
    return tables.dialect(first, as_columns(column), options)


def _table_rows(paths: Sequence[Path], columns: Sequence[str], options: Options) -> Iterator[Row]:
    """Yields the rows of tables.

    So that any row can be written again, NaN and infinity become None, and half characters, which JSON can hold inside
    a list or an object, become U+FFFD.
    """
    for path, record in tables.all_records(paths, columns, HINT, options):
        place = f"{path.name}, " if len(paths) > 1 else ""
        values = {str(_writable(name)): _writable(value) for name, value in record.values.items()}
        yield Row(f"{place}{record.where}", values, tables.text_of(record, columns, path))


def _lines(source: str, options: Options) -> Iterator[Row]:
    path = Path(source)
    if source != STDIN:
        tables.require_table(path, "input", also=(TEXT,))
    with reading(path, "input"), nullcontext(sys.stdin.buffer) if source == STDIN else path.open("rb") as stream:
        lines = tables.text_lines(stream, "standard input" if source == STDIN else source, options)
        for number, line in enumerate(lines, start=1):
            text = line.rstrip("\r\n")
            yield Row(f"line {number}", {COLUMN: text}, text)


def _writable(value: object) -> object:
    """Returns a value that JSON and UTF-8 have."""
    if isinstance(value, str):
        return HALF_CHARACTER.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_writable(key): _writable(inner) for key, inner in value.items()}
    return [_writable(inner) for inner in value] if isinstance(value, list) else value


def predict_rows(rows: Iterable[Row], predict: Callable[[Iterator[str]], Iterator[Prediction]]) -> Iterator[Row]:
    """Yields all rows in their order with their predictions; `predict` may read ahead."""
    rows, read_ahead = itertools.tee(rows)
    for row, prediction in zip(rows, predict(row.text for row in read_ahead), strict=True):
        yield row._replace(prediction=prediction if prediction.tokens else None)


def to_json(row: Row, columns: Sequence[str]) -> str:
    """Returns a row as a line of JSON: its columns, then the prediction as `Prediction.to_json` has it.

    A key of the prediction that is one of the input's columns begins with `predicted_`; a column `text` replaces the
    prediction's, unless that was joined from several columns.
    """
    empty = {"text": "", "label": None, "error": NO_TEXT}
    fields = empty if row.prediction is None else row.prediction.to_json()
    if "text" in columns and (not row.text or row.text in row.values.values()):
        del fields["text"]
    values = row.values | {free_name(key, columns): value for key, value in fields.items()}
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    return C1_CONTROL.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def write_predictions(
    path: Path,
    rows: Iterable[Row],
    *,
    columns: Sequence[str],
    labels: Sequence[str],
    top: int | None = None,
    dialect: tuple[str, bool] = (",", False),
) -> None:
    """Writes rows with their predictions, atomically.

    A `.jsonl` file holds everything, attention included; `.csv` and `.tsv` hold the columns of the input, label,
    probabilities or the `top` classes, the words that are not in the vocabulary, and why a prediction is empty.
    `dialect` is the delimiter of a `.csv`, and whether it begins with a byte-order mark.

    Raises:
        RunError: If the file has another ending or cannot be written.
    """
    if path.suffix not in OUTPUTS:
        raise RunError(Fault("output", "unsupported", f"output={path} must end in {', '.join(OUTPUTS)}."))
    is_csv = path.suffix == CSV
    with (
        writing(path, "output"),
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8-sig" if is_csv and dialect[1] else "utf-8", newline="") as file,
    ):
        if is_csv or path.suffix == TSV:
            lines = csv_lines(_cells(rows, columns, labels, top), dialect[0] if is_csv else "\t")
            file.writelines(f"{line}\n" for line in lines)
        else:
            file.writelines(to_json(row, columns) + "\n" for row in rows)


def _cells(rows: Iterable[Row], columns: Sequence[str], labels: Sequence[str], top: int | None) -> Iterator[list[str]]:
    """Yields the header of a table of predictions, then its rows."""
    added = [
        *prediction_columns(labels, columns, top),
        *(free_name(name, columns) for name in ("unknown_words", "error")),
    ]
    yield [*columns, *added]
    for row in rows:
        prediction = row.prediction or Prediction.empty(row.text)
        predicted = prediction_values(prediction, labels, top)
        unknown = " ".join(prediction.tokens[token] for token in prediction.unknown)
        unknown = f" {unknown}" if unknown.startswith(("=", "+", "-", "@")) else unknown  # no formula of a spreadsheet
        values = [_cell(row.values.get(column)) for column in columns]
        values += [_share(value) if isinstance(value, float) else _cell(value) for value in predicted]
        yield [*values, unknown, "" if row.prediction else NO_TEXT]


def _share(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6f}"


def _cell(value: object) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | int | float | list | dict) else str(value)


if __name__ == "__main__":
    sys.exit(main())
