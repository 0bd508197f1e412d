"""Checkpoints: how they are written and read, and when a training writes them."""

from __future__ import annotations

import io
import os
import random
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
from lightning_fabric.plugins import TorchCheckpointIO
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint

from sentattn.data.batching import Batch, BatchLoader
from sentattn.distributed import ranks
from sentattn.errors import Fault, Interruption, RunError, TrainingError
from sentattn.run import LAST, replacing
from sentattn.training.callbacks import EpochRecorder
from sentattn.training.lit_module import State
from sentattn.training.signals import Signals

BEST = "best.ckpt"
STEPS_BETWEEN_LOOKS = 10
"""Steps after which several ranks ask one another for signals and late checkpoints, which blocks each of them."""


class FileInPlace(TorchCheckpointIO):
    """Writes a checkpoint completely or not at all, next to the one that it replaces.

    Lightning goes through the folder for temporary files, which may be too small, and a killed process leaves one.
    """

    def save_checkpoint(self, checkpoint: State, path: str | Path, storage_options: object | None = None) -> None:
        buffer, states = io.BytesIO(), io.BytesIO()
        torch.save(checkpoint.get("callbacks"), states)
        states.seek(0)
        try:
            torch.load(states, weights_only=True)  # as `read_checkpoint` reads it
        except UnpicklingError as error:
            message = "The state_dict of a callback may hold numbers, texts, tensors, lists and dictionaries alone."
            raise TrainingError(Fault("callbacks", "failed", message)) from error
        torch.save(checkpoint, buffer)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        for leftover in Path(path).parent.glob(f".{Path(path).name}.*"):
            leftover.unlink()  # of a process that was killed while it wrote
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(buffer.getbuffer())


def read_checkpoint(path: Path) -> State:
    """Reads a checkpoint without executing anything in it.

    Raises:
        RunError: If it is missing or damaged.
    """
    try:
        checkpoint: State = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has no common class for what it finds in a damaged file
        reason = " ".join(str(error).split())[:200]
        raise RunError(Fault(str(path), "damaged", f"{path} cannot be read: {reason}")) from error
    return checkpoint


def read_identity(path: Path) -> Mapping[str, str | None]:
    """Returns the hashes of setting, data, pretrained encoder and initial weights that a checkpoint was written with.

    Raises:
        RunError: If it is missing or damaged, or was written by another version of sentattn.
    """
    try:
        identity: Mapping[str, str] = read_checkpoint(path)["callbacks"][Checkpoints.__qualname__]["identity"]
        before = {name: identity[name] for name in ("setting", "data_fingerprint", "encoder")}
        return before | {"init_from": identity.get("init_from")}  # which came later
    except (KeyError, TypeError) as error:
        message = f"{path} does not say which setting it belongs to: another version of sentattn wrote it."
        raise RunError(Fault(str(path), "damaged", message)) from error


def random_state() -> State:
    """Returns the states of Python's, NumPy's and torch's generators, as plain values."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),  # type: ignore[union-attr]  # an array with legacy=True
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def restore_random_state(state: State) -> None:
    """Sets all random generators to what `random_state` returned."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


