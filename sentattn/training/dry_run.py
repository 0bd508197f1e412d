"""`check=true`: what to expect of a training, from a few of its own steps. No run is written and no weight is kept."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.utilities.model_summary.model_summary import ModelSummary

from sentattn.console import Progress, table_lines
from sentattn.data.batching import Batch
from sentattn.distributed import devices
from sentattn.models.classifier import TextClassifier
from sentattn.training import costs
from sentattn.training.ema import WarmEMA
from sentattn.training.fit import prepare
from sentattn.training.memory import THIS_MACHINE, format_bytes, require_memory, total_memory
from sentattn.training.sample import Batches, Timer
from sentattn.training.signals import Signals
from sentattn.training.trainer import build_trainer

if TYPE_CHECKING:
    from sentattn.training.lit_module import LitClassifier

Settings = Mapping[str, Any]

OUTPUTS = {
    "embedding": "states_BLE",
    "encoder": "states_BLD",
    "attention": "values_BRD",
    "pooling": "vector_BP",
    "head": "logits_BC",
}
"""The parts of a model and what each returns."""
ONCE: dict[str, Any] = {"max_epochs": 1, "min_epochs": None, "profiler": None} | {
    "limit_train_batches": 1.0,
    "limit_val_batches": 1.0,
}
"""Trainer settings with which each of a few batches is used once."""
CHECKPOINTS = 2
"""The best and the last."""


def check(settings: Settings, *, seeds: int = 1) -> None:
    """Prints what to expect of a training: data, shapes, parameters, memory, time and disk.

    Args:
        settings: The resolved settings.
        seeds: Number of runs that are to be trained.

    Raises:
        UserError: If the training would be refused, or its memory is not enough.
    """
    world = settings["trainer"].get("num_nodes", 1) * devices.count({**settings["trainer"], "num_nodes": 1})
    with Signals() as signals, Progress() as progress:
        data, lit, _ = prepare(settings, progress)
        train = Batches.of(data.train_dataloader(), data.split("train").lengths, world=world)
        splits = ("val", "test") if settings["test"] else ("val",)
        passes = {split: Batches.of(data.batches(split), data.split(split).lengths) for split in splits}
        require_memory(settings, lit.model, rows=len(train.rows[-1]), tokens=int(train.longest[-1]))
        print("\n".join([_lengths(train, data.max_length), *_shapes(lit.model, train)]))
        costs.reset_peak_memory()
        with costs.explained_out_of_memory():
            steps = Timer(signals, progress, "Timing training steps")
            sample = train.sample()
            _fit(settings, lit, sample, steps)
            token = steps.seconds_per_token(sample)
            if steps.tried_heaviest:
                validation = Timer(signals, progress, "Timing validation")
                sample = passes["val"].sample()
                sample.timer = validation
                _trainer(settings, validation).validate(lit, dataloaders=sample, verbose=False)
                forward = validation.seconds_per_token(sample)
            else:
                forward = token / 3  # a step computes about as much as three forward passes
        progress.close()
    seconds = {split: float(forward * batches.tokens.sum()) for split, batches in passes.items()}
    share = _batches(settings["trainer"].get("limit_train_batches"), len(train)) / len(train)
    epoch = float(token * train.tokens.sum() * share)
    weights = sum(parameter.nbytes for parameter in lit.parameters())
    average = weights if settings["ema_decay"] is not None else 0
    if not steps.tried_heaviest:
        duration = _duration(token * train.tokens[-1])
        print(f"The largest batch was not tried: a step with it would take about {duration}.")
    print(_memory(settings, weights, steps.state_bytes))
    print("\n".join(_time(settings, epoch, seconds, seeds=seeds, world=world)))
    print(_disk(settings["output_dir"], seeds * (CHECKPOINTS * (weights + steps.state_bytes + average) + weights)))
    print("Nothing was trained; leave out check=true to train.")


def _fit(settings: Settings, lit: LitClassifier, batches: Batches, timer: Timer) -> None:
    """Takes steps until the timer ends them."""
    batches.timer = timer
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no `val_dataloader`.*")  # a few steps are enough
        _trainer(settings, timer).fit(lit, train_dataloaders=batches)


def _trainer(settings: Settings, timer: Timer) -> Trainer:
    average = [WarmEMA(settings["ema_decay"])] if settings["ema_decay"] is not None else []
    return build_trainer({**settings, "trainer": {**settings["trainer"], **ONCE}}, callbacks=[timer, *average])


def _lengths(train: Batches, max_length: int | None) -> str:
    lengths = train.lengths
    cut = " (cut there by data.max_length)" if lengths.max() == max_length else ""
    most = np.quantile(lengths, 0.95, method="inverted_cdf")
    return (
        f"Training texts: {lengths.mean():.0f} tokens on average, 95% have at most {most}, the longest "
        f"{lengths.max()}{cut}; {int(lengths.sum()):,} tokens an epoch."
    )


class _Slots(LightningModule):
    """The parts of a model for Lightning's summary, with one text as its input."""

    def __init__(self, model: TextClassifier, text: Batch) -> None:
        super().__init__()
        for slot in OUTPUTS:
            self.add_module(slot, getattr(model, slot))
        self.example_input_array = (text.tokens_BL, text.mask_BL)
        self.classify = model.forward

    def forward(self, *inputs: Any) -> Any:
        """Runs the model."""
        return self.classify(*inputs)


