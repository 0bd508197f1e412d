"""A recorder without a training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pytorch_lightning import Trainer

from sentattn.config.schema import Objective
from sentattn.console import Progress
from sentattn.run import Run
from sentattn.training.recorder import Recorder
from sentattn.training.signals import Signals


def make_recorder(folder: Path, *, metric: str = "val/x", mode: str = "max", minutes: float | None = None) -> Recorder:
    """A recorder of a run in a folder."""
    objective = Objective(cast("Any", metric), cast("Any", mode))
    return Recorder(Run(folder), minutes, objective, identity={}, signals=Signals(), progress=Progress(shown=False))


def make_trainer(batches: int) -> Trainer:
    """What a recorder asks of Lightning's trainer inside an epoch of so many batches."""
    counts = {"accumulate_grad_batches": 1, "num_training_batches": batches, "current_epoch": 0, "max_epochs": 1}
    return cast("Trainer", SimpleNamespace(**counts, fit_loop=SimpleNamespace(done=False)))
