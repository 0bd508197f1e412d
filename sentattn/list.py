"""Show what there is, a line each, with what to expect of it.

usage: python -m sentattn.list [KIND ...] [output_dir=FOLDER] [--config-dir FOLDER]

The kinds, by default all:

  models       variants, for model=NAME
  poolings     what makes a vector of the tokens, for model/attention=NAME
  data         data sets, for data=NAME
  experiments  settings of a source or of the best recipe, for experiment=NAME
  sweeps       sweep files, for sweep=NAME
  runs         finished and failed runs with their accuracy

  output_dir   folder whose runs are listed; default outputs
  --config-dir a folder with choices of your own, which are listed too

Examples:
  python -m sentattn.list
  python -m sentattn.list models runs
"""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from sentattn.config import command_line
from sentattn.config.arguments import split_folders
from sentattn.config.groups import Choices, comment, conf_dir
from sentattn.config.targets import label
from sentattn.console import TERMINAL_WIDTH, table_lines
from sentattn.errors import Fault, RunError, SettingError, suggestion
from sentattn.run import Run

METRICS = ("val/accuracy", "test/accuracy")
GROUPS = {
    "models": "model",
    "poolings": "model/attention",
    "data": "data",
    "experiments": "experiment",
    "sweeps": "sweep",
}
KINDS = (*GROUPS, "runs")
WIDEST = 1000
"""Columns of a line about a run, so that each is one line."""


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    words, folders = split_folders(arguments)
    options, choices = command_line.raw_arguments(words, {"output_dir": "str"}, "kinds"), Choices.of(*folders)
    kinds = options["kinds"] or KINDS
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        legal = f"There are {', '.join(KINDS)}."
        messages = [f"{kind!r} cannot be listed.{suggestion(kind, KINDS)} {legal}" for kind in unknown]
        raise SettingError(*(Fault("kinds", "unknown", message) for message in messages))
    output_dir = Path(options.get("output_dir", "outputs"))
    sections = []
    for kind in dict.fromkeys(kinds):
        if kind == "runs":
            title, lines = f"runs ({output_dir}), with validation and test accuracy", runs(output_dir)
        else:
            title, lines = f"{kind} ({GROUPS[kind]}=NAME)", files(kind, choices)
        sections.append("\n".join([title, *(lines or ["  none yet"])]))
    print("\n\n".join(sections))


def files(kind: str, choices: Choices) -> list[str]:
    """Returns the name and the first comment of each YAML file of a kind, as the lines of a table."""
    group = GROUPS[kind]
    found = [choices.file(group, name) for name in choices.names(group)]
    if kind == "sweeps":
        found = sorted((conf_dir().parent / kind).glob("*.yaml"))
    rows = [(file.stem, comment(file)) for file in found]
    return [f"  {line}" for line in table_lines(rows, align="<<", width=TERMINAL_WIDTH - 2)]


def runs(output_dir: Path) -> list[str]:
    """Returns accuracy, seed, status, data and label of each run under a folder, and below each line the run's path."""
    paths = sorted(output_dir.glob("**/result.json"))
    rows = [("val", "test", "seed", "status", "data", "model"), *(_cells(Run(path.parent)) for path in paths)]
    heading, *lines = table_lines(rows, align=">>><<<", width=WIDEST)
    places = [f"    {path.parent}" for path in paths]
    printed = [f"  {heading}", *chain.from_iterable(zip((f"  {line}" for line in lines), places, strict=True))]
    return printed if paths else []


def _cells(run: Run) -> tuple[str, ...]:
    """Returns what a line says of a run; `-` for what cannot be read."""
    result: dict[str, Any] = {"status": "unreadable"}
    with suppress(RunError):
        result = run.result
    with suppress(RunError, AttributeError, KeyError):  # settings that are damaged
        result["model"] = label(run.settings)
    metrics = result.get("metrics")
    values = [metrics.get(name) if isinstance(metrics, dict) else None for name in METRICS]
    numbers = (f"{value:.4f}" if isinstance(value, float) else "-" for value in values)
    texts = (" ".join(str(result.get(key, "-")).split()) for key in ("seed", "status", "data", "model"))
    return *numbers, *texts


if __name__ == "__main__":
    sys.exit(main())
