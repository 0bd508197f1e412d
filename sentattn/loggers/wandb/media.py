"""Pictures and tables on W&B: heat maps of the attention of the best epoch's model, and its predictions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sentattn.loggers.guard import Guard
from sentattn.loggers.wandb.run import WandbGuard
from sentattn.prediction.model import Classifier
from sentattn.rendering.png import picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier

LONGEST = 2000
"""Characters of a text in a table."""
LEGIBLE = 30
"""Tokens of a text whose heat map is easy to read."""


def log_attention(logger: Guard | None, data: TextData, model: TextClassifier, *, epoch: int) -> None:
    """Draws the attention to some validation rows and to texts of the user, if the logger is W&B's.

    A picture takes a quarter of a second, so it is drawn of the best epoch's model alone.
    """
    if isinstance(logger, WandbGuard) and (texts := texts_to_draw(logger, data)):
        logger.log_media(lambda: _pictures(texts, data, model), epoch=epoch)


def texts_to_draw(logger: WandbGuard, data: TextData) -> dict[str, tuple[str, str]]:
    """Returns text and caption by the name of the picture."""
    split = data.split("val")
    texts = {
        f"row_{row}": (split.texts(row), f"validation row {row}: {data.labels[split.labels[row]]}")
        for row in legible_rows(split.labels, split.lengths, logger.examples)
    }
    readable = []
    for text, encoded in zip(logger.texts, data.tokenizer.encode(logger.texts), strict=True):
        if len(encoded.ids):
            readable.append(text)
        else:
            print(f"W&B: logger.texts has {text!r}, which has no word or sign to read; it is left out.")
    return texts | {f"text_{n}": (text, f"text {n}") for n, text in enumerate(readable, start=1)}


def _pictures(texts: Mapping[str, tuple[str, str]], data: TextData, model: TextClassifier) -> dict[str, Any]:
    import wandb
    from PIL import Image

    classifier = Classifier(model=model, tokenizer=data.tokenizer, labels=data.labels, config={})
    with torch.no_grad():
        predictions = classifier.predict([text for text, _ in texts.values()], pairs=True)
    return {
        f"attention/{name}": wandb.Image(Image.open(io.BytesIO(picture([prediction]))), caption=caption)
        for (name, (_, caption)), prediction in zip(texts.items(), predictions, strict=True)
    }


def log_evaluation(
    logger: Guard | None, data: TextData, probabilities: Mapping[str, NDArray[np.float32]], *, epoch: int
) -> None:
    """Logs the confusion matrix of each split and a table of validation rows, if the logger is W&B's.

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
