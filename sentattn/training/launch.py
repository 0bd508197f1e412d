"""A training on several devices of this machine: a process for each.

As a program, `python -m sentattn.training.launch`, this module is one of these processes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn import run
from sentattn.distributed import ranks
from sentattn.distributed.launch import explain, run_ranks
from sentattn.errors import Interruption, UserError

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

FOLDER = "SENTATTN_LAUNCH"
"""Environment variable: the folder in which a process finds its task and writes the path of the run."""
TASK, RUN = "task.json", "run"


def launch(
    settings: Mapping[str, Any],
    processes: int,
    *,
    resume: Path | None = None,
    directory: Path | None = None,
    study: str | None = None,
) -> run.Run:
    """Trains with a process for each device of this machine, and returns the run; the arguments are those of `fit`.

    They are fresh processes, so this works from any program, also from one that has itself been forked.

    Raises:
        UserError: As the training raises it, or if a process died.
        Interruption: If a signal ended it.
    """
    with tempfile.TemporaryDirectory(prefix="sentattn-") as name:
        folder = Path(name)
        task = {"settings": settings, "resume": resume, "directory": directory, "study": study}
        (folder / TASK).write_text(json.dumps(task, default=str), encoding="utf-8")
        failures: Mapping[int, ProcessFailure] = {}
        signal_number = None
        try:
            failures = run_ranks(["-m", __name__], processes, folder, **{FOLDER: name})
        except Interruption as interruption:
            signal_number = interruption.number
        record = run.Run(Path((folder / RUN).read_text(encoding="utf-8"))) if (folder / RUN).exists() else None
    if signal_number is not None and not (record and (record.path / run.RESULT).exists()):
        raise Interruption(signal_number, run.advice(record))
    if failures:
        raise explain(failures, processes, run.advice(record))
    assert record is not None, "a training that has succeeded has a run"
    return record


def announce(path: Path) -> None:
    """Leaves the path of the run that is being trained for `launch`, if it has started this process."""
    if folder := os.environ.get(FOLDER):
        run.write_atomically(Path(folder) / RUN, str(path))


def main() -> int:
    """Trains as the task in the launcher's folder says; returns the exit code."""
    ranks.end_with_agent()
    from sentattn.training.fit import fit  # which imports this module

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