def _shapes(model: TextClassifier, train: Batches) -> Iterator[str]:
    """Yields a line a part: what it returns for the largest batch, and its parameters."""
    rows, longest = len(train.rows[-1]), int(train.longest[-1])
    padding = 1 - sum(int(train.lengths[batch].sum()) for batch in train.rows) / train.tokens.sum()
    yield (
        f"The largest of {len(train):,} training batches has {rows} texts of at most {longest} tokens; "
        f"padding is {padding:.0%} of all tokens."
    )
    [batch] = train.pick([-1])
    text = Batch(*(tensor[batch.mask_BL.all(dim=1)][:1] for tensor in batch))
    summary = ModelSummary(_Slots(model, text))
    table = [("", "tokens_BL", _times(rows, longest), "")]
    for slot, shape, count in zip(summary.layer_names, summary.out_sizes, summary.param_nums, strict=True):
        values = shape[0] if slot == "attention" else shape
        table.append((slot, OUTPUTS[slot], _times(rows, *values[1:]), f"{count:,}"))
        if slot == "attention":
            table.append(("", "weights_BRL", _times(rows, *shape[1][1:]), ""))
    yield from (f"  {line}" for line in table_lines(table, align="<<<>"))
    total, learned = summary.total_parameters, summary.trainable_parameters
    yield f"  {total:,} parameters, {'all' if learned == total else f'{learned:,}'} learned."


def _memory(settings: Settings, weights: int, state: int) -> str:
    peak, (total, name) = costs.peak_memory_bytes(), total_memory(settings["trainer"]["accelerator"])
    used = "not measured on this system" if peak is None else f"about {format_bytes(peak)}"
    of = "" if total is None else f" of {format_bytes(total)} of {name}"
    libraries = ", with Python and libraries" if name == THIS_MACHINE else ""
    parts = f"the weights take {format_bytes(weights)}, the optimizer's state {format_bytes(state)}"
    return f"Memory: {used}{of}{libraries}; {parts}."


def _time(settings: Settings, training: float, passes: Mapping[str, float], *, seeds: int, world: int) -> Iterator[str]:
    epochs = settings["trainer"]["max_epochs"]
    validation = passes["val"] / world
    whole = epochs * (training + validation) + sum(passes.values())
    test = f", then {_duration(passes['test'])} of testing" if "test" in passes else ""
    epoch = f"{_duration(training)} of training and {_duration(validation)} of validation"
    yield f"Time: about {_duration(whole)} a run: {epochs} epoch{'s' * (epochs != 1)} of {epoch} each{test}."
    if world > 1:
        yield f"  on {world} devices, each with its share of every batch; communication comes on top."
    if seeds > 1:
        yield f"  {seeds} runs, one after another: about {_duration(seeds * whole)}."


def _batches(limit: float | None, number: int) -> int:
    """How many of an epoch's batches Lightning takes: a number of them, or a share."""
    if limit is None:
        return number
    return min(limit, number) if isinstance(limit, int) else int(limit * number)


def _disk(folder: str, size: int) -> str:
    """What runs keep: checkpoints, and the weights once more as the model."""
    path = Path(folder).absolute()
    free = shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.is_dir())).free
    enough = "" if size < free else " That is not enough: name another folder with output_dir=FOLDER."
    return f"Disk: about {format_bytes(size)} for what is kept; {format_bytes(free)} are free under {folder}.{enough}"


def _times(*numbers: int) -> str:
    return " x ".join(map(str, numbers))


def _duration(seconds: float) -> str:
    """Returns a time for people."""
    if seconds < 100:
        return f"{max(seconds, 0.1):.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, hours = round(seconds / 60), round(seconds / 3600, 1)
    return f"{minutes} min" if minutes < 100 else f"{hours:,} h"
