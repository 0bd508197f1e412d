"""What a training step costs that no clock has to measure: operator calls, memory, modules, imports. Upper bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sentattn.build import build_model, instantiate
from sentattn.config.compose import compose
from sentattn.models.embedding import TrainingTexts

CALLS_AND_MB = {
    "structured": (250, 8.8),
    "additive": (250, 8.7),
    "feedforward": (230, 8.3),
    "lstm_mean": (200, 7.8),
    "lstm_max": (200, 9.0),
    "lstm": (140, 3.8),
    "transformer": (300, 5.0),
    "relation": (360, 19.5),
    "relation_plain": (300, 13.8),
    "cnn": (190, 6.9),
    "mean": (110, 0.7),
    "wide": (200, 0.27),
}
"""By preset: most operator calls of a step with 4 texts of 64 tokens, and most megabytes that it allocates in all."""
ROWS, WORDS = 4, 100


class Count(TorchDispatchMode):
    """Counts operator calls and the bytes of the memory that they return, and keeps the largest piece of it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.bytes = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {tensor.untyped_storage().data_ptr() for tensor in tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        new = [t.untyped_storage().nbytes() for t in tensors(result) if t.untyped_storage().data_ptr() not in given]
        self.calls, self.bytes, self.largest = self.calls + 1, self.bytes + sum(new), max([self.largest, *new])
        return result


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def step(variant: str, *, length: int) -> Count:
    """Counts a step after one of warm-up, in which the optimizer makes its state."""
    settings = compose([f"model={variant}", "logger=none", f"data.max_length={length}"])
    model = build_model(settings["model"], num_embeddings=WORDS, classes=2)
    loss = instantiate(settings["loss"], class_counts={"no": 1, "yes": 1})
    tokens_BL = torch.randint(2, WORDS, (ROWS, length))
    labels_B, ends = torch.arange(ROWS) % 2, np.arange(ROWS + 1) * length
    model.prepare_training(lambda: TrainingTexts(tokens_BL.numpy().ravel(), ends, labels_B.numpy()))
    optimizer = instantiate(settings["optimizer"], params=model.parameters())
    for _ in range(2):
        with Count() as count:
            mask_BL = torch.ones_like(tokens_BL, dtype=torch.bool)
            classified = model(tokens_BL, mask_BL, labels_B=labels_B)
            optimizer.zero_grad()
            entropy = model.cross_entropy(classified, labels_B, loss.cross_entropy)
            loss.with_penalty(entropy, classified.attended.weights_BRL).loss.backward()
            optimizer.step()
    return count


@pytest.mark.parametrize("variant", CALLS_AND_MB)
def test_operator_calls_and_memory_of_a_step(variant: str) -> None:
    count, (calls, megabytes) = step(variant, length=64), CALLS_AND_MB[variant]
    assert count.calls <= calls
    assert count.bytes <= 1e6 * megabytes


def test_every_preset_has_a_bound() -> None:
    presets = {path.stem for path in (Path(__file__).parents[2] / "conf" / "model").glob("[!_]*.yaml")}
    assert presets - {"pretrained", "states"} == set(CALLS_AND_MB)  # whose states are made outside a step


@pytest.mark.parametrize("variant", ["relation", "relation_plain"])
def test_memory_of_relation_is_not_quadratic_in_the_length(variant: str) -> None:
    short, long = (step(variant, length=length).largest for length in (64, 256))
    assert long < 6 * short  # of all pairs it would be 16 times


def test_imports_of_a_training() -> None:
    program = """
import sys, sentattn.training.fit
unneeded = {"plotly", "sklearn", "pyarrow", "pandas", "optuna", "wandb", "mlflow", "onnx", "spacy"} & set(sys.modules)
assert not unneeded, unneeded
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
