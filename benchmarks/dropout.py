"""Measures which part of a training step dropout takes, by preset, against `torch.nn.functional.dropout`.

Hooks record shape and share of every dropout of a step. Forward and backward passes of dropout alone are then timed on
these shapes, and divided by the time of the step, whose batches have ten lengths (`step.py`).

usage: python benchmarks/dropout.py [rounds=7] [models=structured,transformer,...]
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from functools import partial

import torch
from measure import interleave, machine
from step import LENGTHS, training_step
from torch import Tensor, nn

from sentattn.models.dropout import Dropout

MODELS = "structured,additive,feedforward,lstm_mean,lstm_max,lstm,cnn,transformer,mean,relation,relation_plain"
LIMITS = {"relation": ("data.max_length=64",), "relation_plain": ("data.max_length=64",)}


def dropouts(model: nn.Module, step: Callable[[], object]) -> list[tuple[Tensor, float]]:
    """Returns an input of each dropout in a pass over all lengths, and its share."""
    seen: list[tuple[Tensor, float]] = []

    def record(module: nn.Module, arguments: tuple[Tensor], _: Tensor) -> None:
        assert isinstance(module, Dropout)
        if module.p:
            seen.append((torch.ones_like(arguments[0], requires_grad=True), module.p))

    hooks = [module.register_forward_hook(record) for module in model.modules() if isinstance(module, Dropout)]
    step()
    for hook in hooks:
        hook.remove()
    return seen


def both_passes(form: Callable[[Tensor, float], Tensor], inputs: list[tuple[Tensor, float]]) -> None:
    """Runs forward and backward passes of dropout alone."""
    for states, p in inputs:
        form(states, p).backward(states)  # type: ignore[no-untyped-call]
        states.grad = None


def main(options: dict[str, str]) -> None:
    """Prints a row a model, then a line of JSON."""
    rows: dict[str, dict[str, float]] = {}
    print("| model | ms a step | dropout | share | torch's dropout instead |\n|---|---|---|---|---|")
    for name in options.get("models", MODELS).split(","):
        model, one = training_step([f"model={name}", *LIMITS.get(name, ())])
        step = partial(lambda one: [one(length) for length in LENGTHS], one)
        inputs = dropouts(model, step)
        forms: dict[str, Callable[[], object]] = {
            "step": step,
            "ours": partial(both_passes, lambda states, p: Dropout(p)(states), inputs),
            "torch": partial(both_passes, nn.functional.dropout, inputs),
        }
        readings = interleave(forms, rounds=int(options.get("rounds", "7")), warm_up=2)
        row = {form: 1000 * statistics.median(seconds) / len(LENGTHS) for form, seconds in readings.items()}
        rows[name] = row
        print(
            f"| {name} | {row['step']:.0f} | {row['ours']:.1f} | {row['ours'] / row['step']:.1%} | {row['torch']:.1f} |"
        )
    print("\n" + json.dumps({"title": "Dropout's part of a step", "goal": "at most 5%", "rows": rows} | machine()))


if __name__ == "__main__":
    main(dict(word.split("=", 1) for word in sys.argv[1:]))
