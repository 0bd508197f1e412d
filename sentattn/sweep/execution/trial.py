"""A trial: a training, or one for each of several seeds, that reports to the scheduler of its study.

As a program, `python -m sentattn.sweep.execution.trial`, this module is one of the ranks of a trial on several devices.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import statistics
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from multiprocessing.connection import Client, Listener
from pathlib import Path

import torch
from pytorch_lightning import Callback, LightningModule, Trainer

from sentattn import build
from sentattn.config.request import read_request
from sentattn.config.schema import Settings
from sentattn.console import Progress
from sentattn.data.batching import Batch
from sentattn.distributed import ranks
from sentattn.distributed.devices import leave_step, rank_info
from sentattn.errors import Fault, Interruption, Pruned, RunError, SettingError, TrainingError, UserError
from sentattn.loggers.wandb.run import TrialCallback
from sentattn.run import CHECKPOINTS, METRICS, RESULT, Run
from sentattn.sweep.execution.interfaces import (
    FirstBatch,
    PipeConnection,
    Report,
    TrialConnection,
    TrialOutcome,
    TrialTask,
)
from sentattn.sweep.spec.plan import metric_of
from sentattn.training.callbacks import EpochRecorder
from sentattn.training.environment import quiet_libraries
from sentattn.training.fit import fit
from sentattn.training.launch import explain, run_ranks
from sentattn.training.lit_module import build_optimizer

RELAY = "SENTATTN_TRIAL"
"""Names the variable with the address and the key at which rank 0 finds its trial."""


def preload(studies: Sequence[Sequence[str]]) -> None:
    """Imports libraries, fills caches and prepares the data, once, for all trials that are forked afterwards.

    Args:
        studies: For each study the arguments that all its trials have. Where these alone are no valid training, the
            first trial prepares its data.

    Raises:
        DataError: If the data is unusable.
    """
    import pyarrow.parquet  # noqa: F401  # written at the end of each trial

    quiet_libraries()
    torch.set_num_threads(1)  # a process that forks must not have a pool of threads
    for arguments in studies:
        with contextlib.suppress(SettingError):
            settings = read_request(arguments).settings  # Hydra's grammar is slow the first time
            build.build_data(settings).prepare(Progress())
            build_optimizer(settings, build.build_model(settings["model"], num_embeddings=8, classes=2))


def run(task: TrialTask, connection: TrialConnection) -> None:
    """Trains in this process, or in one for each device, and sends the result."""
    leave_step()  # a scheduler or a node of Ray may be one of several tasks of srun, a trial is none
    (_run_ranks if task.devices > 1 else _train_and_send)(task, connection)


def _train_and_send(task: TrialTask, connection: TrialConnection | None) -> None:
    """Trains as this process; the connection is None on every rank but rank 0."""
    torch.set_num_threads(task.threads)  # before anything touches CUDA
    try:
        with ranks.connected(rank_info()):
            values = _train(task, connection)
        outcome = TrialOutcome("complete", values) if values else TrialOutcome("pruned")
    except UserError as error:
        print(error, file=sys.stderr)
        if task.devices > 1:  # the error of another rank may explain this one
            ranks.write_error_file(error)
            sys.exit(2)
        outcome = _failed(error, retry=may_succeed_again(error))
    except Interruption as interruption:
        print(interruption, file=sys.stderr)
        sys.exit(interruption.exit_code)
    if connection:
        connection.send(outcome)


def _train(task: TrialTask, connection: TrialConnection | None) -> list[float] | None:
    """Trains once for each seed; returns the means of the objectives, or None if the trial was pruned."""
    devices = [f"trainer.devices={task.devices}"] if task.devices > 1 else []  # numbered from 0 in a slot
    settings = read_request([*task.arguments, *devices]).settings
    compared = task.metrics[0] if len(task.metrics) == 1 else None
    values: list[list[float]] = []
    for seed in range(settings.seed, settings.seed + task.repeats):
        directory = task.folder / f"seed-{seed}" if task.repeats > 1 else task.folder
        callbacks: list[Callback] = [SchedulerCallback(connection, compared if task.repeats == 1 else None)]
        if task.study:
            callbacks.append(TrialCallback(task.values))
        record = _run(replace(settings, seed=seed), directory, task.study, callbacks)
        if record.result["status"] == "pruned":
            return None
        finite = [value for metric in task.metrics if (value := metric_of(record.result, metric)) is not None]
        if len(finite) < len(task.metrics):
            message = f"The run has no finite {' or '.join(task.metrics)}."
            raise TrainingError(Fault("objective.metric", "diverged", message))
        values.append(finite)
        if task.repeats > 1 and connection:
            # Of several, each is compared with the training of other trials that has the same seed.
            prune = connection.send(Report(len(values), values[-1][0] if compared else None))
            if prune and len(values) < task.repeats:
                return None
    return [statistics.fmean(column) for column in zip(*values, strict=True)]


def _run(settings: Settings, directory: Path, study: str | None, callbacks: Sequence[Callback]) -> Run:
    """Trains in a directory, where a run that has ended counts, and one that was interrupted is resumed if it can be.

    It cannot with a damaged checkpoint, or that of another version of sentattn or other rows: then it starts anew.
    """
    run = Run(directory)
    with contextlib.suppress(RunError):
        if run.result["status"] in ("finished", "pruned"):  # the study was killed before it knew
            return run
    is_resumed = run.last_checkpoint.is_file() and not (directory / RESULT).exists()
    try:
        return fit(
            settings, resume=directory if is_resumed else None, directory=directory, study=study, callbacks=callbacks
        )
    except RunError as error:
        if not is_resumed or study is None or not any(fault.kind in ("conflict", "damaged") for fault in error.faults):
            raise
        print(f"This trial starts anew: {error}", flush=True)
    shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
    (directory / METRICS).unlink(missing_ok=True)
    return fit(settings, directory=directory, study=study, callbacks=callbacks)


class SchedulerCallback(Callback):
    """Reports each epoch to the scheduler, which may prune the trial.

    The value reported is that of the best epoch so far. That is the value by which trials are compared in the end, so
    that no trial is pruned for one bad epoch after a good one.

    Args:
        connection: To the scheduler; None on every rank but rank 0.
        metric: The metric by which trials are compared while they run; None if they are not.
    """

    def __init__(self, connection: TrialConnection | None, metric: str | None) -> None:
        self._connection = connection
        self._metric = metric
        self._has_begun = False  # a resumed training does not begin at step 0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        if self._connection and not self._has_begun:
            self._connection.send(FirstBatch(trainer.max_epochs))
            recorder = _recorder(trainer)
            for count, row in enumerate(recorder.rows, start=1):  # of before an interruption; none of them was pruned
                best = recorder.best_of(recorder.rows[:count])
                self._connection.send(Report(int(row["epoch"]), best.get(self._metric or "")))
        self._has_begun = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        prune = False
        if self._connection:
            recorder = _recorder(trainer)
            value = recorder.best.get(self._metric or "")
            prune = self._connection.send(Report(int(recorder.rows[-1]["epoch"]), value))
        if ranks.from_rank_zero(prune and not trainer.fit_loop.done):  # after the last epoch nothing is saved
            raise Pruned


def _recorder(trainer: Trainer) -> EpochRecorder:
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]  # Lightning sets it elsewhere
    return next(callback for callback in callbacks if isinstance(callback, EpochRecorder))


def _failed(error: UserError, *, retry: bool) -> TrialOutcome:
    diverged = any(fault.kind == "diverged" for fault in error.faults)
    return TrialOutcome("failed", error=" ".join(error.messages), retry=retry and not diverged, diverged=diverged)


def may_succeed_again(error: UserError) -> bool:
    """Whether another attempt may succeed: after what the machine lacked, such as memory or space on the disk."""
    return not isinstance(error, SettingError) and isinstance(error.__cause__, OSError | RuntimeError)


def _run_ranks(task: TrialTask, connection: TrialConnection) -> None:
    """Trains with a process for each device; rank 0 sends its messages through this process.

    Of the errors that the ranks have left, the first that is not about the end of another rank is that of the trial.
    """
    key = secrets.token_bytes()
    outcomes: list[TrialOutcome] = []
    with tempfile.TemporaryDirectory(prefix="sentattn-") as folder, Listener(authkey=key) as listener:
        relay = threading.Thread(target=_relay, args=(listener, connection, outcomes), daemon=True)
        relay.start()
        program = ["-m", "sentattn.sweep.execution.trial", json.dumps(asdict(task), default=str)]
        variables = {RELAY: json.dumps([listener.address, key.hex()])}
        failures = run_ranks(program, task.devices, Path(folder), **variables)
        relay.join(ranks.GRACE)  # until rank 0's last message; it may have died before its first
    if failures and not outcomes:
        error = explain(failures, task.devices, "its log says more.")
        print(error, file=sys.stderr)
        if isinstance(error, Interruption):
            sys.exit(error.exit_code)
        # Whether the machine lacked something is not in the file.
        outcomes.append(_failed(error, retry=isinstance(error, RunError | TrainingError)))
    for outcome in outcomes:
        connection.send(outcome)


def _relay(listener: Listener, connection: TrialConnection, outcomes: list[TrialOutcome]) -> None:
    """Passes messages of rank 0 on to the scheduler, and replies back; keeps its outcome."""
    with contextlib.suppress(EOFError, OSError), listener.accept() as rank:  # which may have died
        while True:
            message = rank.recv()
            if isinstance(message, TrialOutcome):
                outcomes.append(message)
                continue
            reply = connection.send(message)
            if isinstance(message, Report):
                rank.send(reply)


def main(arguments: Sequence[str]) -> None:
    """Trains as one of the ranks of a trial."""
    ranks.end_with_agent()
    fields = json.loads(arguments[0])
    task = TrialTask(**fields | {"folder": Path(fields["folder"])})
    if os.environ["RANK"] != "0":
        _train_and_send(task, None)
        return
    address, key = json.loads(os.environ.pop(RELAY))
    with Client(address, authkey=bytes.fromhex(key)) as connection:
        _train_and_send(task, PipeConnection(connection))


if __name__ == "__main__":
    main(sys.argv[1:])