class Checkpoints(Checkpoint):
    """Saves the best epoch, and the last state from which the training can resume and reach the same end.

    Such a state is the end of a step after which no gradient is accumulated. `last.ckpt` is written `minutes` after
    the one before, before and after each validation, and after a signal. It holds weights, their average, optimizer,
    schedule, the position in the epoch, the epoch's means so far, the rows of metrics and all random states.

    With `minutes` None, none is written at a time interval. `identity` holds hashes of setting, data and pretrained
    encoder, which must be the same when the training resumes.
    """

    def __init__(
        self,
        folder: Path,
        recorder: EpochRecorder,
        signals: Signals,
        *,
        minutes: float | None,
        identity: dict[str, str | None],
    ) -> None:
        self.folder, self.recorder, self.signals, self.minutes = folder, recorder, signals, minutes
        self.identity = identity
        self._loaded: State | None = None
        self._batches, self._is_stopped = 0, False
        self._validation_batches = 0
        self._written = time.monotonic()
        self.last = folder / LAST

    def best_weights(self) -> State:
        """Returns the weights of the best epoch."""
        return dict(read_checkpoint(self.folder / BEST)["state_dict"])

    def state_dict(self) -> State:
        own = {"batches": self._batches, "is_stopped": self._is_stopped, "identity": self.identity}
        return {"random": ranks.gather(random_state()), **own}

    def load_state_dict(self, state_dict: State) -> None:
        self._loaded = state_dict

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._loaded is not None and self._loaded["batches"] == 0:
            self._keep_best()  # the process may have ended between the two files

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.folder.mkdir(exist_ok=True)
        self._written = time.monotonic()
        self.signals.install()  # Lightning would stop at a point that cannot be resumed from
        self.signals.deferred = True
        ranks.offset_seed_by_rank()
        if self._loaded is not None:
            # Lightning counts the loader's batches before it knows at which of them the epoch resumes.
            assert isinstance(trainer.train_dataloader, BatchLoader)
            trainer.train_dataloader.load_state_dict({"batches": self._loaded["batches"]})
            trainer.should_stop = self._loaded.get("is_stopped", False)  # by a callback after its last epoch
            states = self._loaded["random"]
            # With another number of ranks than before, each continues with new random numbers.
            if len(states) == ranks.world():
                restore_random_state(states[ranks.rank()])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        step, batches = trainer.accumulate_grad_batches, int(trainer.num_training_batches)
        done = batch_idx + 1
        # A gradient is accumulated, or only the validation is left: of the epoch, or after a callback stopped it.
        if done % step or done >= batches or trainer.fit_loop.done:
            return
        before_validation = done + step >= batches
        due = 0
        if not ranks.several() or self.minutes == 0 or done // step % STEPS_BETWEEN_LOOKS == 0:
            is_late = self.minutes is not None and time.monotonic() - self._written >= 60 * self.minutes
            due = ranks.largest(is_late or bool(self.signals.received))
        if before_validation or due:
            self._write(trainer, batches=done)
        if due:
            self._stop_if_signalled()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validation_batches = -ranks.largest(-int(sum(trainer.num_val_batches)))

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx < self._validation_batches:  # some ranks have no batches after these
            self._stop_if_signalled()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if reason := self._write(trainer, batches=0):
            message = f"The epoch cannot be saved: {self.last} cannot be written ({reason})."
            raise RunError(Fault(str(self.last), "unwritable", message))
        self._keep_best()
        self._stop_if_signalled()

    def on_train_end(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException | None = None
    ) -> None:
        self.signals.deferred = False

    on_exception = on_train_end

    def _keep_best(self) -> None:
        """Makes the last checkpoint, of the end of an epoch, the best one too if this epoch is the best."""
        if self.recorder.rows[-1] is self.recorder.best and ranks.is_rank_zero():
            _link_or_copy(self.last, self.folder / BEST)

    def _stop_if_signalled(self) -> None:
        """Ends the training on all ranks if any of them received a signal."""
        if received := ranks.largest(self.signals.received or 0):
            raise Interruption(received)

    def _write(self, trainer: Trainer, *, batches: int) -> str | None:
        """Writes the newest checkpoint, `batches` into its epoch; returns why it cannot be written, or None."""
        self._batches, self._is_stopped = batches, trainer.should_stop
        self._written = time.monotonic()
        try:
            trainer.save_checkpoint(self.last, weights_only=False)
        except OSError as error:
            trainer.strategy.barrier()  # the other ranks wait there, at the end of what failed here
            reason = error.strerror or str(error)
            print(f"{self.last} cannot be written ({reason}); the previous one is kept.", flush=True)
            return ranks.from_rank_zero(reason)
        return ranks.from_rank_zero(None)


def _link_or_copy(source: Path, target: Path) -> None:
    """Replaces a file by a hard link to another, or by a copy where the disk has no hard links."""
    with replacing(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
