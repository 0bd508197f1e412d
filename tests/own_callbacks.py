"""Callbacks as a user writes them."""

from __future__ import annotations

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

FAILS_IN: tuple[str, int] | None = None
"""The hook and the epoch, from 1, in which `Counting` fails."""


class Counting(Callback):
    """Counts epochs."""

    def __init__(self, start: int = 0) -> None:
        self.count = start

    def _fail(self, hook: str, trainer: Trainer) -> None:
        if (hook, trainer.current_epoch + 1) == FAILS_IN:
            raise RuntimeError("counting failed\nfor a reason")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.count += 1
        pl_module.log("own/count", float(self.count))
        self._fail("on_train_epoch_end", trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._fail("on_validation_start", trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._fail("on_train_end", trainer)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.count = state_dict["count"]


class Refusing(Callback):
    """Cannot be built."""

    def __init__(self) -> None:
        raise ValueError("no")


class Unreadable(Callback):
    """Has a state of classes."""

    def state_dict(self) -> dict[str, Any]:
        return {"class": type(self)}


class Stopping(Callback):
    """Ends the training inside its second epoch."""

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        trainer.should_stop = trainer.should_stop or trainer.current_epoch == 1


class Other:
    """No callback."""
