"""Read texts with a trained model: label, probabilities, and what it attended to.

usage: python -m sentattn.predict run=DIR text="This movie is amazing" [plot=FILE] [format=json]
       python -m sentattn.predict run=DIR input=FILE [output=FILE] [plot=FILE] [format=json]

  run         run directory, or `latest`; it may also stand without a key
  text        a text, taken as it was typed
  input       file of texts: .txt (one a line), .csv or .tsv (column `text`), .jsonl (key `text`)
  output      file for the predictions: .jsonl (with attention), .csv or .tsv
  plot        picture of the attention: .png, or .html to open in a browser (of a file: its first 50 texts)
  format      text (default) or json, one object a line
  batch_size  texts read at once; default 64

Examples:
  python -m sentattn.predict run=latest text="It's great, but slow (10/10)!"
  python -m sentattn.predict run=latest text="Slow at first, but wonderful." plot=attention.png
  python -m sentattn.predict run=latest input=reviews.csv output=labels.csv
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn import cli
from sentattn.errors import SettingError, UserError

if TYPE_CHECKING:
    from sentattn.insight.prediction import Prediction

KEYS = {
    "run": "str",
    "text": "str",
    "input": "str",
    "output": "str",
    "plot": "str",
    "format": 'Literal["text", "json"]',
    "batch_size": "Count",
}
MOST_PLOTTED = 50


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return cli.run(_command, argv)


def _command(arguments: list[str]) -> None:
    arguments = [word if "=" in word or word.startswith("-") else f"run={word}" for word in arguments]
    given = cli.raw_arguments(arguments, KEYS, required=["run"])
    _require_sense(given)

    from sentattn.run import find

    classifier = find(given["run"]).classifier
    predictions = classifier.stream(_texts(given), batch_size=given.get("batch_size", 64))
    plotted: list[Prediction] = []
    if "plot" in given:
        plotted = list(islice(predictions, MOST_PLOTTED))
        predictions = _chain(plotted, predictions)
    if "output" in given:
        from sentattn.text_files import write_predictions

        count = write_predictions(Path(given["output"]), predictions)
        print(f"{count:,} predictions in {given['output']}")
    else:
        _print(predictions, given)
    if "plot" in given:
        from sentattn.insight import heatmap

        heatmap.save(plotted, Path(given["plot"]))
        print(f"picture in {given['plot']}", file=sys.stderr)


def _require_sense(given: Mapping[str, Any]) -> None:
    """Refuses what does not go together, all at once and before anything is loaded.

    Raises:
        SettingError: With all faults.
    """
    faults = []
    if ("text" in given) == ("input" in given):
        both = "text= and input= are both given; leave one out." if "text" in given else ""
        faults.append(both or 'Nothing to read: type text="..." or input=FILE.')
    if "text" in given and not given["text"].strip():
        faults.append("text= is empty; type what is to be read.")
    if "output" in given and "format" in given:
        faults.append(f"format={given['format']} has no effect on output={given['output']}; the ending decides there.")
    if "plot" in given:
        from sentattn.insight import heatmap

        try:
            heatmap.writer(Path(given["plot"]))
        except UserError as error:
            faults += error.faults
    if faults:
        raise SettingError(*faults)


def _texts(given: Mapping[str, Any]) -> Iterator[str]:
    """Yields the texts asked for, showing progress on a file."""
    if "text" in given:
        yield given["text"]
        return
    from sentattn.progress import Progress
    from sentattn.text_files import read_texts

    with Progress() as progress:
        for number, text in enumerate(read_texts(Path(given["input"])), start=1):
            yield text
            progress("reading", number, None)


def _chain(first: list[Prediction], rest: Iterable[Prediction]) -> Iterator[Prediction]:
    yield from first
    yield from rest


def _print(predictions: Iterable[Prediction], given: Mapping[str, Any]) -> None:
    """Prints a text with its attention, texts of a file in one line each, or JSON."""
    from sentattn.insight import terminal

    for prediction in predictions:
        if given.get("format") == "json":
            print(json.dumps(prediction.to_json(), ensure_ascii=False))
        elif "input" in given:
            print(terminal.line(prediction))
        else:
            color = sys.stdout.isatty()
            print(terminal.render(prediction, color=color, width=shutil.get_terminal_size().columns))


if __name__ == "__main__":
    sys.exit(main())
