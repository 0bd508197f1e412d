"""What W&B is told of a trial beside its training: the values it tries, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from sentattn.errors import Pruned
from sentattn.loggers.wandb import WandbGuard


class Searched(Callback):
    """Shows a trial's values under their own names, and tags a trial that was pruned or failed.

    Args:
        values: What the trial tries, by key.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if isinstance(trainer.logger, WandbGuard):
            trainer.logger.log_config(self._values)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if isinstance(trainer.logger, WandbGuard):
            trainer.logger.add_tag("pruned" if isinstance(exception, Pruned) else "failed")
