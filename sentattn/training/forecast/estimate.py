"""What to expect of a training before it begins: data, shapes, parameters, memory, time and disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sentattn.distributed import devices
from sentattn.models.attention.base import Attended
from sentattn.models.classifier import TextClassifier
from sentattn.progress import Progress
from sentattn.training import costs
from sentattn.training.fit import Prepared, prepare
from sentattn.training.forecast import memory
from sentattn.training.forecast.probing import Step, measure_step, time_steps, time_validation
from sentattn.training.forecast.sizing import Order
from sentattn.training.signals import Signals

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

Settings = Mapping[str, Any]

SLOTS = {
    "embedding": "states_BLE",
    "encoder": "states_BLD",
    "attention": "values_BRD",
    "pooling": "vector_BP",
    "head": "logits_BC",
}
"""The parts of a model and what each gives."""
LINE = "  {:<11}{:<13}{:<18}{:>14}"
CHECKPOINTS = 2
"""The best and the last."""


def check(settings: Settings, *, seeds: int = 1) -> None:
    """Prints what to expect of a training, from a few of its own steps, and leaves no run behind.

    Args:
        settings: The resolved settings.
        seeds: Number of runs that are to be trained.

    Raises:
        UserError: If the training would be refused, or its memory is not enough.
    """
    world = _world(settings["trainer"])
    with Signals() as signals, Progress() as progress:
        prepared = prepare(settings, progress)
        order = Order(prepared.data.train_dataloader(), prepared.data.split("train").lengths, world=world)
        for line in (_lengths(prepared.data), *_shapes(prepared, order)):
            print(line)
        with memory.told_when_short():
            step = measure_step(settings, prepared.lit, order, signals, progress)
            timed = time_steps(settings, prepared.lit, order, step, signals, progress)
            passes = _passes(settings, prepared, signals, progress)
        progress.close()
        print(_memory(step))
        for line in _time(settings, order.seconds(timed), passes, seeds=seeds, world=world):
            print(line)
        print(_disk(settings, step, seeds=seeds))
        print("Nothing was trained; leave out check=true to train.")


def _world(trainer: Settings) -> int:
    """Number of devices that would share each batch, on this machine and on others like it."""
    nodes = int(trainer.get("num_nodes", 1))
    return nodes * devices.count({**trainer, "num_nodes": 1})


def _lengths(data: TextData) -> str:
    lengths = data.split("train").lengths
    cut = " (cut there by data.max_length)" if lengths.max() == data.max_length else ""
    return (
        f"Training texts: {lengths.mean():.0f} tokens on average, 95% have at most "
        f"{np.quantile(lengths, 0.95, method='inverted_cdf')}, the longest {lengths.max()}{cut}; "
        f"{int(lengths.sum()):,} tokens an epoch."
    )


def _shapes(prepared: Prepared, order: Order) -> Iterator[str]:
    """A line a slot: what it gives for the heaviest batch, and its parameters."""
    heaviest = order.heaviest()[-1]
    rows, longest = int(order.rows[heaviest]), int(order.longest[heaviest])
    padding = 1 - order.real_tokens / order.sizes.sum()
    yield (
        f"The largest of {len(order):,} training batches has {rows} texts of at most {longest} tokens; "
        f"padding is {padding:.0%} of all tokens."
    )
    model = prepared.lit.model
    yield LINE.format("", "tokens_BL", _times(rows, longest), "").rstrip()
    for slot, shape in _slot_shapes(model, order.longest_text(heaviest)).items():
        count = costs.parameters(getattr(model, slot))["total"]
        yield LINE.format(slot, SLOTS[slot], _times(rows, *shape[1:]), f"{count:,}")
        if slot == "attention":
            yield LINE.format("", "weights_BRL", _times(rows, shape[1], longest), "").rstrip()
    total = costs.parameters(model)
    learned = "all learned" if total["total"] == total["trainable"] else f"{total['trainable']:,} learned"
    yield f"  {total['total']:,} parameters, {learned}."


def _slot_shapes(model: TextClassifier, tokens_BL: torch.Tensor) -> dict[str, tuple[int, ...]]:
    """The shape of what each slot gives for one text."""
    shapes: dict[str, tuple[int, ...]] = {}

    def remember(slot: str, given: torch.Tensor | Attended) -> None:
        shapes[slot] = tuple((given.values_BRD if isinstance(given, Attended) else given).shape)

    handles = [
        getattr(model, slot).register_forward_hook(lambda _, __, given, slot=slot: remember(slot, given))
        for slot in SLOTS
    ]
    with torch.inference_mode():
        model.eval()(tokens_BL, torch.ones_like(tokens_BL, dtype=torch.bool))
    for handle in handles:
        handle.remove()
    model.train()
    return shapes


def _passes(settings: Settings, prepared: Prepared, signals: Signals, progress: Progress) -> dict[str, float]:
    """Seconds of one pass over the validation rows and, where they are used, the test rows."""
    orders = {
        split: Order(prepared.data.batches(split), prepared.data.split(split).lengths)
        for split in ("val", *(["test"] if settings["test"] else []))
    }
    timed = time_validation(settings, prepared.lit, orders["val"], signals, progress)
    by_size = {int(orders["val"].sizes[batch]): seconds for batch, seconds in timed.items()}
    sizes = sorted(by_size)
    seconds = [by_size[size] for size in sizes]
    return {split: float(np.interp(order.sizes, sizes, seconds).sum()) for split, order in orders.items()}


def _memory(step: Step) -> str:
    parts = {
        "weights": step.weights,
        "gradients": step.gradients,
        "optimizer": step.optimizer,
        "average of the weights": step.average,
        "activations of the largest batch": step.activations,
    }
    told = ", ".join(f"{name} {memory.told(size)}" for name, size in parts.items() if size)
    if step.device.type == "cuda":
        whole = torch.cuda.get_device_properties(step.device).total_memory
        where = f"of {memory.told(whole)} of {torch.cuda.get_device_name(step.device)}"
    else:
        where = f"of main memory for the process, with Python and libraries ({step.device.type})"
    return f"Memory: about {memory.told(step.peak)} {where}: {told}."


def _time(
    settings: Settings, seconds: NDArray[np.float64], passes: Mapping[str, float], *, seeds: int, world: int
) -> Iterator[str]:
    epochs = settings["trainer"]["max_epochs"]
    training = float(seconds.mean()) * _batches(settings["trainer"].get("limit_train_batches"), len(seconds))
    validation = passes["val"] / world
    whole = epochs * (training + validation) + sum(passes.values())
    test = f", then {_duration(passes['test'])} of testing" if "test" in passes else ""
    epoch = f"{_duration(training)} of training and {_duration(validation)} of validation"
    yield f"Time: about {_duration(whole)} a run: {_counted(epochs, 'epoch')} of {epoch} each{test}."
    if world > 1:
        yield f"  on {world} devices, each with its share of every batch; what they tell one another comes on top."
    if seeds > 1:
        yield f"  {seeds} runs, one after another: about {_duration(seeds * whole)}."


def _batches(limit: float | None, number: int) -> int:
    """How many of an epoch's batches Lightning takes: a number of them, or a share."""
    if limit is None:
        return number
    return min(limit, number) if isinstance(limit, int) else int(limit * number)


def _disk(settings: Settings, step: Step, *, seeds: int) -> str:
    """What a run keeps: checkpoints, and the weights once more as the model."""
    kept = seeds * (CHECKPOINTS * (step.weights + step.optimizer + step.average) + step.weights)
    folder = Path(settings["output_dir"]).absolute()
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    enough = "" if kept < free else " That is not enough: name another folder with output_dir=FOLDER."
    return (
        f"Disk: about {memory.told(kept)} for checkpoints and model{'s' if seeds > 1 else ''}; "
        f"{memory.told(free)} are free under {settings['output_dir']}.{enough}"
    )


def _times(*numbers: int) -> str:
    return " x ".join(map(str, numbers))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _duration(seconds: float) -> str:
    """Returns a time for people."""
    if seconds < 10:
        return f"{max(seconds, 0.1):.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, hours = round(seconds / 60), round(seconds / 3600, 1)
    return f"{minutes} min" if minutes < 100 else f"{hours:,} h"
