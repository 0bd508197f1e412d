"""Pictures and tables on W&B: heat maps of the best epoch's model, and its predictions; runs from their directories."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import numpy as np
import torch

from sentattn.config.types import Node
from sentattn.errors import Fault, RunError
from sentattn.loggers import LoggedRun, wandb_logger
from sentattn.loggers.guard import Guard, summarize
from sentattn.loggers.wandb.run import WandbGuard
from sentattn.loggers.wandb.upload import LocalRun, find_runs
from sentattn.prediction.model import LABELS, Classifier
from sentattn.rendering.png import picture
from sentattn.run import MODEL, PREDICTIONS, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier

LONGEST, LEGIBLE = 2000, 30
"""Characters of a text in a table, and tokens of a text whose heat map is easy to read."""


def log_attention(logger: Guard | None, data: TextData, model: TextClassifier, *, epoch: int) -> None:
    """Draws the attention to some validation rows and to texts of the user, if the logger is W&B's."""
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


def _pictures(texts: Mapping[str, tuple[str, str]], data: TextData, model: TextClassifier) -> dict[str, object]:
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
    """Logs confusion matrices and a table of validation rows from probabilities (rows, C), if the logger is W&B's."""
    if not isinstance(logger, WandbGuard):
        return
    names = list(data.labels)

    def make() -> dict[str, object]:
        import wandb

        media: dict[str, object] = {
            f"{name}/confusion_matrix": confusion_matrix(data.split(name).labels, values.argmax(axis=1), names)
            for name, values in probabilities.items()
        }
        if logger.table:
            split, values = data.split("val"), probabilities["val"]
            table = wandb.Table(columns=["row", "text", "label", "predicted", "probability"])
            count = min(len(split), logger.table)
            for row in (len(split) * i // count for i in range(count)):  # spread evenly
                text, best = split.texts(row), int(values[row].argmax())
                shortened = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
                label, probability = names[split.labels[row]], float(values[row, best])
                table.add_data(int(split.row[row]), shortened, label, names[best], probability)
            media["val/predictions"] = table
        return media

    logger.log_media(make, epoch=epoch)


def confusion_matrix(labels_N: NDArray[np.integer], predicted_N: NDArray[np.integer], names: Sequence[str]) -> object:
    """Returns W&B's chart of the numbers of true and predicted classes, (N,) each."""
    import wandb

    return wandb.plot.confusion_matrix(y_true=labels_N.tolist(), preds=predicted_N.tolist(), class_names=list(names))


def legible_rows(labels: NDArray[np.int64], lengths: NDArray[np.int64], count: int) -> list[int]:
    """Returns rows of each class in turn, those closest to `LEGIBLE` tokens first; ties in the order of the split."""
    closest = np.argsort(np.abs(lengths - LEGIBLE), kind="stable")
    by_class = [closest[labels[closest] == label].tolist() for label in np.unique(labels)]
    turns = chain.from_iterable(zip_longest(*by_class))
    return [row for row in turns if row is not None][:count]


def log_run(run: Run, place: Node, values: Node | None = None) -> LocalRun:
    """Returns W&B's folder of a finished run, and writes it if it is missing: metrics, summary and confusion matrices.

    `place` is the `project`, `entity` and `host` of a run that was trained without W&B; `values` are those that a trial
    of a sweep tried, by their keys. A `RunError` if the run is damaged or W&B's files cannot be written.
    """
    if logged := find_runs([run.path]):
        return logged[0]._replace(host=logged[0].host or place["host"])
    result, matrices = run.result, _confusions(run)
    settings = {"group": None, "tags": [], **run.settings}
    # Resumed, so that the guard logs the epochs of the run directory.
    logged_run = LoggedRun(run.path, settings, str(result["setting"]), resumed=True, study=result.get("study"))
    guard = wandb_logger(**place, mode="offline", run=logged_run)
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(io.StringIO()):
        guard.start()
        guard.attempt(lambda logger: logger.experiment.config.update(dict(values or {}), allow_val_change=True), None)
        guard.log_media(lambda: matrices, epoch=int(result.get("best_epoch") or 1))
        guard.finish(summarize(result))
    if not (logged := find_runs([run.path])):
        reason = output.getvalue().strip() or "W&B wrote no file"
        raise RunError(Fault(str(run.path), "failed", f"{run.path} cannot be logged for W&B: {reason}"))
    return logged[0]._replace(host=place["host"])


def _confusions(run: Run) -> dict[str, object]:
    """Returns the confusion matrix of each split of which the run has predictions; a `RunError` without predictions."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(run.path / PREDICTIONS, columns=["split", "label", "predicted"])
    except (OSError, ValueError, KeyError) as error:
        message = f"{run.path / PREDICTIONS} cannot be read: {error}."
        raise RunError(Fault(str(run.path), "damaged", message)) from error
    split_N = np.array(table["split"].to_pylist())
    labels_N, predicted_N = table["label"].to_numpy(), table["predicted"].to_numpy()
    file = run.path / MODEL / LABELS  # a reference has no model
    numbers = range(int(max(labels_N.max(), predicted_N.max())) + 1)
    names = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else [*map(str, numbers)]
    return {
        f"{split}/confusion_matrix": confusion_matrix(labels_N[split_N == split], predicted_N[split_N == split], names)
        for split in np.unique(split_N).tolist()
    }
