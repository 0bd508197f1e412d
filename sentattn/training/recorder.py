"""The record of a training in its run directory: a line for each epoch, the best one, and files of checkpoints."""

from __future__ import annotations

import io
import json
import math
import os
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
from lightning_fabric.plugins import TorchCheckpointIO
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint

from sentattn.config.schema import Objective
from sentattn.console import Progress
from sentattn.data.batching import Batch, BatchLoader
from sentattn.distributed import ranks
from sentattn.errors import Fault, Interruption, RunError, TrainingError
from sentattn.metrics import format_value
from sentattn.run import METRICS_FILE, Run, replacing, write_atomically, writing
from sentattn.training.lit_module import LitClassifier, State
from sentattn.training.signals import Signals

Row = dict[str, float]
Identity = Mapping[str, str | None]
BEST = "best.ckpt"
SPEED = "train/tokens_per_second"
SIGNAL_POLL_STEPS = 10
"""Several ranks ask one another for signals and late checkpoints every ten steps, since each of them waits for it."""


class Recorder(Checkpoint):
    """Records each epoch, and saves the best one and the last state from which the training reaches the same end.

    Lightning calls checkpoint callbacks last, so a row has what the module and all other callbacks have logged at the
    end of an epoch. A callback finds the epoch, recorded and saved, when the next one starts or the training ends.

    Of epochs that are equal by the objective, as on few validation rows, the one with the lower `val/log_loss` is
    better. A state to resume from is the end of a step after which no gradient is accumulated: `last.ckpt` is written
    `minutes` after the one before (None for never), before and after each validation, and after a signal. It holds
    weights, their average, optimizer, schedule, the position in the epoch, its means so far, the rows and all random
    states.

    Args:
        run: The run directory.
        minutes: The setting `checkpoint_minutes`.
        objective: The metric by which epochs are compared, and which way it is better.
        identity: Hashes that must be the same when the training is resumed.
        signals: Where signals are stored until a step has ended.
        progress: Shows the progress inside an epoch.

    Attributes:
        rows: The metrics of each epoch; epochs count from 1.
        best: The row of the best epoch.
        tokens: Real tokens trained on so far, without padding.
        train_seconds: Seconds of training so far, without validation.
        seconds: Seconds of everything so far, those before an interruption included.
    """

    def __init__(
        self,
        run: Run,
        minutes: float | None,
        objective: Objective,
        *,
        identity: Identity,
        signals: Signals,
        progress: Progress,
    ) -> None:
        self.run, self.minutes, self.metric, self.identity = run, minutes, objective.metric, dict(identity)
        self.signals, self.progress = signals, progress
        self.rows: list[Row] = []
        self.best: Row = {}
        self.train_seconds = 0.0
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._tokens = self._own_tokens = 0
        self._since = self._started = time.perf_counter()
        self._written = time.monotonic()
        self._loaded: State | None = None
        self._batches, self._is_stopped = 0, False
        self._validation_batches = 0

    @staticmethod
    def of(trainer: Trainer) -> Recorder:
        """Returns the recorder of a training."""
        return next(callback for callback in trainer.checkpoint_callbacks if isinstance(callback, Recorder))

    @property
    def tokens(self) -> int:
        return self._tokens + self._own_tokens

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def best_of(self, rows: Sequence[Row]) -> Row:
        """Returns the best of some epochs, the first of equals; an empty row of none."""
        return max(rows, key=self._merit, default={})

    def _merit(self, row: Row) -> tuple[float, float]:
        merits = (self._sign * row[self.metric], -row["val/log_loss"])
        first, second = (-math.inf if math.isnan(merit) else merit for merit in merits)
        return first, second

    def best_weights(self) -> State:
        """Returns the weights of the best epoch."""
        return dict(read_checkpoint(self.run.last_checkpoint.with_name(BEST))["state_dict"])

    def state_dict(self) -> State:
        self._add_train_seconds()
        self._add_tokens()
        return {
            "rows": self.rows,
            "best_epoch": self.best.get("epoch"),
            "tokens": self.tokens,
            "train_seconds": self.train_seconds,
            "seconds": self.seconds,
            "batches": self._batches,
            "is_stopped": self._is_stopped,
            "random": ranks.all_gather(random_state()),
        }

    def load_state_dict(self, state_dict: State) -> None:
        self._loaded, self.rows = state_dict, state_dict["rows"]
        self.best = next((row for row in self.rows if row["epoch"] == state_dict["best_epoch"]), {})
        self._tokens, self.train_seconds = state_dict["tokens"], state_dict["train_seconds"]
        self._started -= state_dict["seconds"]
        if ranks.is_rank_zero():
            # Lines of epochs after the checkpoint are dropped: these epochs are trained again.
            write_atomically(self.run.path / METRICS_FILE, "".join(json.dumps(row) + "\n" for row in self.rows))
            if not self._loaded["batches"]:
                self._keep_best()  # the process may have ended between the two files

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        checkpoint["identity"] = self.identity

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since, self._written = time.perf_counter(), time.monotonic()
        if pl_module.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(pl_module.device)
        self.signals.install()  # Lightning would stop at a point that cannot be resumed from
        self.signals.deferred = True
        ranks.offset_seed_by_rank()
        if self._loaded is not None:
            # Lightning counts the loader's batches before it knows at which of them the epoch resumes.
            assert isinstance(trainer.train_dataloader, BatchLoader)
            trainer.train_dataloader.load_state_dict({"batches": self._loaded["batches"]})
            trainer.should_stop = self._loaded["is_stopped"]  # by a callback after its last epoch
            states = self._loaded["random"]
            # With another number of ranks than before, each continues with new random numbers.
            if len(states) == ranks.world():
                restore_random_state(states[ranks.rank()])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        def note() -> str:
            assert isinstance(pl_module, LitClassifier)
            return f"loss {format_value(pl_module.train_means()['train/loss'])}"

        self._own_tokens += int(batch.lengths_B.sum())
        batches, done = int(trainer.num_training_batches), batch_idx + 1
        self.progress(f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}", done, batches, note)
        step = trainer.accumulate_grad_batches
        # A gradient is accumulated, or only the validation is left: of the epoch, or after a callback stopped it.
        if done % step or done >= batches or trainer.fit_loop.done:
            return
        due = 0
        if not ranks.several() or self.minutes == 0 or done // step % SIGNAL_POLL_STEPS == 0:
            is_late = self.minutes is not None and time.monotonic() - self._written >= 60 * self.minutes
            due = ranks.all_reduce_max(is_late or bool(self.signals.received))
        if due or done + step >= batches:  # the validation is next
            self._write(trainer, batches=done)
        if due:
            self._stop_if_signalled()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_train_seconds()
        self._validation_batches = -ranks.all_reduce_max(-int(sum(trainer.num_val_batches)))

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx < self._validation_batches:  # some ranks have no batches after these
            self._stop_if_signalled()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Batch, batch_idx: int, _: int = 0
    ) -> None:
        stage = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}, validation"
        self.progress(stage, batch_idx + 1, int(sum(trainer.num_val_batches)))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_train_seconds()
        self._add_tokens()
        before = self.rows[-1] if self.rows else {"tokens": 0, "train_seconds": 0.0}
        speed = (self.tokens - before["tokens"]) / (self.train_seconds - before["train_seconds"])
        pl_module.log(SPEED, speed)
        # `LearningRates` leaves values there that a resumed training may not have.
        logged = {name: value for name, value in trainer.callback_metrics.items() if not name.startswith("lr-")}
        metrics = {name: float(value) for name, value in logged.items()}
        epoch = trainer.current_epoch + 1
        row = {"epoch": epoch, **metrics, "tokens": self.tokens, "train_seconds": self.train_seconds}
        self.rows.append(row)
        self.best = self.best_of(self.rows)
        self.progress.close()
        if ranks.is_rank_zero():
            table = self.run.path / METRICS_FILE
            with writing(table), table.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        names = dict.fromkeys(["train/loss", "val/loss", "val/accuracy", self.metric])
        words = [f"epoch {epoch}/{trainer.max_epochs}", *(f"{name} {format_value(row[name])}" for name in names)]
        words += [f"{row['train_seconds']:.0f} s", *(["best"] if row is self.best else [])]
        print(*words, sep="  ", flush=True)
        if reason := self._write(trainer, batches=0):
            message = f"The epoch cannot be saved: {self.run.last_checkpoint} cannot be written ({reason})."
            raise RunError(Fault(str(self.run.last_checkpoint), "unwritable", message))
        if ranks.is_rank_zero():
            self._keep_best()
        self._stop_if_signalled()

    def on_train_end(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException | None = None
    ) -> None:
        self.signals.deferred = False

    on_exception = on_train_end

    def _keep_best(self) -> None:
        """Makes the last checkpoint, of the end of an epoch, the best one too if this epoch is the best."""
        if self.rows[-1] is not self.best:
            return
        last = self.run.last_checkpoint
        best = last.with_name(BEST)
        with writing(best), replacing(best) as temporary:
            try:
                os.link(last, temporary)
            except OSError:  # the disk has no hard links
                shutil.copyfile(last, temporary)

    def _stop_if_signalled(self) -> None:
        """Ends the training on all ranks if any of them received a signal."""
        if received := ranks.all_reduce_max(self.signals.received or 0):
            raise Interruption(received)

    def _write(self, trainer: Trainer, *, batches: int) -> str | None:
        """Writes the newest checkpoint, `batches` into its epoch; returns why it cannot be written, or None."""
        self._batches, self._is_stopped = batches, trainer.should_stop
        self._written = time.monotonic()
        try:
            trainer.save_checkpoint(self.run.last_checkpoint, weights_only=False)
        except OSError as error:
            trainer.strategy.barrier()  # the other ranks wait there, at the end of what failed here
            reason = error.strerror or str(error)
            last = self.run.last_checkpoint
            print(f"{last} cannot be written ({reason}); the previous one is kept.", flush=True)
            return ranks.broadcast(reason)
        return ranks.broadcast(None)

    def _add_tokens(self) -> None:
        """Adds what each rank has trained on since the last call."""
        self._tokens += sum(ranks.all_gather(self._own_tokens))
        self._own_tokens = 0

    def _add_train_seconds(self) -> None:
        now = time.perf_counter()
        self.train_seconds, self._since = self.train_seconds + now - self._since, now


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
        identity: Mapping[str, str | None] = read_checkpoint(path)["identity"]
    except KeyError as error:
        message = f"{path} does not say which setting it belongs to: another version of sentattn wrote it."
        raise RunError(Fault(str(path), "damaged", message)) from error
    return identity


def random_state() -> State:
    """Returns the states of Python's, NumPy's and torch's generators, as plain values."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),  # type: ignore[union-attr]  # an array with legacy=True
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "mps": [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else [],
    }


def restore_random_state(state: State) -> None:
    """Sets all random generators to what `random_state` returned."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    if state["mps"] and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"][0])
