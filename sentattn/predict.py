"""Predict texts with a trained model: label, probabilities, attention.

usage: python -m sentattn.predict run=DIR text="This movie is amazing" [plot=FILE] [format=json]
       python -m sentattn.predict run=DIR input=FILE [output=FILE] [plot=FILE] [format=json]

  run         run directory, or `latest`; it may also be typed without a key
  text        a text, taken as it was typed
  input       file of texts: .txt (one a line) or a table, .csv, .tsv, .jsonl or .parquet; `-` reads lines of text
              from the standard input
  column      the table's column of texts; default that of the table that the run was trained on, or `text`
  output      file for the predictions: .jsonl (with attention), .csv or .tsv. It has all columns and all rows of the
              input in their order, then label, probability_CLASS, unknown_words and error; where the input has such a
              column, the new one begins with predicted_. A row without a text has an empty prediction, and the
              reason is in error
  plot        picture of the attention: .html to open in a browser, .png, .pdf or .svg (of a file: its first 50
              texts, with pairs its first 10)
  format      text (default) or json, one object a line; its `unknown` lists the indices of the tokens that are not in
              the model's vocabulary, and of a model with a wide part its `parts` are the logits of attention and wide,
              and its `ngrams` those that change them most
  pairs       true or false: token-to-token weights too, where the model has them, as a map with the tokens
              on both axes (plot=), as lists of rows (json) or as the largest ones (text); default true
              for text=, false for input=, since they grow with the square of the length
  batch_size  texts in a batch; default 64 (with pairs 1)
  trust       trust=true loads a run with classes of your own: it can run any code that the run names

Examples:
  python -m sentattn.predict run=latest text="It's great, but slow (10/10)!"
  python -m sentattn.predict run=latest text="Slow at first, but wonderful." plot=attention.png
  python -m sentattn.predict run=latest input=reviews.csv column=review output=labels.csv
  python -m sentattn.predict run=latest input=reviews.csv output=pairs.jsonl pairs=true
  cat reviews.txt | python -m sentattn.predict run=latest input=-
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config import command_line, types
from sentattn.errors import DataError, Fault, RunError, SettingError

if TYPE_CHECKING:
    from sentattn.prediction.files import Row
    from sentattn.prediction.prediction import Prediction

KEYS = {
    "run": "str",
    "text": "str",
    "input": "str",
    "column": "str",
    "output": "str",
    "plot": "str",
    "format": 'Literal["text", "json"]',
    "pairs": "bool",
    "batch_size": "Count",
    "trust": "bool",
}
MAX_PLOTTED, MAX_PLOTTED_WITH_PAIRS = 50, 10
MAX_PLACES = 5


@dataclass
class Summary:
    """Counts of the rows of a file, and the predictions to draw."""

    max_plotted: int
    plotted: list[Prediction] = field(default_factory=list)
    predictions: int = 0
    without_text: list[str] = field(default_factory=list)
    tokens: int = 0
    unknown: int = 0

    def count(self, rows: Iterable[Row], source: str) -> Iterator[Row]:
        """Yields rows, counting them; raises a `DataError` at the end if none has a text."""
        for row in rows:
            if (prediction := row.prediction) is None:
                self.without_text.append(row.where)
            else:
                self.predictions += 1
                self.tokens += len(prediction.tokens)
                self.unknown += len(prediction.unknown)
                if len(self.plotted) < self.max_plotted:
                    self.plotted.append(prediction)
            yield row
        if not self.predictions:
            key, typed = ("input", f"input={source}") if source else ("text", "text=")
            raise DataError(Fault(key, "missing", f"{typed} holds no word or sign to read."))

    def notes(self) -> Iterator[str]:
        """Yields warnings about the rows of a file."""
        if places := self.without_text:
            more = f" and {len(places) - MAX_PLACES:,} more" if len(places) > MAX_PLACES else ""
            listed = f"{', '.join(places[:MAX_PLACES])}{more}"
            yield f"rows without a text: {len(places):,} ({listed}); their predictions are empty"
        if self.unknown:
            yield f"{self.unknown:,} of {self.tokens:,} tokens are not in the model's vocabulary"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    arguments = command_line.run_first(arguments, KEYS)
    settings = command_line.raw_arguments(arguments, KEYS, required=["run"])
    _check(settings)

    from sentattn.prediction.model import load

    run = load(settings["run"], trust=settings.get("trust", False))
    classifier = run.classifier

    from sentattn.prediction.files import COLUMN, Row, column_names, predict_rows, write_predictions

    source = settings.get("input", "")
    column = settings.get("column") or run.settings.get("data", {}).get("text") or COLUMN
    rows = _rows(source, column) if source else iter([Row("text", {COLUMN: settings["text"]}, settings["text"])])
    columns = column_names(source, column=column) if source else [COLUMN]
    pairs = settings.get("pairs", not source and _shows_pairs(settings))
    summary = Summary(max_plotted=MAX_PLOTTED_WITH_PAIRS if pairs else MAX_PLOTTED)

    def predict(texts: Iterator[str]) -> Iterator[Prediction]:
        for prediction in classifier.stream(texts, batch_size=settings.get("batch_size", 64), pairs=pairs):
            if settings.get("pairs") and prediction.tokens and prediction.pairs is None:
                message = f"pairs=true: the model {classifier.model.name} has no token-to-token weights; leave it out."
                raise RunError(Fault("pairs", "unsupported", message))
            yield prediction

    rows = summary.count(predict_rows(rows, predict), source)
    if "output" in settings:
        write_predictions(Path(settings["output"]), rows, columns=columns, labels=classifier.labels)
        print(f"{summary.predictions:,} predictions in {settings['output']}")
    else:
        _print(rows, columns, settings)
    for note in summary.notes() if source else ():
        print(note, file=sys.stderr)
    if "plot" in settings:
        from sentattn.rendering import save

        note = save(summary.plotted, Path(settings["plot"]))
        print(f"picture in {settings['plot']}", *filter(None, [note]), sep="; ", file=sys.stderr)


def _check(settings: Mapping[str, Any]) -> None:
    """Checks which settings go together, before anything is loaded; raises a `SettingError` with all faults."""
    typed = {key: f"{key}={types.as_typed(value)}" for key, value in settings.items()}
    is_input, is_text = "input" in settings, bool(settings.get("text", "").strip())
    is_table = is_input and settings["input"] != "-" and Path(settings["input"]).suffix != ".txt"
    no_pairs = "pairs" in settings and not _shows_pairs(settings)
    batch_of_one = settings.get("pairs") and "batch_size" in settings and not no_pairs
    places = "pairs are shown by text=... on the terminal, format=json, plot=FILE and output=FILE.jsonl"
    checks = [
        ("input", "conflict", is_input and "text" in settings, "text= and input= exclude one another; leave one out."),
        ("text", "missing", not is_input and not is_text, 'Nothing to predict: type text="..." or input=FILE.'),
        ("column", "no_effect", not is_table, "has no effect without input=TABLE; leave it out."),
        ("format", "no_effect", "output" in settings, "has no effect on output=, whose ending decides."),
        ("pairs", "no_effect", no_pairs, f"has no effect here; {places}."),
        ("batch_size", "no_effect", batch_of_one, "has no effect with pairs=true: a batch is one text then."),
    ]
    faults = [
        Fault(key, kind, f"{typed[key]} {message}" if kind == "no_effect" else message)
        for key, kind, is_wrong, message in checks
        if is_wrong and (key in settings or kind == "missing")
    ]
    if faults:
        raise SettingError(*faults)
    if "plot" in settings:
        from sentattn.rendering import require_format

        require_format(Path(settings["plot"]))


def _shows_pairs(settings: Mapping[str, Any]) -> bool:
    """Whether the output has a place for token-to-token weights."""
    if "plot" in settings:
        return True
    if "output" in settings:
        return Path(settings["output"]).suffix == ".jsonl"
    return "text" in settings or settings.get("format") == "json"


def _rows(source: str, column: str) -> Iterator[Row]:
    """Yields the rows of a file, showing progress."""
    from sentattn.console import Progress
    from sentattn.prediction.files import read_rows

    with Progress() as progress:
        for number, row in enumerate(read_rows(source, column=column), start=1):
            yield row
            progress("reading", number, None)


def _print(rows: Iterable[Row], columns: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Prints a text with its attention, rows of a file in one line each, or JSON."""
    from sentattn.prediction.files import json_line
    from sentattn.prediction.prediction import NO_TEXT
    from sentattn.rendering import terminal

    for row in rows:
        if settings.get("format") == "json":
            print(json_line(row, columns))
        elif row.prediction is None:
            print(f"({row.where}: {NO_TEXT})")
        elif "input" in settings:
            print(terminal.line(row.prediction))
        else:
            color = sys.stdout.isatty()
            print(terminal.render(row.prediction, color=color, width=shutil.get_terminal_size().columns))


if __name__ == "__main__":
    sys.exit(main())
