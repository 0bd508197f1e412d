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
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sentattn.config import command_line
from sentattn.config.arguments import split_folders
from sentattn.config.groups import Choices, comment, conf_dir
from sentattn.config.targets import label
from sentattn.console import TERMINAL_WIDTH, table_lines
from sentattn.data.readers.tables import as_columns
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
LONGEST, NARROWEST = 24, 20
"""Most characters of a cell, and fewest columns of a model's name."""


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
    if not paths:
        return []
    results = [_described(Run(path.parent)) for path in paths]
    rows = [("val", "test", "seed", "status", "data"), *map(_cells, results)]
    # So wide that each row is a line: the cells are short.
    heading, *lines = (f"  {line}" for line in table_lines(rows, align=">>><<", width=2 * TERMINAL_WIDTH))
    start = max(map(len, lines)) + 2
    printed = [f"{heading.ljust(start)}model"]
    for path, result, line in zip(paths, results, lines, strict=True):
        first, *more = textwrap.wrap(str(result.get("model", "-")), max(NARROWEST, TERMINAL_WIDTH - start)) or [""]
        printed += [line.ljust(start) + first, *(" " * start + words for words in more), f"    {path.parent}"]
    return printed


def _described(run: Run) -> dict[str, Any]:
    """Returns the result of a run, with its variant and its parts as `model`, and a table with its file as `data`."""
    result: dict[str, Any] = {"status": "unreadable"}
    with suppress(RunError):
        result = run.result
    result["data"] = _short(result.get("data", "-"))
    with suppress(RunError, AttributeError, KeyError):  # settings that are damaged
        result["model"] = label(run.settings)
        data = run.settings["data"]
        if isinstance(files := data.get("train"), str | list):
            result["data"] += f" ({_short(', '.join(Path(file).name for file in as_columns(files)))})"
    return result


def _short(value: object) -> str:
    """Returns a text in one line, without its middle if it is long."""
    text, half = " ".join(str(value).split()), LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}\u2026{text[-half:]}"


def _cells(result: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = result.get("metrics")
    values = [metrics.get(name) if isinstance(metrics, dict) else None for name in METRICS]
    numbers = (_short(f"{value:.4f}") if isinstance(value, float) else "-" for value in values)
    return (*numbers, *(_short(result.get(key, "-")) for key in ("seed", "status")), result["data"])


if __name__ == "__main__":
    sys.exit(main())
