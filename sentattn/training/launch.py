"""A training on several devices of this machine: a process for each, which torchrun starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sentattn import run
from sentattn.config.schema import Settings
from sentattn.distributed import ranks
from sentattn.distributed.devices import LOOPBACK_ADDRESS, cores, rank_info
from sentattn.errors import Fault, Interruption, RunError, TrainingError, UserError
from sentattn.training.resume import advice, open_interrupted
from sentattn.training.signals import Signals

FOLDER = "SENTATTN_RANKS"
"""The variable with the folder in which ranks leave their process IDs, as names of files, and rank 0 its exit code."""
CODE = "code"
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def launch(
    settings: Settings,
    devices: int,
    *,
    resume: Path | None = None,
    directory: Path | None = None,
    study: str | None = None,
) -> run.Run:
    """Trains with a process for each device of this machine, and returns the run; the arguments are those of `fit`.

    They are fresh processes, so this works from any program, also from one that has itself been forked.

    Raises:
        UserError: If it has failed; its processes have printed why.
        Interruption: If a signal ended it.
    """
    record = open_interrupted(resume) if resume else run.Run(directory or run.new_directory(settings))
    task = {"settings": dict(settings), "study": study, "path": str(record.path), "resumed": resume is not None}
    with tempfile.NamedTemporaryFile("w", prefix="sentattn-", suffix=".json") as file:
        json.dump(task, file)
        file.flush()
        code = run_ranks(["-m", "sentattn.training.fit", file.name], devices)
    if code in INTERRUPTED:
        raise Interruption(code - 128, advice(record))
    if code:
        has_failed = (record.path / run.RESULT_FILE).exists()
        reason = f"The training on {devices} devices has ended with code {code}; what its processes say is above."
        fault = Fault("trainer.devices", "failed", reason if has_failed else f"{reason} {advice(record)}")
        raise (TrainingError if has_failed else RunError)(fault)
    return record


def run_ranks(program: Sequence[str], devices: int) -> int:
    """Runs `python PROGRAM` as ranks under torchrun, and returns the exit code.

    The program calls `run_rank`. A signal is passed on to the ranks, so that a training stops after its step; a second
    one ends them at once. They also end when this process does, however that happens.

    Args:
        program: Arguments of the Python interpreter, such as `["-m", "package.module", "task.json"]`.
        devices: The number of ranks.

    Returns:
        What `run_rank` leaves of rank 0; that of torchrun if this is 0, or if rank 0 has died.

    Raises:
        Interruption: By the second signal.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, cores() // devices)))
    options = [
        "--standalone",
        f"--local-addr={LOOPBACK_ADDRESS}",
        f"--log-dir={os.devnull}",
        f"--nproc-per-node={devices}",
    ]
    command = [sys.executable, "-m", "torch.distributed.run", *options, *program]
    with tempfile.TemporaryDirectory(prefix="sentattn-") as folder, Signals() as signals:
        variables = {"PYTHONPATH": path, "OMP_NUM_THREADS": threads, FOLDER: folder, ranks.LAUNCHER: str(os.getpid())}
        # In a session of its own Ctrl-C does not reach torchrun, which would end ranks that take half a minute.
        torchrun = subprocess.Popen(command, env={**os.environ, **variables}, start_new_session=True)
        try:
            signals.deferred = True
            signalled: set[str] = set()
            while torchrun.poll() is None:
                time.sleep(0.1)
                if signals.received:
                    for rank in {name for name in os.listdir(folder) if name.isdigit()} - signalled:
                        signalled.add(rank)
                        with suppress(ProcessLookupError):
                            os.kill(int(rank), signals.received)
        finally:
            torchrun.kill()
            torchrun.wait()
        file = Path(folder, CODE)
        code = int(file.read_text()) if file.exists() else 0
        was_ended = code in INTERRUPTED and torchrun.returncode and not signals.received  # since another rank failed
        return torchrun.returncode if was_ended else code or torchrun.returncode


def run_rank(train: Callable[[], object], *, code_of: Callable[[UserError], int] = lambda error: 2) -> int:
    """Calls a function in one of the processes that `run_ranks` has started, connected with the others.

    Args:
        train: The function. Its errors that a user can correct are printed.
        code_of: Returns the exit code for one of these errors.

    Returns:
        The exit code of this process. To torchrun a training that a signal has stopped is no failure.
    """
    ranks.end_with_torchrun()
    folder, code = Path(os.environ[FOLDER]), 0
    with Signals():
        try:
            (folder / str(os.getpid())).touch()
            with ranks.connected(rank_info()):
                train()
        except UserError as error:
            print(*(f"error: {message}" for message in error.messages), sep="\n", file=sys.stderr)
            code = code_of(error)
        except Interruption as interruption:
            code = interruption.exit_code
        except SystemExit as end:
            code = int(end.code or 0)
    if os.environ["RANK"] == "0":
        (folder / CODE).write_text(str(code))
    return 0 if code in INTERRUPTED else code
