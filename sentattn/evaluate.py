"""Test a saved run, on its own or on other data.

usage: python -m sentattn.evaluate run=DIR [split=test] [output=FILE.json] [data=NAME] [data.KEY=VALUE ...]

  run      run directory, or `latest`; it may also stand without a key
  split    test (default) or val
  output   file for the metrics, as JSON
  data     other data with the same labels; data.* are its settings. Of a table, data.test=FILE is enough: columns
           that are not named are those of the run's own table
  trust    trust=true loads a run with classes of your own: it can run any code that the run names

The texts are read with the vocabulary and the length that the run was trained with.

Examples:
  python -m sentattn.evaluate run=latest
  python -m sentattn.evaluate run=latest split=val output=val.json
  python -m sentattn.evaluate run=latest data=table data.test=reviews.csv data.text=review data.label=stars
  python -m sentattn.evaluate run=outputs/imdb/structured/20260101-120000-1a2b data.path=elsewhere/aclImdb
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentattn.config import command_line
from sentattn.errors import Fault, RunError

COLUMNS = ("text", "label")
KEYS = {"run": "str", "split": 'Literal["val", "test"]', "output": "str", "trust": "bool"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    from sentattn.config.compose import override
    from sentattn.data import tables
    from sentattn.run import find, write_atomically

    arguments = command_line.run_first(arguments, KEYS)
    own, rest = command_line.take(arguments, list(KEYS))
    given = command_line.raw_arguments(own, KEYS, required=["run"])
    record = find(given["run"], trust=given.get("trust", False))
    settings = override(record.settings, rest, only=["data"], trust=record.trust)
    _keep_columns(settings["data"], record.settings["data"], typed=[word.partition("=")[0] for word in rest])
    tables.check(settings["data"], split=given.get("split", "test"))

    from sentattn.training.evaluate import evaluate_run

    evaluation = evaluate_run(record, settings, given.get("split", "test"))
    _print_metrics(evaluation.metrics, f"{record.path} on {settings['data']['name']}")
    if "output" in given:
        try:
            write_atomically(Path(given["output"]), json.dumps(evaluation.metrics, indent=2) + "\n")
        except OSError as error:
            message = f"output={given['output']} cannot be written: {error.strerror}."
            raise RunError(Fault("output", "unwritable", message)) from error


def _keep_columns(data: dict[str, Any], trained: Mapping[str, Any], *, typed: Sequence[str]) -> None:
    """Gives a table the columns of the run's own table, save for those that were named."""
    for key in COLUMNS:
        if key in data and key in trained and f"data.{key}" not in typed:
            data[key] = trained[key]


def _print_metrics(metrics: Mapping[str, float], title: str) -> None:
    from sentattn.metrics import format_value

    width = max(map(len, metrics))
    print(title)
    for name, value in metrics.items():
        print(f"  {name:<{width}}  {format_value(value)}")


if __name__ == "__main__":
    sys.exit(main())
