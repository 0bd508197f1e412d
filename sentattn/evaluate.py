"""Test a saved run, on its own or on other data.

usage: python -m sentattn.evaluate run=DIR [split=test] [name=NAME] [output=FILE.json] [data=NAME] [data.KEY=VALUE ...]

  run      run directory, `latest`, or hf://USER/NAME on the Hugging Face Hub; it may also stand without a key
  split    test (default) or val
  name     what the evaluation is called; by default the data and the split, such as imdb-test, and of a table its file
           and the split, such as reviews-test
  output   file for the metrics, and those of each class, as JSON
  data     other data with the same labels; data.* are its settings. Of a table, data.test=FILE is enough: columns
           that are not named are those of the run's own table, and so is data.header
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

import sys

from sentattn.config import command_line

KEYS = {"run": "str", "split": 'Literal["val", "test"]', "name": "str", "output": "str", "trust": "bool"}


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    from sentattn.trained import load

    arguments = command_line.run_first(arguments, KEYS)
    words, overrides = command_line.take(arguments, list(KEYS))
    options = command_line.raw_arguments(words, KEYS, required=["run"])
    run = load(options["run"], trust=options.get("trust", False))
    run.evaluate(overrides, split=options.get("split", "test"), name=options.get("name"), output=options.get("output"))


if __name__ == "__main__":
    sys.exit(main())
