"""What looks at a model while it trains: the length of the gradients, and what the model attends to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_lightning import Trainer
from tiny import tiny
from torch import nn

from sentattn.insight.chosen_rows import LEGIBLE, legible_rows, spread_rows
from sentattn.run import Run
from sentattn.training import watching
from sentattn.training.fitting import fit
from sentattn.training.lit_module import LitClassifier
from sentattn.training.means import EpochMeans
from sentattn.training.watching import GradientNorm


@pytest.mark.parametrize("model", [["model=structured"], ["model=relation", "model.attention.hidden=4"]])
def test_a_training_is_the_same_with_and_without_wandb(tmp_path: Path, model: list[str]) -> None:
    shared = [setting for setting in tiny() if not setting.startswith(("model.", "logger"))]

    def run(name: str, *settings: str) -> Run:
        return fit([*shared, *model, "model.embedding.size=8", f"output_dir={tmp_path / name}", *settings])

    with_it, without = run("with", "logger=wandb", "logger.texts=[A fine film.]"), run("without", "logger=none")
    for name in ("model/model.safetensors", "predictions.parquet"):
        assert (with_it.path / name).read_bytes() == (without.path / name).read_bytes()
    assert _steady(with_it) == _steady(without)


def _steady(run: Run) -> list[dict[str, Any]]:
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    fleeting = ("train_seconds", "train/tokens_per_second")
    return [{name: value for name, value in json.loads(line).items() if name not in fleeting} for line in lines]


def test_gradient_norm_is_that_before_clipping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    clip = nn.utils.clip_grad_norm_

    def spying(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        parameters = list(parameters)
        squares = [np.square(p.grad.double().numpy()).sum() for p in parameters if p.grad is not None]
        lengths.append(float(np.sqrt(sum(squares))))
        return clip(parameters, *args, **kwargs)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", spying)
    run = fit(tiny(f"output_dir={tmp_path}", "trainer.gradient_clip_val=0.001", "test=false"))
    assert len(lengths) == 20
    recorded = [
        json.loads(line)["train/gradient_norm"] for line in (run.path / "metrics.jsonl").read_text().splitlines()
    ]
    assert recorded == pytest.approx([np.mean(lengths[:10]), np.mean(lengths[10:])], rel=1e-5)


class _Lit(LitClassifier):
    def __init__(self, gradient: list[float]) -> None:
        nn.Module.__init__(self)
        self.weight = nn.Parameter(torch.zeros(len(gradient)))
        self.weight.grad = torch.tensor(gradient)
        self.means = EpochMeans()


class _Scaler:
    def get_scale(self) -> float:
        return 4.0


def norms(gradients: list[list[float]], *, scaled: bool, fused: bool = False) -> dict[str, float]:
    """The mean over steps with these gradients."""
    trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", enable_progress_bar=False)
    if scaled:
        trainer.precision_plugin.scaler = _Scaler()  # type: ignore[attr-defined]
    lit = _Lit([0.0, 0.0])
    optimizer = torch.optim.SGD(lit.parameters())
    optimizer._step_supports_amp_scaling = fused  # type: ignore[attr-defined]
    for gradient in gradients:
        lit.weight.grad = torch.tensor(gradient)
        GradientNorm().on_before_optimizer_step(trainer, lit, optimizer)
    return lit.means.compute()


def test_steps_that_float16_leaves_out_do_not_count() -> None:
    gradients = [[3.0, 4.0], [float("inf"), 1.0], [6.0, 8.0]]
    assert norms(gradients, scaled=True) == {"train/gradient_norm": 7.5}
    assert norms(gradients, scaled=False) == {"train/gradient_norm": float("inf")}


def test_gradients_that_a_fused_optimizer_scales_back_are_scaled_back_here_too() -> None:
    assert norms([[12.0, 16.0]], scaled=True, fused=True) == {"train/gradient_norm": 5.0}


def test_what_is_drawn_is_what_was_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    picture = watching.picture
    monkeypatch.setattr(watching, "picture", lambda predictions: seen.extend(predictions) or picture(predictions))
    one = ["logger=wandb", "logger.examples=1", "trainer.max_epochs=1", "ema_decay=0.9"]
    run = fit(tiny(f"output_dir={tmp_path}", *one))
    [drawn] = seen
    [own] = run.predict([drawn.text])  # the one epoch is the best one, and the averaged weights were kept
    assert drawn.probabilities == pytest.approx(own.probabilities, abs=1e-6)
    assert drawn.attention[0] == pytest.approx(own.attention[0], abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 90)), min_size=1, max_size=30), st.integers(0, 12))
def test_legible_rows_are_of_all_classes_in_turn(rows: list[tuple[int, int]], count: int) -> None:
    labels, lengths = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    chosen = legible_rows(labels, lengths, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(rows))
    numbers = [sum(labels[row] == label for row in chosen) for label in set(labels.tolist())]
    if len(rows) > count and all((labels == label).sum() * 3 >= len(rows) for label in set(labels.tolist())):
        assert max(numbers) - min(numbers) <= 1
    for row in chosen:
        nearer = abs(lengths - LEGIBLE) < abs(lengths[row] - LEGIBLE)
        assert set(np.flatnonzero(nearer & (labels == labels[row])).tolist()) <= set(chosen)


def test_legible_rows_by_hand() -> None:
    labels, lengths = np.array([0, 0, 0, 1, 1]), np.array([5, 31, 29, 90, 40])
    assert legible_rows(labels, lengths, 4) == [1, 4, 2, 3]


@given(st.integers(0, 200), st.integers(0, 50))
def test_rows_are_spread_evenly(rows: int, count: int) -> None:
    chosen = spread_rows(rows, count)
    assert len(chosen) == min(rows, count)
    gaps = np.diff([*chosen, rows]) if chosen else np.array([0])
    assert gaps.max() - gaps.min() <= 1
    assert chosen[:1] == [0][: len(chosen)]
