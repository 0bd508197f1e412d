"""Pictures and tables on W&B: heat maps of attention while a model trains, and what the best epoch predicts."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from pytorch_lightning import Callback

from sentattn.inference import Classifier
from sentattn.insight.examples import legible_rows, spread_rows
from sentattn.insight.picture import picture
from sentattn.loggers.guard import Guard
from sentattn.loggers.wandb import WandbGuard

if TYPE_CHECKING:
    import wandb
    from numpy import float32
    from numpy.typing import NDArray
    from pytorch_lightning import LightningModule, Trainer

    from sentattn.data.corpus import Split
    from sentattn.data.datamodule import TextData

LONGEST = 2000
"""Most characters of a text in a table."""


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

    Args:
        logger: Where they are logged, which says which texts.
        data: The data with the validation rows.

    Attributes:
        texts: Text and caption by the picture's name.
    """

    def __init__(self, logger: WandbGuard, data: TextData) -> None:
        self.logger = logger
        self.data = data
        self.texts = dict(self._validation_rows()) | dict(self._typed_texts())

    def _validation_rows(self) -> Iterator[tuple[str, tuple[str, str]]]:
        split = self.data.split("val")
        for row in legible_rows(split.labels, split.lengths, self.logger.examples):
            yield f"row_{row}", (split.texts(row), f"validation row {row}: {self.data.labels[split.labels[row]]}")

    def _typed_texts(self) -> Iterator[tuple[str, tuple[str, str]]]:
        texts = self.logger.texts
        readable = []
        for text, encoded in zip(texts, self.data.tokenizer.encode(texts), strict=True):
            if len(encoded.ids):
                readable.append(text)
            else:
                print(f"W&B: logger.texts has {text!r}, which has no word or sign to read; it is left out.")
        for number, text in enumerate(readable, start=1):
            yield f"text_{number}", (text, f"text {number}")

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            epoch = trainer.current_epoch + 1
            self.logger.log_media(lambda: self._draw(trainer, pl_module), epoch=epoch, during_epoch=True)

    def _draw(self, trainer: Trainer, pl_module: Any) -> dict[str, Any]:
        assert not pl_module.training, "a validation runs in evaluation mode"
        data = self.data
        classifier = Classifier(model=pl_module.model, tokenizer=data.tokenizer, labels=data.labels, config={})
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            predictions = classifier.predict([text for text, _ in self.texts.values()], pairs=True)
        return {
            f"attention/{name}": image(picture([prediction]), caption)
            for (name, (_, caption)), prediction in zip(self.texts.items(), predictions, strict=True)
        }


def log_evaluation(
    logger: Guard | None, data: TextData, probabilities: Mapping[str, NDArray[float32]], *, epoch: int
) -> None:
    """Logs the confusion matrix of each split and a table of validation rows, where the logger is W&B's.

    Args:
        logger: Where they are logged.
        data: The data that was evaluated.
        probabilities: What the best epoch's model predicts, (rows, C) for each split.
        epoch: The best epoch.
    """
    if not isinstance(logger, WandbGuard):
        return
    rows = logger.table

    def make() -> dict[str, Any]:
        media: dict[str, Any] = {
            f"{name}/confusion_matrix": confusion_matrix(data.split(name), data.labels, values)
            for name, values in probabilities.items()
        }
        if rows:
            media["val/predictions"] = predictions(data.split("val"), data.labels, probabilities["val"], rows)
        return media

    logger.log_media(make, epoch=epoch)


def image(png: bytes, caption: str) -> wandb.Image:
    """Returns the picture of a PNG file with a caption below it."""
    import wandb
    from PIL import Image

    return wandb.Image(Image.open(io.BytesIO(png)), caption=caption)


def confusion_matrix(split: Split, labels: Sequence[str], probabilities: NDArray[float32]) -> Any:
    """Returns a chart of how often each class was predicted for each class.

    Args:
        split: The rows.
        labels: Names of the classes.
        probabilities: What the model predicts for each row, (rows, C).
    """
    import wandb

    return wandb.plot.confusion_matrix(
        y_true=split.labels.tolist(), preds=probabilities.argmax(axis=1).tolist(), class_names=list(labels)
    )


def predictions(split: Split, labels: Sequence[str], probabilities: NDArray[float32], count: int) -> wandb.Table:
    """Returns a table of rows spread evenly over a split: their text, label and predicted class.

    Args:
        split: The rows.
        labels: Names of the classes.
        probabilities: What the model predicts for each row, (rows, C).
        count: Most rows of the table.
    """
    import wandb

    table = wandb.Table(columns=["row", "text", "label", "predicted", "probability"])
    for row in spread_rows(len(split), count):
        best = int(probabilities[row].argmax())
        text = split.texts(row)
        shortened = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
        table.add_data(
            int(split.row[row]), shortened, labels[split.labels[row]], labels[best], float(probabilities[row, best])
        )
    return table
