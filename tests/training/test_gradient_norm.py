"""The recorded norm of the gradients: before they are clipped, unscaled, and without the steps that are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from tiny import tiny
from torch import nn

from sentattn import fit
from sentattn.training import lit_module
from sentattn.training.lit_module import EpochMeans, LitClassifier


def test_gradient_norm_is_that_before_clipping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    clip = nn.utils.clip_grads_with_norm_

    def spying(parameters: list[nn.Parameter], *args: Any) -> None:
        squares = [np.square(p.grad.double().numpy()).sum() for p in parameters if p.grad is not None]
        lengths.append(float(np.sqrt(sum(squares))))
        clip(parameters, *args)

    monkeypatch.setattr(lit_module, "clip_grads_with_norm_", spying)
    run = fit(tiny(f"output_dir={tmp_path}", "trainer.gradient_clip_val=0.001", "test=false"))
    assert len(lengths) == 20
    recorded = [
        json.loads(line)["train/gradient_norm"] for line in (run.path / "metrics.jsonl").read_text().splitlines()
    ]
    assert recorded == pytest.approx([np.mean(lengths[:10]), np.mean(lengths[10:])], rel=1e-5)


class _Lit(LitClassifier):
    def __init__(self, gradient: list[float]) -> None:
        LightningModule.__init__(self)
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
    lit.trainer = trainer
    optimizer = torch.optim.SGD(lit.parameters(), fused=fused)
    for gradient in gradients:
        lit.weight.grad = torch.tensor(gradient)
        lit.configure_gradient_clipping(optimizer)
    return lit.means.compute()


def test_steps_that_float16_leaves_out_do_not_count() -> None:
    gradients = [[3.0, 4.0], [float("inf"), 1.0], [6.0, 8.0]]
    assert norms(gradients, scaled=True) == {"train/gradient_norm": 7.5}
    assert norms(gradients, scaled=False) == {"train/gradient_norm": float("inf")}


def test_gradients_that_a_fused_optimizer_scales_back_are_scaled_back_here_too() -> None:
    assert norms([[12.0, 16.0]], scaled=True, fused=True) == {"train/gradient_norm": 5.0}


@pytest.mark.parametrize(("algorithm", "clipped"), [("norm", [0.6, 0.8]), ("value", [1.0, 1.0])])
def test_clipping_by_hand(algorithm: str, clipped: list[float]) -> None:
    lit = _Lit([3.0, 4.0])
    lit.trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", enable_progress_bar=False)
    lit.configure_gradient_clipping(torch.optim.SGD(lit.parameters()), 1.0, algorithm)
    assert lit.weight.grad is not None
    assert lit.weight.grad.tolist() == pytest.approx(clipped)
    assert lit.means.compute() == {"train/gradient_norm": 5.0}
