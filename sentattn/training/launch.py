"""A training on several devices of this machine: a process for each, started with torchrun's API."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn import errors, run
from sentattn.config.schema import Settings
from sentattn.distributed import ranks
from sentattn.distributed.devices import cores
from sentattn.errors import Fault, Interruption, RunError, UserError
from sentattn.training.resume import advice

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

FOLDER = "SENTATTN_LAUNCH"
"""Environment variable: the folder in which a process finds its task and writes the path of the run."""
TASK, RUN = "task.json", "run"
PATIENCE = 600
"""Seconds that processes may take for the step at hand and its checkpoint after a signal."""
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The signals for which torchrun's agent sets handlers."""


def launch(
    settings: Settings,
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
        task = {"settings": dict(settings), "study": study, "resume": resume, "directory": directory}
        (folder / TASK).write_text(json.dumps(task, default=os.fspath), encoding="utf-8")
        failures: Mapping[int, ProcessFailure] = {}
        signal_number = None
        try:
            failures = run_ranks(["-m", "sentattn.training.fit"], processes, folder, **{FOLDER: name})
        except Interruption as interruption:
            signal_number = interruption.number
        record = run.Run(Path((folder / RUN).read_text(encoding="utf-8"))) if (folder / RUN).exists() else None
    if signal_number is not None and not (record and (record.path / run.RESULT).exists()):
        raise Interruption(signal_number, advice(record))
    if failures:
        raise explain(failures, processes, advice(record))
    assert record is not None, "a training that has succeeded has a run"
    return record


def announce(path: Path) -> None:
    """Leaves the path of the run that is being trained for `launch`, if it has started this process."""
    if folder := os.environ.get(FOLDER):
        run.write_atomically(Path(folder) / RUN, str(path))


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
    variables |= {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores() // processes)))}
    with _agent_environment(variables):
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


@contextmanager
def _agent_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables for the processes started in the block; restores them, signal handlers and loggers after it."""
    main_thread = threading.current_thread() is threading.main_thread()  # Python has signal handlers only there
    handlers = {number: signal.getsignal(number) for number in HANDLED} if main_thread else {}
    environ = dict(os.environ)
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
        for name in os.environ.keys() - environ.keys():
            del os.environ[name]
        os.environ.update(environ)


def explain(failures: Mapping[int, ProcessFailure], processes: int, advice: str) -> UserError | Interruption:
    """Returns the error that ended a training: of several failures the one that caused the others."""
    contents = [failure.error_file_data for failure in failures.values()]
    for content in contents:
        faults = [Fault(**fault) for fault in content.get("faults", [])]
        if any(fault.kind != "interrupted" for fault in faults):
            error: UserError = getattr(errors, content["error"])(*faults)
            return error
    # Processes that left no error and that the agent did not end after the failure of another one.
    first = min(failure.timestamp for failure in failures.values())
    codes = {rank: failure.exitcode for rank, failure in failures.items()}
    killed = [rank for rank, code in codes.items() if code < 0 and code != -signal.SIGTERM]
    died = [rank for rank in killed if failures[rank].timestamp - first < ranks.GRACE]
    numbers = [content["signal"] for content in contents if "signal" in content]
    if numbers and not died:
        return Interruption(numbers[0], advice)
    rank = (died or list(failures))[0]
    failure = failures[rank]
    how = f"was killed by {failure.signal_name()}" if failure.exitcode < 0 else f"ended with code {failure.exitcode}"
    if failure.exitcode == 1:
        print(failure.message, file=sys.stderr)
    return RunError(Fault("trainer.devices", "failed", f"Process {rank} of {processes} {how}; {advice}"))
