"""The callback by which the owner of a study looks on at a trial, and may end it."""

from __future__ import annotations

import time
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from sentattn.data.batching import Batch
from sentattn.distributed import ranks
from sentattn.errors import Pruned
from sentattn.sweep.channel import Channel
from sentattn.training.callbacks import EpochRecorder


class Onlooker(Callback):
    """Tells each epoch's figures, and what the trial would be worth if it ended there: its best epoch's.

    That is the figure by which trials are compared in the end, so pruners compare like with like, and no trial is ended
    for one bad epoch after a good one.

    Args:
        channel: To the owner; None in every process of a training but the first.
        metric: The figure by which trials are compared while they run; None if they are not.
    """

    def __init__(self, channel: Channel | None, metric: str | None) -> None:
        self._channel = channel
        self._metric = metric

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        if self._channel and trainer.global_step == 0 and batch_idx == 0:
            self._channel.begin(trainer.max_epochs, time.monotonic())

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        prune = bool(self._channel and self._report(self._channel, trainer))
        if ranks.from_rank_zero(prune):
            raise Pruned

    def _report(self, channel: Channel, trainer: Trainer) -> bool:
        recorder = next(one for one in _callbacks(trainer) if isinstance(one, EpochRecorder))
        row = recorder.rows[-1]
        value = recorder.best.get(self._metric) if self._metric else None
        return channel.report(int(row["epoch"]), value, row)


def _callbacks(trainer: Trainer) -> list[Any]:
    return trainer.callbacks  # type: ignore[attr-defined, no-any-return]  # Lightning sets it elsewhere
