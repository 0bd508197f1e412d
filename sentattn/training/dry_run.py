"""`check=true`: what to expect of a training, from three of its own steps. No run is written and no weight is kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.model_summary.model_summary import ModelSummary
from rich.filesize import decimal
from torch import nn
from torch.utils.data import DataLoader

from sentattn import build, run
from sentattn.config.schema import Settings
from sentattn.console import Progress, plural, table_lines
from sentattn.data.batching import Batch
from sentattn.distributed import devices
from sentattn.errors import Fault, RunError, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.models.head import Head
from sentattn.training import environment
from sentattn.training.callbacks import averaging
from sentattn.training.environment import require_memory, total_memory
from sentattn.training.fit import choose_precision, prepare
from sentattn.training.lit_module import LitClassifier
from sentattn.training.signals import Signals
from sentattn.training.states import describe_states, plan_states
from sentattn.training.trainer import build_trainer

OUTPUTS = {
    "embedding": "states_BLE",
    "encoder": "states_BLD",
    "attention": "values_BRD",
    "pooling": "vector_BP",
    "head": "logits_BC",
    "wide": "terms_BGC",
}
"""The parts of a model and what each returns."""
ONE_PASS = {
    "max_epochs": 1,
    "min_epochs": None,
    "profiler": None,
    "accumulate_grad_batches": 1,
    "limit_train_batches": 1.0,
    "limit_val_batches": 0,
    "num_sanity_val_steps": 0,
}
"""Trainer settings with which each of a few batches is one step."""
FORWARD = 1 / 3
"""Time of a forward pass in that of a training step."""
CHECKPOINTS = 2
"""The best and the last."""
TOLERANCE = 0.02
"""Share by which numbers of parameters that count as equal may differ."""


def check(settings: Settings, *, seeds: int = 1, match_parameters: str | None = None) -> None:
    """Prints what to expect of trainings with so many seeds: data, shapes, parameters, memory, time and disk.

    The steps are those of a batch of average size, of the largest batch, and of the average one again; the last one's
    time is reported.
    With a run in `match_parameters`, the width of the head that trains as many parameters is printed.

    Raises:
        UserError: If the training would be refused, its memory is not enough, or no width matches.
    """
    wanted = None if match_parameters is None else _trained_parameters(match_parameters)
    settings = choose_precision(settings)
    trainer = settings.trainer
    world = trainer.get("num_nodes", 1) * devices.count_here({**trainer, "num_nodes": 1})
    with Signals() as signals, Progress() as progress, environment.explained_out_of_memory():
        data, module, evaluator, *_ = prepare(settings, progress)
        loader, lengths = data.train_dataloader(), data.split("train").lengths
        batches = [rows[::world] for rows in loader.sampler]  # those of one rank
        tokens = np.array([len(rows) * lengths[rows].max() for rows in batches])
        sizes = (tokens.mean(), tokens.max())
        average, largest = (loader.dataset[batches[abs(tokens - size).argmin()]] for size in sizes)
        require_memory(settings, module.model, rows=len(largest.labels_B), tokens=largest.tokens_BL.shape[1])
        print(_lengths(lengths, data.max_length, padding=1 - lengths.sum() / (world * tokens.sum())))
        if (plan := plan_states(settings, data, module.model)) is not None:
            print(describe_states(plan, evaluator.device))
            if plan.has_room:
                average, largest = (
                    batch._replace(states_BLE=torch.zeros(*batch.tokens_BL.shape, plan.cache.width).half())
                    for batch in (average, largest)
                )
        print("\n".join(_shapes(module, largest, len(batches))))
        if wanted is not None:
            print(_matching_width(settings, module.model, len(data.labels), wanted))
        environment.reset_peak_memory()
        timer = Timer(signals)
        once = build_trainer({**trainer, **ONE_PASS}, callbacks=[*averaging(settings), timer])
        dataset: Any = [average, largest, average]
        steps = DataLoader(dataset, batch_size=None, collate_fn=lambda batch: batch)
        once.fit(module, train_dataloaders=steps, val_dataloaders=[])
    weights = sum(parameter.nbytes for parameter in module.parameters())
    states = [value for state in once.optimizers[0].state.values() for value in state.values()]
    state = sum(value.nbytes for value in states if torch.is_tensor(value))
    limit, number = trainer.get("limit_train_batches"), len(batches)
    taken = number if limit is None else min(limit, number) if isinstance(limit, int) else int(limit * number)
    # Of a step with a frozen encoder that computes its states, nearly all is its forward pass.
    computes_states = module.model.embedding.frozen_parameters and average.states_BLE is None
    forward = 1.0 if computes_states else FORWARD
    per_token = forward * timer.seconds[-1] / average.tokens_BL.numel()
    splits = ("val", "test") if settings.test else ("val",)
    passes = {split: per_token * int(data.split(split).lengths.sum()) for split in splits}
    checkpoint = weights + state + (weights if settings.ema_decay is not None else 0)
    print(_memory(settings, weights, state))
    print(_time(settings, taken * timer.seconds[-1], passes, seeds=seeds, world=world))
    print(_disk(settings.output_dir, seeds * (CHECKPOINTS * checkpoint + weights)))
    print("Nothing was trained; leave out check=true to train.")


class Timer(Callback):
    """Keeps the seconds of each step."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self.seconds: list[float] = []
        self._started = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.install()  # Ctrl-C and SIGTERM raise at once, not as Lightning handles them
        self._started = time.perf_counter()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        if pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        now = time.perf_counter()
        self.seconds.append(now - self._started)
        self._started = now


