"""Multi-device runs are launched with torchrun's API: a process for each device of this machine.

As a program, `python -m sentattn.distributed.launch`, this module is one of these processes.
"""

from __future__ import annotations

import json
import logging
import os
import pkgutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn import errors, run
from sentattn.distributed import ranks
from sentattn.distributed.devices import threads
from sentattn.errors import Fault, Interruption, RunError, UserError

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

TRAIN = "sentattn.training.fit:train"
"""What each process calls; it is looked up there, since training imports this module."""
FOLDER = "SENTATTN_LAUNCH"
"""Names the folder in which a process finds its task and leaves the path of the run."""
TASK, RUN = "task.json", "run"
PATIENCE = 600
"""Seconds that processes may take for the step at hand and its checkpoint after a signal."""
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The signals for which torchrun's agent sets handlers."""


def launch(
    settings: Mapping[str, Any],
    processes: int,
    *,
    resume: Path | None = None,
    directory: Path | None = None,
    study: str | None = None,
) -> run.Run:
    """Trains with a process for each device of this machine, and returns the run.

    They are fresh processes, so this works from any program, also from one that has itself been forked.

    Args:
        settings: The resolved settings.
        processes: How many.
        resume: As `train` takes it, like the others.
        directory: Where the run is written.
        study: The study that the run is a trial of.

    Raises:
        UserError: As the training raises it, or if a process died.
        Interruption: If a signal ended it.
    """
    with tempfile.TemporaryDirectory(prefix="sentattn-") as name:
        folder = Path(name)
        task = {"settings": settings, "resume": resume, "directory": directory, "study": study}
        (folder / TASK).write_text(json.dumps(task, default=str), encoding="utf-8")
        try:
            failures = run_ranks(["-m", __name__], processes, folder, **{FOLDER: name})
        except Interruption as interruption:
            record = _record(folder)
            if record is None or not (record.path / run.RESULT).exists():
                raise Interruption(interruption.number, run.advice(record)) from None
            return record
        record = _record(folder)
        if failures:
            raise _error(failures, processes, run.advice(record))
        assert record is not None, "a training that has succeeded has a run"
        return record


def run_ranks(arguments: Sequence[str], processes: int, logs: Path, **variables: str) -> Mapping[int, ProcessFailure]:
    """Runs `python ARGUMENTS` as ranks under torchrun's agent, and waits until they have ended.

    Only rank 0 prints. The ranks end when this process does, however that happens. Once one has failed the others get
    SIGTERM, and SIGKILL half a minute later. In the main thread SIGINT and SIGTERM are sent on to them.

    Args:
        arguments: Of the Python interpreter.
        processes: Number of ranks.
        logs: Folder for what the other ranks print.
        variables: Of their environment.

    Returns:
        Failures by rank, in the order in which they were seen; none where every rank ended with code 0.

    Raises:
        Interruption: If a signal ended them.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    variables |= {ranks.AGENT: str(os.getpid()), "PYTHONPATH": path, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(PATIENCE)}
    variables |= {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads(processes)))}
    with _agent_surroundings(variables):
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id="sentattn",
            rdzv_backend="c10d",
            rdzv_endpoint="127.0.0.1:0",
            local_addr="127.0.0.1",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(str(logs), redirects=dict.fromkeys(range(1, processes), Std.ALL)),
        )
        try:
            elastic_launch(config, sys.executable)(*arguments)
        except ChildFailedError as error:
            return error.failures
        except SignalException as error:
            raise Interruption(signal.SIGINT if error.sigval == signal.SIGINT else signal.SIGTERM) from None
    return {}


def announce(path: Path) -> None:
    """Leaves the path of the run that is being trained for `launch`, if it has started this process."""
    if folder := os.environ.get(FOLDER):
        run.write_atomically(Path(folder) / RUN, str(path))


def main() -> int:
    """Trains as the task in the launcher's folder says; returns the exit code."""
    ranks.end_with_agent()
    task = json.loads((Path(os.environ[FOLDER]) / TASK).read_text(encoding="utf-8"))
    resume, directory = (Path(task[key]) if task[key] else None for key in ("resume", "directory"))
    try:
        pkgutil.resolve_name(TRAIN)(task["settings"], study=task["study"], resume=resume, directory=directory)
    except (UserError, Interruption) as error:
        ranks.write_error_file(error)
        return error.exit_code if isinstance(error, Interruption) else 2
    except Exception as error:
        ranks.write_error_file(error)  # the launcher prints it, unless another rank has caused it
        return 1
    except KeyboardInterrupt:  # before the training has set its handlers
        return 128 + signal.SIGINT
    return 0


def _record(folder: Path) -> run.Run | None:
    return run.Run(Path((folder / RUN).read_text(encoding="utf-8"))) if (folder / RUN).exists() else None


def _error(failures: Mapping[int, ProcessFailure], processes: int, advice: str) -> UserError | Interruption:
    """Returns what has ended a training: of several failures the one that explains the others."""
    contents = [failure.error_file_data for failure in failures.values()]
    for content in contents:
        faults = [Fault(**fault) for fault in content.get("faults", [])]
        if any(fault.kind != "interrupted" for fault in faults):
            error: UserError = getattr(errors, content["error"])(*faults)
            return error
    died = [rank for rank, failure in failures.items() if _has_died(failure, failures)]
    numbers = [content["signal"] for content in contents if "signal" in content]
    if numbers and not died:
        return Interruption(numbers[0], advice)
    rank = (died or list(failures))[0]
    failure = failures[rank]
    how = f"was killed by {failure.signal_name()}" if failure.exitcode < 0 else f"ended with code {failure.exitcode}"
    if failure.exitcode == 1:
        print(failure.message, file=sys.stderr)
    return RunError(Fault("trainer.devices", "failed", f"Process {rank} of {processes} {how}; {advice}"))


def _has_died(failure: ProcessFailure, failures: Mapping[int, ProcessFailure]) -> bool:
    """Whether a process ended without a word, and not because the agent ended it after the failure of another."""
    first = min(failure.timestamp for failure in failures.values())
    return failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM and failure.timestamp - first < ranks.GRACE


@contextmanager
def _agent_surroundings(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables for the processes started in the block; restores them, signal handlers and loggers after it."""
    main_thread = threading.current_thread() is threading.main_thread()  # Python has signal handlers only there
    handlers = {number: signal.getsignal(number) for number in HANDLED} if main_thread else {}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    logger, nothing = logging.getLogger("torch.distributed.elastic"), logging.NullHandler()
    logger.addHandler(nothing)
    propagate, logger.propagate = logger.propagate, False  # what matters of its records is raised
    try:
        yield
    finally:
        logger.propagate = propagate
        logger.removeHandler(nothing)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


if __name__ == "__main__":
    sys.exit(main())
