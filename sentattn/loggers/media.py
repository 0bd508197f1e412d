"""Pictures and tables as W&B has them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sentattn.insight.chosen_rows import spread_rows

if TYPE_CHECKING:
    import wandb
    from numpy import float32
    from numpy.typing import NDArray

    from sentattn.data.split import Split

LONGEST = 2000
"""Most characters of a text in a table."""


def image(png: bytes, caption: str) -> wandb.Image:
    """Returns a picture.

    Args:
        png: The bytes of a PNG file.
        caption: What stands below it.
    """
    import wandb
    from PIL import Image

    return wandb.Image(Image.open(io.BytesIO(png)), caption=caption)


def confusion_matrix(split: Split, labels: Sequence[str], probabilities: NDArray[float32]) -> Any:
    """Returns how often each class was taken for each class, as a chart.

    Args:
        split: The rows.
        labels: Names of the classes.
        probabilities: What the model says of each row, (rows, C).
    """
    import wandb

    return wandb.plot.confusion_matrix(
        y_true=split.labels.tolist(), preds=probabilities.argmax(axis=1).tolist(), class_names=list(labels)
    )


def predictions(split: Split, labels: Sequence[str], probabilities: NDArray[float32], count: int) -> wandb.Table:
    """Returns a table of rows spread evenly over a split: what they say, are, and are taken for.

    Args:
        split: The rows.
        labels: Names of the classes.
        probabilities: What the model says of each row, (rows, C).
        count: Most rows of the table.
    """
    import wandb

    table = wandb.Table(columns=["row", "text", "label", "predicted", "probability"])
    for row in spread_rows(len(split), count):
        best = int(probabilities[row].argmax())
        text = split.texts(row)
        shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
        table.add_data(
            int(split.row[row]), shown, labels[split.labels[row]], labels[best], float(probabilities[row, best])
        )
    return table
