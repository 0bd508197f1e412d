"""Steps of a training, taken to see what they cost; nothing is written, and no weight is kept."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from sentattn import build
from sentattn.data.batching import Batch
from sentattn.progress import Progress
from sentattn.training.ema import WarmEMA
from sentattn.training.forecast import memory
from sentattn.training.forecast.sizing import Chosen, Order
from sentattn.training.signals import Signals

if TYPE_CHECKING:
    from sentattn.training.lit_module import LitClassifier

Settings = Mapping[str, Any]

FEW: dict[str, Any] = {
    "max_epochs": 1,
    "min_epochs": None,
    "limit_train_batches": 1.0,
    "limit_val_batches": 1.0,
    "profiler": None,
}
"""All of the few batches that are given."""
FEWEST, MOST, SECONDS = 4, 16, 15.0
"""Steps that are timed: as many as take no longer than that, within these bounds."""


class Step(NamedTuple):
    """What the heaviest step of a training takes, in bytes, and in seconds once it is warm."""

    device: torch.device
    weights: int
    gradients: int
    optimizer: int
    average: int
    activations: int
    peak: int
    seconds: float


class Probe(Callback):
    """Times the batches, and of the first ones counts what the forward pass keeps for the backward pass."""

    def __init__(self, signals: Signals, progress: Progress, stage: str, *, counted: int = 0) -> None:
        self.signals = signals
        self.progress = progress
        self.stage = stage
        self.counted = counted
        self.activations: list[int] = []
        self.seconds: list[float] = []
        self.state = 0
        self._since = 0.0
        self._hooks: saved_tensors_hooks | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.install()  # Ctrl-C and SIGTERM are answered at once, not after Lightning's own ways
        self._since = time.perf_counter()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        if batch_idx < self.counted:
            own = {p.untyped_storage().data_ptr() for p in pl_module.parameters()}
            self.activations.append(0)
            self._hooks = saved_tensors_hooks(lambda tensor: self._count(tensor, own), lambda tensor: tensor)
            self._hooks.__enter__()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self._hooks is not None:
            self._hooks.__exit__()
            self._hooks = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        self._tick(pl_module.device, int(trainer.num_training_batches))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
        self.state = sum(_bytes(value) for state in states for value in state.values() if isinstance(value, Tensor))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._tick(pl_module.device, int(trainer.num_val_batches[0]))

    def _tick(self, device: torch.device, total: int) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.perf_counter()
        self.seconds.append(now - self._since)
        self._since = now
        self.progress(self.stage, len(self.seconds), total)

    def _count(self, tensor: Tensor, seen: set[int]) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            self.activations[-1] += storage.nbytes()
        return tensor


def measure_step(settings: Settings, lit: LitClassifier, order: Order, signals: Signals, progress: Progress) -> Step:
    """Takes the heaviest steps of a training, twice.

    Raises:
        TrainingError: If the memory is not enough.
    """
    heaviest = order.heaviest()
    probe = Probe(signals, progress, "Trying the largest batch", counted=len(heaviest))
    trainer = _trainer(settings, probe)
    device = trainer.strategy.root_device
    memory.reset_peak(device)
    _fit(trainer, lit, order.load([*heaviest, *heaviest]))
    weights = sum(map(_bytes, lit.parameters()))
    return Step(
        device=device,
        weights=weights,
        gradients=sum(_bytes(p) for p in lit.parameters() if p.requires_grad),
        optimizer=probe.state,
        average=weights if settings["ema_decay"] is not None else 0,
        activations=max(probe.activations),
        peak=memory.peak_bytes(device),
        seconds=max(probe.seconds[len(heaviest) :]),
    )


def time_steps(
    settings: Settings, lit: LitClassifier, order: Order, step: Step, signals: Signals, progress: Progress
) -> dict[int, float]:
    """Returns the seconds of some training steps of all sizes, by the batch's place in the order."""
    chosen = order.spread(max(FEWEST, min(MOST, int(SECONDS / step.seconds))))
    probe = Probe(signals, progress, "Timing training steps")
    _fit(_trainer(settings, probe), lit, order.load([chosen[-1], *chosen]))  # the first one pays for the start
    return dict(zip(chosen, probe.seconds[1:], strict=True))


def time_validation(
    settings: Settings, lit: LitClassifier, order: Order, signals: Signals, progress: Progress
) -> dict[int, float]:
    """Returns the seconds of some validation batches of all sizes, by the batch's place in the order."""
    chosen = order.spread(FEWEST)
    probe = Probe(signals, progress, "Timing validation")
    trainer = _trainer(settings, probe)
    trainer.validate(lit, dataloaders=order.load([chosen[-1], *chosen]), verbose=False)
    return dict(zip(chosen, probe.seconds[1:], strict=True))


def _trainer(settings: Settings, probe: Probe) -> Trainer:
    callbacks: list[Callback] = [probe]
    if settings["ema_decay"] is not None:
        callbacks.append(WarmEMA(settings["ema_decay"]))
    return build.build_trainer({**settings, "trainer": {**settings["trainer"], **FEW}}, callbacks=callbacks)


def _fit(trainer: Trainer, lit: LitClassifier, batches: Chosen) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no `val_dataloader`.*")  # a few training steps are wanted, no more
        trainer.fit(lit, train_dataloaders=batches)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
