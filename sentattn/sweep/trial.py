"""A trial in its process: a training, or one for each of several seeds, that reports to its study.

As a program, `python -m sentattn.sweep.trial TASK`, this module is one of the ranks of a trial on several devices.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
from pytorch_lightning import Callback, LightningModule, Trainer

from sentattn.config.request import read_request
from sentattn.config.schema import Settings
from sentattn.distributed import ranks
from sentattn.distributed.devices import leave_step
from sentattn.errors import Pruned, RunError, UserError
from sentattn.jobs.pool import REFUSED, TRY_AGAIN, may_succeed_again
from sentattn.loggers.wandb.run import TrialCallback
from sentattn.run import CHECKPOINT_FOLDER, METRICS_FILE, RESULT_FILE, Run
from sentattn.sweep.plan import metric_of
from sentattn.sweep.records import TrialReport, TrialTask
from sentattn.training.fit import fit
from sentattn.training.launch import run_rank, run_ranks
from sentattn.training.recorder import Recorder


def run_trial(task: TrialTask, threads: int, devices: int) -> None:
    """Trains a trial in its folder, which may hold a checkpoint of an earlier attempt, and records how it ends.

    Args:
        task: The trial.
        threads: CPU threads of this process, or of each rank.
        devices: How many devices the slot has, each with a rank.

    Raises:
        UserError: If a training fails, which is recorded before.
    """
    leave_step()  # a scheduler may be one of several tasks of srun, a trial is none
    if devices > 1:
        program = ["-m", "sentattn.sweep.trial", json.dumps([asdict(task), threads, devices])]
        sys.exit(run_ranks(program, devices))
    train_trial(task, threads)


def train_trial(task: TrialTask, threads: int, devices: int = 1) -> None:
    """Trains a trial as this process, which is one of several ranks with several devices; see `run_trial`."""
    torch.set_num_threads(threads)  # before anything touches CUDA
    report = TrialReport(task) if ranks.is_rank_zero() else None
    try:
        values = _objectives(task, devices, report)
    except UserError as error:
        if report:
            report.fail(error)
        raise
    if report:
        report.end(values)


def _objectives(task: TrialTask, devices: int, report: TrialReport | None) -> list[float] | None:
    """Trains once for each seed; returns the means of the objectives, or None if the trial was pruned."""
    settings = Settings.of(task.settings or read_request(task.arguments).settings)
    if devices > 1:  # numbered from 0 in a slot
        settings = replace(settings, trainer={**settings.trainer, "devices": devices})
    compared = task.objectives[0] if len(task.objectives) == 1 else None
    reached: list[list[float]] = []
    for seed in range(settings.seed, settings.seed + task.repeats):
        directory = task.folder / f"seed-{seed}" if task.repeats > 1 else task.folder
        callbacks: list[Callback] = []
        if compared and compared.startswith("val/") and task.repeats == 1:  # costs are known at the end of a run
            callbacks.append(ReportEpochs(report, compared))
        run = _train(replace(settings, seed=seed), directory, task, [*callbacks, TrialCallback(task.values)])
        if run.result["status"] == "pruned":
            return None
        values = [metric_of(run.result, metric) for metric in task.objectives]
        reached.append([math.nan if value is None else value for value in values])
        # Of several, each is compared with the training of other trials that has the same seed.
        prune = bool(task.repeats > 1 and compared and report and report.step(len(reached), reached[-1][0]))
        if ranks.broadcast(prune) and len(reached) < task.repeats:
            return None
    return [statistics.fmean(column) for column in zip(*reached, strict=True)]


def _train(settings: Settings, directory: Path, task: TrialTask, callbacks: Sequence[Callback]) -> Run:
    """Trains in a directory, where a run that has ended counts, and a run that was interrupted is resumed.

    The forward pass is timed only for an objective: trials that share a machine disturb one another's times.

    A run with a damaged checkpoint, or that of another version of sentattn or other rows, starts anew.
    """
    run = Run(directory)
    with contextlib.suppress(RunError):
        if run.result["status"] in ("finished", "pruned"):  # the process was killed before it had recorded it
            return run
    is_timed = any(metric.startswith("latency_ms") for metric in task.objectives)
    train = partial(fit, directory=directory, study=Path(task.study).name, callbacks=callbacks, time_forward=is_timed)
    resume = directory if run.last_checkpoint.is_file() and not (directory / RESULT_FILE).exists() else None
    try:
        return train(settings, resume=resume)
    except RunError as error:
        if not resume or not any(fault.kind in ("conflict", "damaged") for fault in error.faults):
            raise
        print(f"This trial starts anew: {error}", flush=True)
    shutil.rmtree(directory / CHECKPOINT_FOLDER, ignore_errors=True)
    (directory / METRICS_FILE).unlink(missing_ok=True)
    return train(settings)


class ReportEpochs(Callback):
    """Reports each epoch to the study, which may prune the trial.

    The value is that of the best epoch so far, by which trials are compared in the end, so that no trial is pruned for
    one bad epoch after a good one. Epochs of before an interruption are reported again.

    Args:
        report: What records the trial; None on every rank but rank 0.
        metric: The objective.
    """

    def __init__(self, report: TrialReport | None, metric: str) -> None:
        self._report, self._metric = report, metric
        self._reported = 0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if ranks.broadcast(self._step(trainer)):
            raise Pruned

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._step(trainer)  # after the last epoch nothing is saved by pruning

    def _step(self, trainer: Trainer) -> bool:
        prune, recorder = False, Recorder.of(trainer)
        if self._report:
            for count in range(self._reported + 1, len(recorder.rows) + 1):
                best = recorder.best_of(recorder.rows[:count])
                prune = self._report.step(int(recorder.rows[count - 1]["epoch"]), best[self._metric])
            self._reported = len(recorder.rows)
        return prune


def main(arguments: Sequence[str]) -> None:
    """Trains as one of the ranks of a trial."""
    task, threads, devices = json.loads(arguments[0])
    code = run_rank(
        lambda: train_trial(TrialTask(**task), threads, devices),
        code_of=lambda error: TRY_AGAIN if may_succeed_again(error) else REFUSED,
    )
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