def _trained_parameters(path: str) -> int:
    """Returns the number of parameters that a run has trained.

    Raises:
        RunError: If there is no such run, or its result does not say it.
    """
    number = run.load(path).result.get("parameters", {}).get("trainable")
    if not isinstance(number, int) or not number:
        message = f"match_parameters={path}: {run.RESULT} does not say how many parameters the run has trained."
        raise RunError(Fault("match_parameters", "missing", message))
    return number


def _matching_width(settings: Settings, model: TextClassifier, classes: int, wanted: int) -> str:
    """Returns a line with the width of the head with which a model trains nearest to so many parameters.

    Raises:
        SettingError: If none does within `TOLERANCE`.
    """
    others = _trainable(model) - _trainable(model.head)

    def total(width: int | None) -> int:
        node = {**settings.model["head"], "width": width}
        with torch.device("meta"):
            return others + _trainable(build.instantiate(node, Head, dim=model.pooling.out_dim, classes=classes))

    narrow = total(1)
    width = 1 + round((wanted - narrow) / (total(2) - narrow))  # each unit has as many parameters
    best = min((None, max(1, width)), key=lambda width: abs(total(width) - wanted))
    difference = total(best) / wanted - 1
    found = f"{total(best):,} trained parameters, {difference:+.2%} against {wanted:,} of match_parameters"
    if abs(difference) >= TOLERANCE:
        message = f"no model.head.width trains as many parameters, within {TOLERANCE:.0%}: the nearest has {found}."
        raise SettingError(Fault("match_parameters", "conflict", message))
    return f"model.head.width={'null' if best is None else best}: {found}."


def _trainable(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def _lengths(lengths: NDArray[np.int64], max_length: int | None, *, padding: float) -> str:
    cut = " (cut there by data.max_length)" if lengths.max() == max_length else ""
    most = np.quantile(lengths, 0.95, method="inverted_cdf")
    return (
        f"Training texts: {lengths.mean():.0f} tokens on average, 95% have at most {most}, the longest "
        f"{lengths.max()}{cut}; {int(lengths.sum()):,} tokens an epoch; padding is {padding:.0%} of a batch."
    )


def _shapes(module: LitClassifier, largest: Batch, batches: int) -> Iterator[str]:
    """Yields a line a part: what it returns for the largest batch, and its parameters."""
    rows, longest = largest.tokens_BL.shape
    yield f"The largest of {batches:,} training batches has {rows} texts of at most {longest} tokens."
    module.example_input_array = (largest.tokens_BL, largest.mask_BL, largest.states_BLE)
    summary = ModelSummary(module, max_depth=2)
    module.example_input_array = None
    table = [("", "tokens_BL", f"{rows} x {longest}", "")]
    for layer, shape, count in zip(summary.layer_names, summary.out_sizes, summary.param_nums, strict=True):
        part = layer.removeprefix("model.")
        if part not in OUTPUTS or not isinstance(shape, list):  # a part without an output is not used
            continue
        values, *others = shape if isinstance(shape[0], list) else [shape]
        table.append((part, OUTPUTS[part], " x ".join(map(str, values)), f"{count:,}"))
        if part == "attention":
            table.append(("", "weights_BRL", " x ".join(map(str, others[0])), ""))
    yield from (f"  {line}" for line in table_lines(table, align="<<<>"))
    total, trainable = summary.total_parameters, summary.trainable_parameters
    yield f"  {total:,} parameters, {'all' if trainable == total else f'{trainable:,}'} trainable."


def _memory(settings: Settings, weights: int, state: int) -> str:
    peak, (total, name) = environment.peak_memory_bytes(), total_memory(settings.trainer["accelerator"])
    used = "not measured on this system" if peak is None else f"about {decimal(peak)}"
    of = "" if total is None else f" of {decimal(total)} of {name}"
    return f"Memory: {used}{of}; weights {decimal(weights)}, the optimizer's state {decimal(state)}."


def _time(settings: Settings, training: float, passes: Mapping[str, float], *, seeds: int, world: int) -> str:
    """Returns the time of a run: epochs of training and validation, then the best epoch on each split by one device."""
    epochs, validation = settings.trainer["max_epochs"], passes["val"] / world
    run = epochs * (training + validation) + sum(passes.values())
    all_runs = f", {_duration(seeds * run)} for {seeds} runs" if seeds > 1 else ""
    devices_note = f"; on {world} devices, without communication" if world > 1 else ""
    epoch = f"{_duration(training)} of training and {_duration(validation)} of validation"
    return f"Time: about {_duration(run)} a run{all_runs}: {plural(epochs, 'epoch')} of {epoch}{devices_note}."


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else str(timedelta(seconds=round(seconds)))


def _disk(folder: str, size: int) -> str:
    path = Path(folder).absolute()
    free = shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.is_dir())).free
    enough = "" if size < free else " That is not enough: name another folder with output_dir=FOLDER."
    return f"Disk: about {decimal(size)} for checkpoints and models; {decimal(free)} free in {folder}.{enough}"
