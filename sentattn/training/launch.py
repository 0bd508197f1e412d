"""A training on several devices of this machine: a process for each, which runs `sentattn.training.worker`."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn import run
from sentattn.errors import Interruption

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

FOLDER = "SENTATTN_LAUNCH"
"""Environment variable: the folder in which a process finds its task and writes the path of the run."""
TASK, RUN = "task.json", "run"
WORKER = "sentattn.training.worker"


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
    from sentattn.distributed.launch import explain, run_ranks

    with tempfile.TemporaryDirectory(prefix="sentattn-") as name:
        folder = Path(name)
        paths = {"resume": resume and str(resume), "directory": directory and str(directory)}
        task = {"settings": dict(settings), "study": study, **paths}
        (folder / TASK).write_text(json.dumps(task), encoding="utf-8")
        failures: Mapping[int, ProcessFailure] = {}
        signal_number = None
        try:
            failures = run_ranks(["-m", WORKER], processes, folder, **{FOLDER: name})
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
