"""Test a saved run, on its own or on other data.

usage: python -m sentattn.evaluate run=DIR [split=test] [name=NAME] [output=FILE.json] [data=NAME] [data.KEY=VALUE ...]

  run      run directory, or `latest`; it may also stand without a key
  split    test (default) or val
  name     what the evaluation is called; by default the data and the split, such as imdb-test, and of a table its file
           and the split, such as reviews-test
  output   file for the metrics, as JSON
  data     other data with the same labels; data.* are its settings. Of a table, data.test=FILE is enough: columns
           that are not named are those of the run's own table
  trust    trust=true loads a run with classes of your own: it can run any code that the run names

The texts are read with the vocabulary and the length that the run was trained with. The predictions are written into
the run directory; `python -m sentattn.compare FOLDER split=NAME` compares the runs that were evaluated under a name.

Examples:
  python -m sentattn.evaluate run=latest
  python -m sentattn.evaluate run=latest split=val output=val.json
  python -m sentattn.evaluate run=latest data=table data.test=reviews.csv data.text=review data.label=stars
  python -m sentattn.compare outputs split=reviews-test
  python -m sentattn.evaluate run=outputs/imdb/structured/20260101-120000-1a2b data.path=elsewhere/aclImdb
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentattn.config import command_line
from sentattn.errors import Fault, SettingError
from sentattn.run import SPLITS, write_atomically, writing

KEYS = {"run": "str", "split": 'Literal["val", "test"]', "name": "str", "output": "str", "trust": "bool"}


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    from sentattn.config.compose import override
    from sentattn.data.readers import tables
    from sentattn.prediction.model import load

    arguments = command_line.run_first(arguments, KEYS)
    words, overrides = command_line.take(arguments, list(KEYS))
    options = command_line.raw_arguments(words, KEYS, required=["run"])
    run, split = load(options["run"], trust=options.get("trust", False)), options.get("split", "test")
    settings = override(run.settings, overrides, only=["data"], trust=run.trust)
    data, trained = settings["data"], run.settings["data"]
    typed = [word.partition("=")[0] for word in overrides]
    for key in ("text", "label"):  # a table has the columns of the run's table, save for those that are typed
        if key in data and key in trained and f"data.{key}" not in typed:
            data[key] = trained[key]
    tables.check(data, split=split)
    name = _name(options.get("name"), data, split)

    from sentattn.metrics import format_value
    from sentattn.training.evaluate import evaluate_run

    (metrics, probabilities), rows = evaluate_run(run, settings, split)
    print(f"{run.path} on {data['name']}")
    for metric, value in metrics.items():
        print(f"  {metric:<{max(map(len, metrics))}}  {format_value(value)}")
    try:
        run.write_predictions({name: (rows, probabilities)})
        print(f"predictions: {run.predictions(name)}")
    except OSError as error:  # the run may be another user's
        print(f"warning: the predictions cannot be written into {run.path}: {error.strerror}.", file=sys.stderr)
    if "output" in options:
        output = Path(options["output"])
        with writing(output, "output"):
            write_atomically(output, json.dumps(metrics, indent=2) + "\n")


def _name(typed: str | None, data: Mapping[str, Any], split: str) -> str:
    """Returns the name of an evaluation, which is a part of a file's name.

    Raises:
        SettingError: If the one that was typed cannot be.
    """
    file = data.get(split) or data.get("train") if data["name"] == "table" else None
    of_data = Path(file.removesuffix(".gz")).stem if file else data["name"]
    name = typed or re.sub(r"[^\w.-]", "_", f"{of_data}-{split}")
    if name in (*SPLITS, "train") or not re.fullmatch(r"\w[\w.-]*", name):
        message = (
            f"name={name} must be letters, digits, points, dashes and underscores, and not {', '.join(SPLITS)} or "
            "train, which are the run's own rows; for example name=reviews."
        )
        raise SettingError(Fault("name", "type", message))
    return name


if __name__ == "__main__":
    sys.exit(main())
