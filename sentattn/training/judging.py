"""Measuring a model on a split: what training does with its best epoch and `evaluate` with a saved run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentattn import build
from sentattn.progress import Progress
from sentattn.training.callbacks import JudgingProgress

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData
    from sentattn.training.lit_module import LitClassifier


class Judged(NamedTuple):
    """Figures such as `val/accuracy`, and the probabilities behind them, (rows, C), in the split's order."""

    metrics: dict[str, float]
    probabilities: NDArray[np.float32]


def judge(settings: Mapping[str, Any], lit: LitClassifier, data: TextData, split: str, progress: Progress) -> Judged:
    """Measures a model on `val` or `test`, in one pass and with the weights it has.

    A trainer of its own leaves averaged weights and checkpoints of a training alone.
    """
    trainer = build.build_trainer(settings, callbacks=[JudgingProgress(progress)])
    run = trainer.validate if split == "val" else trainer.test
    [metrics] = run(lit, dataloaders=data.batches(split), verbose=False)
    progress.close()
    return Judged(dict(metrics), lit.scores().softmax(dim=-1).numpy())
