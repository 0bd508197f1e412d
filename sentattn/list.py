"""Show what there is, a line each, with what to expect of it.

usage: python -m sentattn.list [models] [data] [experiments] [sweeps] [runs] [output_dir=FOLDER]

  models       variants, for model=NAME
  data         data sets, for data=NAME
  experiments  a source's settings, for experiment=NAME
  sweeps       sweep files, for sweep=NAME
  runs         finished and failed runs with their figures
  output_dir   folder whose runs are listed; default outputs

Examples:
  python -m sentattn.list
  python -m sentattn.list models runs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sentattn.config import command_line
from sentattn.errors import SettingError, suggestion

FIGURES = ("val/accuracy", "test/accuracy")
GROUPS = {"models": "model", "data": "data", "experiments": "experiment", "sweeps": "sweep"}
KINDS = (*GROUPS, "runs")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    given = command_line.raw_arguments(arguments, {"output_dir": "str"}, "kinds")
    wanted = given["kinds"] or KINDS
    if unknown := [kind for kind in wanted if kind not in KINDS]:
        there = f"There are {', '.join(KINDS)}."
        raise SettingError(*(f"{kind!r} cannot be listed.{suggestion(kind, KINDS)} {there}" for kind in unknown))
    output_dir = Path(given.get("output_dir", "outputs"))
    print("\n\n".join(_section(kind, output_dir) for kind in dict.fromkeys(wanted)))


def _section(kind: str, output_dir: Path) -> str:
    heading = f"{kind} ({output_dir})" if kind == "runs" else f"{kind} ({GROUPS[kind]}=NAME)"
    rows = runs(output_dir) if kind == "runs" else files(kind)
    return "\n".join([heading, *(_aligned(rows) or ["  none yet"])])


def files(kind: str) -> list[tuple[str, ...]]:
    """Returns the name and the first comment of each YAML file of a kind."""
    from sentattn.config.groups import comment, conf_dir

    folder = conf_dir().parent / "sweeps" if kind == "sweeps" else conf_dir() / GROUPS[kind]
    return [(file.stem, comment(file)) for file in sorted(folder.glob("[!_]*.yaml"))]


def runs(output_dir: Path) -> list[tuple[str, ...]]:
    """Returns path, model, data, seed, figures and status of each run under a folder, with a header."""
    found = [_run(file) for file in sorted(output_dir.glob("**/result.json"))]
    return [("run", "model", "data", "seed", *FIGURES, "status"), *found] if found else []


def _run(file: Path) -> tuple[str, ...]:
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
        metrics = result.get("metrics") or {}
        model, data, seed, status = (str(result.get(key, "-")) for key in ("model", "data", "seed", "status"))
        return str(file.parent), model, data, seed, *(_figure(metrics.get(name)) for name in FIGURES), status
    except (OSError, ValueError, AttributeError):
        return str(file.parent), *["-"] * 5, "result.json cannot be read"


def _figure(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "-"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [f"  {_padded(row, widths)}".rstrip() for row in rows]


def _padded(row: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))


if __name__ == "__main__":
    sys.exit(main())
