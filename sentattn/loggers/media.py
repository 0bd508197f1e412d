"""Pictures and tables on W&B: heat maps of attention while a model trains, and what the best epoch predicts."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pytorch_lightning import Callback

from sentattn.inference import Classifier
from sentattn.insight.picture import picture
from sentattn.loggers.guard import Guard
from sentattn.loggers.wandb import WandbGuard

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pytorch_lightning import LightningModule, Trainer

    from sentattn.data.datamodule import TextData

LONGEST = 2000  # characters of a text in a table
LEGIBLE = 30  # tokens of a text whose attention is legible at a glance


def callbacks(logger: Guard | None, data: TextData) -> list[Callback]:
    """Returns what logs media while a model trains.

    It stands before the callback that averages weights: after a validation that one takes the averaged weights back,
    and the drawn weights are to be the validated ones.
    """
    if isinstance(logger, WandbGuard) and (maps := AttentionMaps(logger, data)).texts:
        return [maps]
    return []


class AttentionMaps(Callback):
    """Draws after each validation what the model attends to in a few texts that stay the same.

    It changes neither the model nor any random state, so a training is the same with and without it.

    Attributes:
        texts: Text and caption by the picture's name.
    """

    def __init__(self, logger: WandbGuard, data: TextData) -> None:
        self.logger = logger
        self.data = data
        split = data.split("val")
        self.texts = {
            f"row_{row}": (split.texts(row), f"validation row {row}: {data.labels[split.labels[row]]}")
            for row in legible_rows(split.labels, split.lengths, logger.examples)
        }
        readable = []
        for text, encoded in zip(logger.texts, data.tokenizer.encode(logger.texts), strict=True):
            if len(encoded.ids):
                readable.append(text)
            else:
                print(f"W&B: logger.texts has {text!r}, which has no word or sign to read; it is left out.")
        self.texts |= {f"text_{n}": (text, f"text {n}") for n, text in enumerate(readable, start=1)}

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            epoch = trainer.current_epoch + 1
            self.logger.log_media(lambda: self._draw(trainer, pl_module), epoch=epoch, during_epoch=True)

    def _draw(self, trainer: Trainer, pl_module: Any) -> dict[str, Any]:
        import wandb
        from PIL import Image

        assert not pl_module.training, "a validation runs in evaluation mode"
        data = self.data
        classifier = Classifier(model=pl_module.model, tokenizer=data.tokenizer, labels=data.labels, config={})
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            predictions = classifier.predict([text for text, _ in self.texts.values()], pairs=True)
        return {
            f"attention/{name}": wandb.Image(Image.open(io.BytesIO(picture([prediction]))), caption=caption)
            for (name, (_, caption)), prediction in zip(self.texts.items(), predictions, strict=True)
        }


def log_evaluation(
    logger: Guard | None, data: TextData, probabilities: Mapping[str, NDArray[np.float32]], *, epoch: int
) -> None:
    """Logs the confusion matrix of each split and a table of validation rows, where the logger is W&B's.

    The probabilities are those of the best epoch's model, (rows, C) for each split.
    """
    if not isinstance(logger, WandbGuard):
        return
    rows, names = logger.table, list(data.labels)

    def make() -> dict[str, Any]:
        import wandb

        media: dict[str, Any] = {}
        for name, values in probabilities.items():
            media[f"{name}/confusion_matrix"] = confusion_matrix(data.split(name).labels, values.argmax(axis=1), names)
        if rows:
            split = data.split("val")
            media["val/predictions"] = wandb.Table(columns=["row", "text", "label", "predicted", "probability"])
            for row in spread_rows(len(split), rows):
                text, values = split.texts(row), probabilities["val"][row]
                shortened = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
                predicted, probability = names[int(values.argmax())], float(values.max())
                media["val/predictions"].add_data(
                    int(split.row[row]), shortened, names[split.labels[row]], predicted, probability
                )
        return media

    logger.log_media(make, epoch=epoch)


def confusion_matrix(labels_N: NDArray[Any], predicted_N: NDArray[Any], names: Sequence[str]) -> Any:
    """Returns W&B's chart of the numbers of true and predicted classes, (N,) each."""
    import wandb

    return wandb.plot.confusion_matrix(y_true=labels_N.tolist(), preds=predicted_N.tolist(), class_names=list(names))


def legible_rows(labels: NDArray[np.int64], lengths: NDArray[np.int64], count: int) -> list[int]:
    """Returns rows of each class in turn, those closest to `LEGIBLE` tokens first; ties in the order of the split."""
    closest = np.argsort(np.abs(lengths - LEGIBLE), kind="stable")
    by_class = [closest[labels[closest] == label].tolist() for label in np.unique(labels)]
    turns = chain.from_iterable(zip_longest(*by_class))
    return [row for row in turns if row is not None][:count]


def spread_rows(rows: int, count: int) -> list[int]:
    """Returns the indices of `count` rows, or of all if there are fewer, spread evenly over a split."""
    count = min(rows, count)
    return [rows * i // count for i in range(count)]
