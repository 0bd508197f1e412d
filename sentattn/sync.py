"""Upload what Weights & Biases has not got yet: runs that were trained offline, or whose upload broke off.

usage: python -m sentattn.sync [DIR ...] [output_dir=outputs] [minutes=10]

  DIR         run directories, or folders that hold some
  output_dir  where runs are looked for when no DIR is given; default outputs
  minutes     longest time for one run; default 10

Each run goes to the server that it was trained for: logger.host, or else WANDB_BASE_URL, or else W&B's own. A run that
was interrupted and resumed is uploaded as one run. `wandb login` stores the key that an upload needs.
The exit code is 2 if a run could not be uploaded.

Examples:
  python -m sentattn.sync
  python -m sentattn.sync outputs/imdb
  python -m sentattn.sync outputs/demo/structured/20260101-120000-1a2b minutes=60
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sentattn.config import command_line
from sentattn.errors import Fault, RunError

KEYS = {"output_dir": "str", "minutes": "Positive"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    values = command_line.raw_arguments(arguments, KEYS, positional="folders")
    folders = [Path(folder) for folder in values["folders"]] or [Path(values.get("output_dir", "outputs"))]
    advice = "give run directories, or output_dir=FOLDER"
    missing = [folder for folder in folders if not folder.is_dir()]
    if missing:
        raise RunError(*(Fault(str(path), "not_found", f"{path} is no folder; {advice}.") for path in missing))

    from sentattn.loggers.upload import find_runs, upload

    runs = find_runs(folders)
    if not runs:
        print(f"No run of W&B in {', '.join(map(str, folders))}: there is nothing to upload.")
        return
    failed: dict[Fault, list[Path]] = {}
    for run in runs:
        try:
            print(f"{run.directory}: {upload(run, minutes=values.get('minutes', 10.0))}", flush=True)
        except RunError as error:
            failed.setdefault(error.faults[0], []).append(run.directory)
    if failed:
        raise RunError(*(_describe(fault, paths) for fault, paths in failed.items()))


def _describe(fault: Fault, paths: Sequence[Path]) -> Fault:
    """Returns one fault for all runs with the same reason."""
    runs = f"{paths[0]} was" if len(paths) == 1 else f"{len(paths)} runs were"
    others = f" ({paths[0]} and others)" if len(paths) > 1 else ""
    return Fault(str(paths[0]), fault.kind, f"{runs} not uploaded{others}: {fault.message}.")


if __name__ == "__main__":
    sys.exit(main())
