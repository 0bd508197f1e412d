"""Checkpoints from which a training goes on as if it had never stopped."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint
from torch import Tensor

from sentattn.data.batching import Batch, BatchLoader
from sentattn.distributed import ranks
from sentattn.errors import Interruption, RunError
from sentattn.training.callbacks import EpochRecorder
from sentattn.training.resume.checkpoint_file import read
from sentattn.training.resume.interruption import Signals
from sentattn.training.resume.random_state import random_state, restore_random_state

LAST, BEST = "last.ckpt", "best.ckpt"


class Checkpoints(Checkpoint):
    """Keeps the best epoch, and the last moment from which the training can go on to the same end.

    That moment is the end of a step after which no gradient is held back. `last.ckpt` is written `minutes` after it was
    written before, before and after each validation, and when a signal came. It holds weights, their average,
    optimizer, schedule, the place in the epoch, means and rows of figures, and the states of all random numbers.

    Args:
        folder: Where checkpoints are kept.
        recorder: Knows the best epoch.
        signals: Is told when a step may be ended by the user.
        minutes: Between two checkpoints inside an epoch; None writes none that time alone asks for.
        about: What has to be the same when the training goes on.
    """

    def __init__(
        self, folder: Path, recorder: EpochRecorder, signals: Signals, *, minutes: float | None, about: dict[str, str]
    ) -> None:
        self.folder = folder
        self.recorder = recorder
        self.signals = signals
        self.minutes = minutes
        self.about = about
        self._loaded: dict[str, Any] | None = None
        self._batches = 0
        self._shared = 0
        self._written = time.monotonic()

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.folder / LAST

    def state_dict(self) -> dict[str, Any]:
        return {"random": ranks.gather(random_state()), "batches": self._batches, "about": self.about}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.folder.mkdir(exist_ok=True)
        self._written = time.monotonic()
        self.signals.take_over()  # Lightning would end the training at a place that cannot be gone back to
        self.signals.deferred = True
        ranks.offset_seed_by_rank()
        if self._loaded is not None:
            # Lightning asks for the loader, to count its batches, before it knows where in the epoch they go on.
            assert isinstance(trainer.train_dataloader, BatchLoader)
            trainer.train_dataloader.load_state_dict({"batches": self._loaded["batches"]})
            states = self._loaded["random"]
            # With another number of ranks than before, each goes on with random numbers of its own.
            if len(states) == ranks.world():
                restore_random_state(states[ranks.rank()])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        step, batches = trainer.accumulate_grad_batches, int(trainer.num_training_batches)
        done = batch_idx + 1
        if done % step or done >= batches:  # a gradient is held back, or the epoch has only its validation left
            return
        before_validation = done + step >= batches
        [due] = ranks.largest(self._is_due() or bool(self.signals.received))
        if before_validation or due:
            self._write(trainer, batches=done)
        if due:
            self._end_together()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        [fewest] = ranks.largest(-int(sum(trainer.num_val_batches)))
        self._shared = -fewest

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx < self._shared:  # of the batches behind it some ranks have none
            self._end_together()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._write(trainer, batches=0):
            raise RunError(f"The epoch cannot be kept: {self.last} cannot be written.")
        if self.recorder.rows[-1] is self.recorder.best and ranks.is_rank_zero():
            _replace_by_copy(self.last, self.folder / BEST)
        self._end_together()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.deferred = False

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.signals.deferred = False

    def best_weights(self) -> dict[str, Tensor]:
        """Returns the weights of the best epoch."""
        weights: dict[str, Tensor] = read(self.folder / BEST)["state_dict"]
        return weights

    def _end_together(self) -> None:
        """Ends the training on all ranks if a signal came to any of them."""
        [received] = ranks.largest(self.signals.received or 0)
        if received:
            raise Interruption(received)

    def _is_due(self) -> bool:
        return self.minutes is not None and time.monotonic() - self._written >= 60 * self.minutes

    def _write(self, trainer: Trainer, *, batches: int) -> bool:
        """Writes the newest checkpoint, of an epoch with so many batches behind it; returns whether it could."""
        self._batches = batches
        beside = self.last.with_suffix(".part")
        self._written = time.monotonic()
        try:
            trainer.save_checkpoint(beside, weights_only=False)
        except OSError as error:
            trainer.strategy.barrier()  # where the other ranks wait, behind what failed here
            return ranks.from_rank_zero(self._cannot(error))
        return ranks.from_rank_zero(not ranks.is_rank_zero() or self._replace(beside))

    def _replace(self, beside: Path) -> bool:
        try:
            os.replace(beside, self.last)
        except OSError as error:
            return self._cannot(error)
        return True

    def _cannot(self, error: OSError) -> bool:
        self.last.with_suffix(".part").unlink(missing_ok=True)
        print(f"{self.last} cannot be written ({error.strerror or error}); the one before it is kept.", flush=True)
        return False


def _replace_by_copy(source: Path, target: Path) -> None:
    """Puts a second name of a file, or a copy where a disk allows no second name, in the place of another."""
    beside = target.with_suffix(".part")
    beside.unlink(missing_ok=True)
    try:
        os.link(source, beside)
    except OSError:
        shutil.copyfile(source, beside)
    os.replace(beside, target)
