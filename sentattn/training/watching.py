"""Callbacks that look at a model while it trains: how long its gradients are, and what it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from pytorch_lightning import Callback, Trainer
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from sentattn.data.text_data import TextData
from sentattn.inference import Classifier
from sentattn.insight.chosen_rows import legible_rows
from sentattn.insight.picture import picture
from sentattn.loggers import Mirror, WandbMirror, media
from sentattn.training.lit_module import LitClassifier

if TYPE_CHECKING:
    from pytorch_lightning import LightningModule

    from sentattn.training.callbacks import EpochRecorder


def watchers(recorder: EpochRecorder, data: TextData, mirror: Mirror | None) -> list[Callback]:
    """Returns what looks at a model while it trains.

    They stand before the callback that averages weights: after a validation it takes the averaged weights back, and
    what is drawn is what was validated.
    """
    found: list[Callback] = [GradientNorm()]
    if mirror is not None:
        found.append(Restored(mirror, recorder))
    if isinstance(mirror, WandbMirror) and (maps := AttentionMaps(mirror, data)).texts:
        found.append(maps)
    return found


class GradientNorm(Callback):
    """Records the length of the gradient before it is clipped, `train/gradient_norm`: the mean over the steps."""

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        norm = get_total_norm([p.grad for p in pl_module.parameters() if p.grad is not None])
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            if getattr(optimizer, "_step_supports_amp_scaling", False):  # it scales the gradients back by itself
                norm = norm / scaler.get_scale()
            if not norm.isfinite():  # the step will be left out, and the next ones scaled by less
                return
        assert isinstance(pl_module, LitClassifier)
        pl_module.means.add({"train/gradient_norm": norm}, weight=1)


class Restored(Callback):
    """Shows a mirror the epochs before an interruption, once the record knows them again."""

    def __init__(self, mirror: Mirror, recorder: EpochRecorder) -> None:
        self.mirror = mirror
        self.recorder = recorder

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.mirror.restore(self.recorder.rows)


class AttentionMaps(Callback):
    """Draws after each validation what the model attends to in a few texts that stay the same.

    It changes neither the model nor any random state, so a training is the same with and without it.

    Args:
        mirror: Where they are shown, and how many of which.
        data: What is validated.

    Attributes:
        texts: Text and caption by the picture's name.
    """

    def __init__(self, mirror: WandbMirror, data: TextData) -> None:
        self.mirror = mirror
        self.data = data
        self.texts = dict(self._rows()) | dict(self._given())

    def _rows(self) -> Sequence[tuple[str, tuple[str, str]]]:
        split = self.data.split("val")
        rows = legible_rows(split.labels, split.lengths, self.mirror.examples)
        captions = [f"validation row {row}: {self.data.labels[split.labels[row]]}" for row in rows]
        return [(f"row_{row}", (split.texts(row), caption)) for row, caption in zip(rows, captions, strict=True)]

    def _given(self) -> Sequence[tuple[str, tuple[str, str]]]:
        encoded = self.data.tokenizer.encode(self.mirror.texts)
        for text, one in zip(self.mirror.texts, encoded, strict=True):
            if not len(one.ids):
                print(f"W&B: logger.texts holds {text!r}, in which there is no word or sign to read; it is left out.")
        legible = [text for text, one in zip(self.mirror.texts, encoded, strict=True) if len(one.ids)]
        return [(f"text_{number}", (text, f"text {number}")) for number, text in enumerate(legible, start=1)]

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self.mirror.show(trainer.current_epoch + 1, lambda: self._draw(trainer, pl_module))

    def _draw(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        assert isinstance(pl_module, LitClassifier)
        assert not pl_module.training, "a validation runs in evaluation mode"
        model, data = pl_module.model, self.data
        reader = Classifier(model=model, tokenizer=data.tokenizer, labels=data.labels, config={})
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            predictions = reader.predict([text for text, _ in self.texts.values()], pairs=True)
        return {
            f"attention/{name}": media.image(picture([prediction]), caption)
            for (name, (_, caption)), prediction in zip(self.texts.items(), predictions, strict=True)
        }
