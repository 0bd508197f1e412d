"""Read texts with a trained model: label, probabilities, and what it attended to.

usage: python -m sentattn.predict run=DIR text="This movie is amazing" [plot=FILE] [format=json]
       python -m sentattn.predict run=DIR input=FILE [output=FILE] [plot=FILE] [format=json]

  run         run directory, or `latest`; it may also stand without a key
  text        a text, taken as it was typed
  input       file of texts: .txt (one a line) or a table, .csv, .tsv, .jsonl or .parquet
  column      the table's column of texts; default that of the table that the run was trained on, or `text`
  output      file for the predictions: .jsonl (with attention), .csv or .tsv
  plot        picture of the attention: .png, or .html to open in a browser (of a file: its first 50 texts,
              with pairs its first 10)
  format      text (default) or json, one object a line
  pairs       true or false: token-to-token weights too, where the model has them, as a map with the tokens
              on both axes (plot=), as lists of rows (json) or as the heaviest ones (text); default true
              for text=, false for input=, since they grow with the square of the length
  batch_size  texts read at once; default 64 (with pairs one at a time)
  trust       trust=true loads a run with classes of your own: it can run any code that the run names

Examples:
  python -m sentattn.predict run=latest text="It's great, but slow (10/10)!"
  python -m sentattn.predict run=latest text="Slow at first, but wonderful." plot=attention.png
  python -m sentattn.predict run=latest input=reviews.csv column=review output=labels.csv
  python -m sentattn.predict run=latest input=reviews.csv output=pairs.jsonl pairs=true
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config import command_line, types
from sentattn.errors import RunError, SettingError, UserError

if TYPE_CHECKING:
    from sentattn.insight.prediction import Prediction

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
MOST_PLOTTED, MOST_PLOTTED_WITH_PAIRS = 50, 10
FEW = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    arguments = [word if "=" in word or word.startswith("-") else f"run={word}" for word in arguments]
    given = command_line.raw_arguments(arguments, KEYS, required=["run"])
    _require_sense(given)

    from sentattn.run import find

    record = find(given["run"], trust=given.get("trust", False))
    classifier = record.classifier
    column = given.get("column") or record.settings.get("data", {}).get("text", "text")
    left_out: list[str] = []
    pairs = given.get("pairs", "text" in given and _has_place_for_pairs(given))
    texts = _texts(given, column, left_out.append)
    predictions = classifier.stream(texts, batch_size=given.get("batch_size", 64), pairs=pairs)
    if given.get("pairs"):
        predictions = _with_pairs(predictions, classifier.model.name)
    plotted: list[Prediction] = []
    if "plot" in given:
        plotted = list(islice(predictions, MOST_PLOTTED_WITH_PAIRS if pairs else MOST_PLOTTED))
        predictions = _chain(plotted, predictions)
    if "output" in given:
        from sentattn.text_files import write_predictions

        count = write_predictions(Path(given["output"]), predictions)
        print(f"{count:,} predictions in {given['output']}")
    else:
        _print(predictions, given)
    if left_out:
        print(_left_out(left_out), file=sys.stderr)
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
    if "column" in given and ("input" not in given or Path(given["input"]).suffix == ".txt"):
        faults.append(f"column={given['column']} has no effect without input=TABLE; leave it out.")
    if "output" in given and "format" in given:
        faults.append(f"format={given['format']} has no effect on output={given['output']}; the ending decides there.")
    if "pairs" in given and not _has_place_for_pairs(given):
        faults.append(
            f"pairs={types.given(given['pairs'])} has no effect here; what shows pairs: text=... on the terminal,"
            " format=json, plot=FILE and output=FILE.jsonl."
        )
    elif given.get("pairs") and "batch_size" in given:
        faults.append(
            f"batch_size={given['batch_size']} has no effect with pairs=true, which reads one text at a time; "
            "leave one out."
        )
    if "plot" in given:
        from sentattn.insight import heatmap

        try:
            heatmap.require_format(Path(given["plot"]))
        except UserError as error:
            faults += error.messages
    if faults:
        raise SettingError(*faults)


def _has_place_for_pairs(given: Mapping[str, Any]) -> bool:
    """Whether anything that is shown or written can hold token-to-token weights."""
    if "plot" in given:
        return True
    if "output" in given:
        return Path(given["output"]).suffix == ".jsonl"
    return "text" in given or given.get("format") == "json"


def _with_pairs(predictions: Iterable[Prediction], model: str) -> Iterator[Prediction]:
    """Yields predictions that have pairs.

    Raises:
        RunError: At the first one, if the model has none; the sentence names the models that have.
    """
    for prediction in predictions:
        if prediction.pairs is None:
            raise RunError(
                f"pairs=true: the model {model} has no token-to-token weights; those that have them are "
                f"{', '.join(_models_with_pairs())}. Leave pairs= out, or name a run of one of these."
            )
        yield prediction


def _models_with_pairs() -> list[str]:
    """Returns the variants that have token-to-token weights: each is asked for those of a text of one token."""
    import torch

    from sentattn.build import build_model
    from sentattn.config.compose import compose
    from sentattn.config.groups import Choices

    tokens_BL = torch.zeros(1, 1, dtype=torch.int64)
    found = []
    for name in Choices.of().names("model"):
        model = build_model(compose([f"model={name}"])["model"], num_embeddings=2, classes=2).eval()
        if model(tokens_BL, tokens_BL == 0, pairs=True).attended.pairs_BHLL is not None:
            found.append(name)
    return found


def _texts(given: Mapping[str, Any], column: str, left_out: Callable[[str], None]) -> Iterator[str]:
    """Yields the texts asked for, showing progress on a file; tells of rows without one."""
    if "text" in given:
        yield given["text"]
        return
    from sentattn.progress import Progress
    from sentattn.text_files import read_texts

    texts = read_texts(Path(given["input"]), column=column, left_out=left_out)
    with Progress() as progress:
        for number, text in enumerate(texts, start=1):
            yield text
            progress("reading", number, None)


def _left_out(places: Sequence[str]) -> str:
    more = f" and {len(places) - FEW:,} more" if len(places) > FEW else ""
    return f"left out rows without a text: {len(places):,} ({', '.join(places[:FEW])}{more})"


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
