"""Upload runs that were logged offline to Weights & Biases, by `wandb sync`.

usage: python -m sentattn.sync [DIR ...]

  DIR  run directories, or folders that hold some; default outputs

Each run goes to the server that it was trained for: logger.host, or else WANDB_BASE_URL, or else W&B's own. A run that
was interrupted and resumed is uploaded as one run. `wandb login` stores the key that an upload needs.
The exit code is 2 if a run could not be uploaded.

Examples:
  python -m sentattn.sync
  python -m sentattn.sync outputs/imdb
  python -m sentattn.sync outputs/demo/structured/20260101-120000-1a2b
"""

from __future__ import annotations

import sys
from pathlib import Path

from sentattn.config import command_line
from sentattn.errors import Fault, RunError
from sentattn.run import OUTPUT_FOLDER


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    typed = command_line.raw_arguments(arguments, {}, positional="folders")["folders"]
    folders = [Path(folder) for folder in typed] or [OUTPUT_FOLDER]
    if missing := [path for path in folders if not path.is_dir()]:
        raise RunError(*(Fault(str(path), "not_found", f"{path} is no folder.") for path in missing))

    from sentattn.loggers.wandb.upload import find_runs, upload

    runs = find_runs(folders)
    if not runs:
        print(f"No run of W&B in {', '.join(map(str, folders))}: there is nothing to upload.")
        return
    print(upload(runs))


if __name__ == "__main__":
    sys.exit(main())
