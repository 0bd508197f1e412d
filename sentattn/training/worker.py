"""One of the processes of a training on several devices; `sentattn.training.launch` starts them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from sentattn.distributed import ranks
from sentattn.errors import Interruption, UserError
from sentattn.training.launch import FOLDER, TASK


def main() -> int:
    """Trains as the task in the launcher's folder says; returns the exit code."""
    ranks.end_with_agent()
    from sentattn.training.fit import fit  # it takes seconds, in which the launcher may die

    task = json.loads((Path(os.environ[FOLDER]) / TASK).read_text(encoding="utf-8"))
    resume, directory = (Path(task[key]) if task[key] else None for key in ("resume", "directory"))
    try:
        fit(task["settings"], study=task["study"], resume=resume, directory=directory)
    except (Exception, Interruption) as error:
        ranks.write_error_file(error)  # the launcher prints it, unless another rank has caused it
        return error.exit_code if isinstance(error, Interruption) else 2 if isinstance(error, UserError) else 1
    except KeyboardInterrupt:  # before the training has set its handlers
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
