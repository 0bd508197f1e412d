"""A trial: a training, or one for each of several seeds, that reports to the scheduler of its study.

As a program, `python -m sentattn.sweep.trial`, this module is one of the ranks of a trial on several devices.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer

from sentattn import build
from sentattn.config.groups import at
from sentattn.config.request import read_request
from sentattn.console import Progress
from sentattn.data.batching import Batch
from sentattn.distributed import ranks
from sentattn.errors import Fault, Pruned, SettingError, TrainingError, UserError
from sentattn.loggers.wandb import TrialCallback
from sentattn.run import Run
from sentattn.sweep.engines import Report, TrialConnection, TrialTask
from sentattn.training.callbacks import EpochRecorder
from sentattn.training.environment import quiet_libraries
from sentattn.training.fit import train
from sentattn.training.trainer import build_optimizer

DEVICES = "trainer.devices"
RELAY = "SENTATTN_TRIAL"
"""Names the variable with the address and the key at which rank 0 finds its trial."""


def preload(studies: Sequence[Sequence[str]]) -> None:
    """Imports and fills caches, once, for all trials that are forked afterwards.

    Args:
        studies: As `prepare` takes them, which raises what is ignored here.
    """
    import pyarrow.parquet  # noqa: F401  # written at the end of each trial

    quiet_libraries()
    torch.set_num_threads(1)  # a process that forks must not have a pool of threads
    for arguments in studies:
        with contextlib.suppress(UserError):
            settings = read_request(arguments).settings  # Hydra's grammar is slow the first time
            build.build_data(settings).prepare(Progress())
            build_optimizer(settings, build.build_model(settings["model"], num_embeddings=8, classes=2))


def prepare(studies: Sequence[Sequence[str]]) -> None:
    """Downloads, tokenizes and caches the data that trials share.

    Args:
        studies: For each study the arguments that all its trials have. Where these alone are no valid training, the
            first trial prepares its data.

    Raises:
        DataError: If the data is unusable.
    """
    for arguments in studies:
        with contextlib.suppress(SettingError):
            build.build_data(read_request(arguments).settings).prepare(Progress())


def run(task: TrialTask, connection: TrialConnection) -> None:
    """Trains in this process, or in one for each device, and sends the result."""
    if task.devices > 1:
        _run_ranks(task, connection)
        return
    torch.set_num_threads(task.threads)  # before anything touches CUDA
    _train_and_send(task, connection)


def _train_and_send(task: TrialTask, connection: TrialConnection | None) -> None:
    try:
        values = _train(task, connection)
    except UserError as error:
        print(error, file=sys.stderr)
        if connection:
            connection.fail(" ".join(error.messages), retry=may_succeed_again(error))
        return
    if connection:
        connection.finish(values)


def _train(task: TrialTask, connection: TrialConnection | None) -> list[float] | None:
    """Trains as often as the task asks for; returns the means of the objectives, or None if the trial was pruned."""
    settings = read_request(_on_devices(task.arguments, task.devices)).settings
    folder = Path(task.directory)
    compared = task.metrics[0] if len(task.metrics) == 1 else None
    reported = compared if task.repeats == 1 else None
    values: list[list[float]] = []
    for seed in range(settings["seed"], settings["seed"] + task.repeats):
        record = train(
            {**settings, "seed": seed},
            directory=folder / f"seed-{seed}" if task.repeats > 1 else folder,
            study=task.study,
            callbacks=[
                SchedulerCallback(connection, reported),
                TrialCallback(task.values),
            ],
        )
        if record.result["status"] == "pruned":
            return None
        values.append([metric_of(record, metric) for metric in task.metrics])
        if task.repeats > 1 and connection:
            # Of several, each is compared with the training of other trials that has the same seed.
            prune = connection.report(len(values), values[-1][0] if compared else None, record.metrics)
            if prune and len(values) < task.repeats:
                return None
    return [statistics.fmean(column) for column in zip(*values, strict=True)]


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

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        if self._connection and trainer.global_step == 0 and batch_idx == 0:
            self._connection.first_batch(trainer.max_epochs)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        prune = bool(self._connection and self._report(self._connection, trainer))
        if ranks.from_rank_zero(prune):
            raise Pruned

    def _report(self, connection: TrialConnection, trainer: Trainer) -> bool:
        callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]  # Lightning sets it elsewhere
        recorder = next(one for one in callbacks if isinstance(one, EpochRecorder))
        row = recorder.rows[-1]
        value = recorder.best.get(self._metric) if self._metric else None
        return connection.report(int(row["epoch"]), value, row)


def _on_devices(arguments: Sequence[str], devices: int) -> list[str]:
    """Sets the devices of a training to those of its slot, which are numbered from 0 there."""
    if devices == 1:
        return list(arguments)
    return [*(word for word in arguments if word.partition("=")[0] != DEVICES), f"{DEVICES}={devices}"]


def metric_of(record: Run, metric: str) -> float:
    """Returns a metric of the best epoch of a finished run, or a cost such as `latency_ms.one`.

    Raises:
        SettingError: If there is none of that name.
        TrainingError: If it is no finite number.
    """
    result = record.result
    value = result["metrics"].get(metric, at(result, metric))
    if not isinstance(value, int | float) or isinstance(value, bool):
        message = f"The run has no metric {metric}; it has {', '.join(result['metrics'])}."
        raise SettingError(Fault("objective.metric", "unknown", message))
    if not math.isfinite(value):
        raise TrainingError(Fault(metric, "diverged", f"{metric} must be finite, got {value}."))
    return float(value)


def may_succeed_again(error: UserError) -> bool:
    """Whether another attempt may succeed: after what the machine lacked, such as memory or space on the disk."""
    return not isinstance(error, SettingError) and isinstance(error.__cause__, OSError | RuntimeError)


def _run_ranks(task: TrialTask, connection: TrialConnection) -> None:
    """Trains with a process for each device; rank 0 sends its messages through this process."""
    from sentattn.distributed.launch import run_ranks

    key = secrets.token_bytes()
    with tempfile.TemporaryDirectory(prefix="sentattn-") as folder, Listener(authkey=key) as listener:
        threading.Thread(target=_relay, args=(listener, connection), daemon=True).start()
        command = ["-m", "sentattn.sweep.trial", json.dumps(asdict(task))]
        variables = {RELAY: json.dumps([listener.address, key.hex()])}
        failures = run_ranks(command, task.devices, Path(folder), **variables)
    if 0 in failures:
        sys.exit(min(1, abs(failures[0].exitcode)))


def _relay(listener: Listener, connection: TrialConnection) -> None:
    """Passes messages of rank 0 on to the scheduler, and replies back."""
    with listener.accept() as rank, contextlib.suppress(EOFError):
        while True:
            message = rank.recv()
            reply = connection.relay(message)
            if isinstance(message, Report):
                rank.send(reply)


@contextlib.contextmanager
def _connected() -> Iterator[TrialConnection | None]:
    """The connection of a rank to its trial; None on every rank but rank 0."""
    if os.environ["RANK"] != "0":
        yield None
        return
    address, key = json.loads(os.environ.pop(RELAY))
    with Client(address, authkey=bytes.fromhex(key)) as connection:
        yield TrialConnection(connection)


def main(arguments: Sequence[str]) -> None:
    """Trains as one of the ranks of a trial."""
    ranks.end_with_agent()
    task = TrialTask(**json.loads(arguments[0]))
    torch.set_num_threads(task.threads)
    with _connected() as connection:
        _train_and_send(task, connection)


if __name__ == "__main__":
    main(sys.argv[1:])
