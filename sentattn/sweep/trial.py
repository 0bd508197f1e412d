"""A trial: a training, or one for each of several seeds, on which the owner of a study looks on."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sentattn import build
from sentattn.config.groups import at
from sentattn.config.request import read_request
from sentattn.distributed.devices import place
from sentattn.errors import SettingError, TrainingError, UserError
from sentattn.loggers.wandb import TrialCallback
from sentattn.progress import Progress
from sentattn.run import Run
from sentattn.sweep.channel import Channel
from sentattn.sweep.group import together
from sentattn.sweep.onlooker import Onlooker
from sentattn.training.environment import quiet_libraries
from sentattn.training.fit import train

FEW, DEVICES = 8, "trainer.devices"
Task = Mapping[str, Any]
Settings = Mapping[str, Any]


def warm(studies: Sequence[Sequence[str]]) -> None:
    """Does once what all trials have in common: parses the grammar, imports the parts, brings the data into the cache.

    Args:
        studies: For each study, the settings that its trials share. Where they are none without those that are
            searched, its trials find nothing prepared.

    Raises:
        DataError: If the data is at fault.
    """
    import pyarrow.parquet  # noqa: F401  # written at the end of each trial

    quiet_libraries()
    torch.set_num_threads(1)  # a process that forks starts no pool of threads
    for arguments in studies:
        with contextlib.suppress(SettingError):
            settings = read_request(arguments).settings
            build.build_data(settings).prepare(Progress())
            model = build.build_model(settings["model"], num_embeddings=FEW, classes=2)
            build.build_optimizer(settings, model)


def run(task: Task) -> None:
    """Trains in a process of its own, and tells the owner what came of it.

    Args:
        task: `key` of the trial, `arguments` of its training, the `values` it tries, how many `repeats` of it, the
            `directory` of its run, `study`, `metrics` of the objectives, `threads` and `devices`.
    """
    if task["devices"] > 1 and place() is None:
        if code := together(task):
            sys.exit(code)
        return
    torch.set_num_threads(task["threads"])
    here = place()
    with Channel(task["key"]) if here is None or here.rank == 0 else contextlib.nullcontext() as channel:
        try:
            values = _train(task, channel)
        except UserError as error:
            print(error, file=sys.stderr)
            if channel:
                channel.fail(error.messages, again=may_end_better(error))
            return
        if channel:
            channel.complete(values) if values else channel.pruned()


def _train(task: Task, channel: Channel | None) -> list[float] | None:
    """Trains as often as the trial asks for; returns the means of the objectives, or None if it was ended early."""
    settings = read_request(_on_devices(task["arguments"], task["devices"])).settings
    repeats, metrics, folder = task["repeats"], task["metrics"], Path(task["directory"])
    compared = metrics[0] if len(metrics) == 1 else None
    found: list[list[float]] = []
    for seed in range(settings["seed"], settings["seed"] + repeats):
        record = train(
            {**settings, "seed": seed},
            directory=folder / f"seed-{seed}" if repeats > 1 else folder,
            study=task["study"],
            callbacks=[Onlooker(channel, compared if repeats == 1 else None), TrialCallback(task["values"])],
        )
        if record.result["status"] == "pruned":
            return None
        found.append([figure(record, metric) for metric in metrics])
        # Of several, each is compared with the training of other trials that has the same seed.
        value = found[-1][0] if compared else None
        if repeats > 1 and channel and channel.report(len(found), value, record.metrics) and len(found) < repeats:
            return None
    return [statistics.fmean(values) for values in zip(*found, strict=True)]


def _on_devices(arguments: Sequence[str], devices: int) -> list[str]:
    """Gives a training the devices of its slot, which are numbered from 0 there."""
    if devices == 1:
        return list(arguments)
    return [*(word for word in arguments if word.partition("=")[0] != DEVICES), f"{DEVICES}={devices}"]


def figure(record: Run, metric: str) -> float:
    """Returns a figure of a finished run: one of its best epoch, or of what the run cost such as `latency_ms.one`.

    Raises:
        SettingError: If there is none of that name.
        TrainingError: If it is no number.
    """
    result = record.result
    value = result["metrics"].get(metric, at(result, metric))
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SettingError(f"{metric} is no figure of the trial; there are {', '.join(result['metrics'])}.")
    if not math.isfinite(value):
        raise TrainingError(f"{metric} came to {value}.")
    return float(value)


def may_end_better(error: UserError) -> bool:
    """Whether another try may end better: after what the machine lacks, such as memory or room on a disk."""
    return not isinstance(error, SettingError) and isinstance(error.__cause__, OSError | RuntimeError)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
