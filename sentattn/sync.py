"""Upload runs that are missing or incomplete on Weights & Biases.

usage: python -m sentattn.sync [DIR ...] [output_dir=outputs] [minutes=10]

  DIR         run directories, or folders that hold some
  output_dir  where runs are looked for when no DIR is given; default outputs
  minutes     longest time for one run; default 10

Diagnostics of `python -m sentattn.compare ... insight=true` go into the summary of their run, as insight/...

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


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    values = command_line.raw_arguments(arguments, KEYS, positional="folders")
    folders = [Path(folder) for folder in values["folders"]] or [Path(values.get("output_dir", "outputs"))]
    if missing := [path for path in folders if not path.is_dir()]:
        raise RunError(*(Fault(str(path), "not_found", f"{path} is no folder.") for path in missing))

    from sentattn.loggers.wandb.upload import MINUTES, add_to_summary, find_runs, upload

    runs = find_runs(folders)
    if not runs:
        print(f"No run of W&B in {', '.join(map(str, folders))}: there is nothing to upload.")
        return
    failed: dict[tuple[str, Fault], list[Path]] = {}
    for run in runs:
        subject = ""
        try:
            outcome = upload(run, minutes=values.get("minutes", MINUTES)) or "uploaded before"
            print(f"{run.directory}: {outcome}", flush=True)
            subject = "the insight of "
            if (metrics := _insight(run.directory)) and add_to_summary(run, metrics):
                print(f"{run.directory}: insight added to its summary", flush=True)
        except RunError as error:
            failed.setdefault((subject, error.faults[0]), []).append(run.directory)
    if failed:
        raise RunError(*(_describe(subject, fault, paths) for (subject, fault), paths in failed.items()))


def _insight(directory: Path) -> dict[str, float]:
    """Returns the diagnostics of attention that are kept with a run; none for most runs."""
    if not any(directory.glob("insight-*")):
        return {}
    from sentattn.compare.insight import stored_metrics  # imports torch

    return stored_metrics(directory)


def _describe(subject: str, fault: Fault, paths: Sequence[Path]) -> Fault:
    """Returns one error for all runs with the same reason."""
    more = f"(and {len(paths) - 1} more) " if len(paths) > 1 else ""
    return Fault(str(paths[0]), fault.kind, f"{subject}{paths[0]} {more}was not uploaded: {fault.message}.")


if __name__ == "__main__":
    sys.exit(main())
