"""One of the processes that `launching` starts: `python -m sentattn.distributed.rank`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from sentattn.errors import Interruption, UserError

FOLDER = "SENTATTN_RANKS"
"""Names the folder in which a rank finds its task, and leaves what came of it."""
TASK, RUN = "task.json", "run"


def main() -> int:
    """Trains as the task in the launcher's folder says; returns the exit code."""
    folder = Path(os.environ[FOLDER])
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    task = json.loads((folder / TASK).read_text(encoding="utf-8"))
    try:
        from sentattn.training.fitting import train

        train(task["settings"], study=task["study"], resume=_path(task["resume"]), directory=_path(task["directory"]))
    except UserError as error:
        return _say(folder, 2, {"fault": type(error).__name__, "sentences": error.messages})
    except Interruption as error:
        return _say(folder, error.exit_code, {"signal": error.number})
    except KeyboardInterrupt:  # before the training took the signals over
        return 128 + signal.SIGINT
    return 0


def _say(folder: Path, code: int, what: dict[str, Any]) -> int:
    """Leaves the launcher what it raises in its own process; returns the exit code."""
    said(folder, int(os.environ["RANK"])).write_text(json.dumps(what), encoding="utf-8")
    return code


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def said(folder: Path, rank: int) -> Path:
    """The file in which a rank leaves it."""
    return folder / f"said-{rank}.json"


def _outlive_nobody() -> None:
    """Ends this process, by the signal that keeps what was trained, when the launcher has died."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
