"""`check=true`: a look at a training and three of its steps. No run is written and no weight is kept."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning.callbacks import LambdaCallback
from pytorch_lightning.utilities.model_summary.model_summary import ModelSummary
from rich.filesize import decimal
from torch import Tensor, nn
from torch.utils.data import DataLoader

from sentattn import build, run
from sentattn.config.schema import Settings
from sentattn.config.types import Node
from sentattn.console import Progress
from sentattn.distributed import devices
from sentattn.errors import Fault, RunError, SettingError
from sentattn.models import contract
from sentattn.models.classifier import TextClassifier
from sentattn.training import environment
from sentattn.training.callbacks import averaging
from sentattn.training.prepare import build_data, build_module, choose_precision, model_sizes, set_up
from sentattn.training.signals import Signals
from sentattn.training.states import plan_states
from sentattn.training.trainer import build_trainer

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
MOST_ERROR, MOST_ERROR_OF_FLOAT16 = 1e-4, 1e-2
"""Most that a text may differ by in a batch; the states of a frozen encoder are in float16."""
TOLERANCE = 0.02
"""Share by which numbers of parameters that count as equal may differ."""


def check(settings: Settings, *, runs: int = 1, match_parameters: str | None = None) -> None:
    """Prints data, shapes and parameters of a training, the time of three steps, and what so many runs need on disk.

    Refuses a model in which padding has an influence, or whose weights are no shares of the real tokens.

    The steps are those of a batch of average size, of the largest batch, and of the average one again.
    With a run in `match_parameters`, the width of `tokenwise` or of the head that trains as many parameters is printed.

    Raises:
        UserError: If the training or the model is refused, memory runs out, or no width matches.
    """
    settings = replace(settings, trainer=choose_precision(settings.trainer))
    trainer = settings.trainer
    world = trainer.get("num_nodes", 1) * devices.count_here({**trainer, "num_nodes": 1})
    with Signals(), Progress() as progress, environment.explained_torch_errors():
        set_up(settings, progress)
        data = build_data(settings, progress)
        module = build_module(replace(settings, compile=False), data)
        loader, lengths = data.train_dataloader(), data.split("train").lengths
        batches = [rows[::world] for rows in loader.sampler]  # those of one rank
        tokens = np.array([len(rows) * lengths[rows].max() for rows in batches])
        sizes = (tokens.mean(), tokens.max())
        average, largest = (loader.dataset[batches[abs(tokens - size).argmin()]] for size in sizes)
        if plan := plan_states(data, module.model, test=settings.test):
            average, largest = (
                batch._replace(
                    states_BLE=torch.zeros(*batch.tokens_BL.shape, plan.caches[0].width).to(plan.caches[0].dtype)
                )
                for batch in (average, largest)
            )
        module.example_input_array = (largest.tokens_BL, largest.mask_BL, largest.states_BLE)
        print(ModelSummary(module, max_depth=2))
        module.example_input_array = None
        _check_contract(module.model, average.tokens_BL, average.mask_BL)
        if settings.compile:  # what the summary measures is never compiled afterwards
            module.model.compile(dynamic=True)
        if match_parameters is not None:
            print(_matching_width(settings.model, module.model, model_sizes(data), match_parameters))
        ends: list[float] = []

        def note_time(*_: object) -> None:
            if module.device.type == "cuda":
                torch.cuda.synchronize()
            ends.append(time.perf_counter())

        timer = LambdaCallback(on_train_start=note_time, on_train_batch_end=note_time)
        once = build_trainer({**trainer, **ONE_PASS}, callbacks=[*averaging(settings.ema_decay), timer])
        dataset: Any = [average, largest, average]
        steps = DataLoader(dataset, batch_size=None, collate_fn=lambda batch: batch)
        once.fit(module, train_dataloaders=steps, val_dataloaders=[])
    timed = ", ".join(
        f"{seconds:.3f} s for {' x '.join(map(str, batch.tokens_BL.shape))} tokens"
        for seconds, batch in zip(np.diff(ends), dataset, strict=True)
    )
    peak = decimal(environment.peak_memory_bytes())
    accumulated = trainer.get("accumulate_grad_batches", 1)
    each = f", each of {accumulated} batches; a batch" if accumulated > 1 else ""
    print(f"Steps of {math.ceil(len(batches) / accumulated):,} an epoch{each}: {timed}; {peak} of memory at most.")
    states = [value for state in once.optimizers[0].state.values() for value in state.values()]
    weights = sum(parameter.nbytes for parameter in module.parameters())
    checkpoint = sum(value.nbytes for value in states if torch.is_tensor(value))
    checkpoint += weights if settings.ema_decay is None else 2 * weights
    free = shutil.disk_usage(next(path for path in Path(settings.output_dir, "x").absolute().parents if path.is_dir()))
    cached = f", {decimal(plan.missing.size)} for states" if plan else ""
    disk = decimal(runs * (2 * checkpoint + weights))  # the best and the last checkpoint, and the model
    print(f"Disk: {disk} for checkpoints and models{cached}; {decimal(free.free)} free in {settings.output_dir}.")
    print("Nothing was trained; leave out check=true to train.")


@torch.no_grad()
def _check_contract(model: TextClassifier, tokens_BL: Tensor, mask_BL: Tensor) -> None:
    """Prints how far a model is from the rules of `models.contract` on two texts, of which one is cut and padded.

    Raises:
        SettingError: If it breaks one.
    """
    tokens_BL, mask_BL = tokens_BL[[0, -1]], mask_BL[[0, -1]].clone()
    mask_BL[1, (int(mask_BL[1].sum()) + 1) // 2 :] = False
    errors = contract.errors(model.eval(), tokens_BL * mask_BL, mask_BL)
    model.train()
    lines = {rule: f"{rule} (largest error {error:.1g})" for rule, error in errors.items()}
    print(*(f"Check: {line}." for line in lines.values()), sep="\n")
    most = MOST_ERROR if model.embedding.fingerprint is None else MOST_ERROR_OF_FLOAT16
    if broken := [lines[rule] for rule, error in errors.items() if error > most]:
        advice = "does a part of your own leave out the mask? masked_softmax of sentattn.models.attention.base has it."
        message = f"model={model.name} fails these checks: {'; '.join(broken)}; {advice}"
        raise SettingError(Fault("model", "invalid", message))


def _matching_width(node: Node, model: TextClassifier, ids: Mapping[str, int], path: str) -> str:
    """Returns a line with the width with which a model trains nearest to the parameters of a run.

    It is that of the encoder where this has one, as `tokenwise` does, else that of the head.

    Raises:
        RunError: If there is no such run, or its result does not say how many it has trained.
        SettingError: If no width is within `TOLERANCE`.
    """
    wanted = run.load(path).result.get("parameters", {}).get("trainable")
    if not wanted:
        message = f"match_parameters={path}: {run.RESULT_FILE} does not say how many parameters the run has trained."
        raise RunError(Fault("match_parameters", "missing", message))
    part = "encoder" if "width" in node["encoder"] else "head"

    def built(width: int | None) -> int:
        with torch.device("meta"):
            return _trainable(build.build_model({**node, part: {**node[part], "width": width}}, **ids))

    read = _trainable(model) - built(node[part]["width"])  # of n-grams, whose number the training texts decide
    one, unit = read + built(1), built(2) - built(1)
    width = max(1, 1 + round((wanted - one) / unit))
    totals = ({None: read + built(None)} if part == "head" else {}) | {width: one + (width - 1) * unit}
    best, total = min(totals.items(), key=lambda item: abs(item[1] - wanted))
    difference = total / wanted - 1
    found = f"{total:,} trained parameters, {difference:+.2%} against {wanted:,} of match_parameters"
    if abs(difference) >= TOLERANCE:
        message = f"no model.{part}.width trains as many parameters, within {TOLERANCE:.0%}: the nearest has {found}."
        raise SettingError(Fault("match_parameters", "conflict", message))
    return f"model.{part}.width={'null' if best is None else best}: {found}."


def _trainable(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
