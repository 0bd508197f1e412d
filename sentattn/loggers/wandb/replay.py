"""Logs a finished run to W&B from its directory."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import numpy as np

from sentattn.errors import Fault, RunError
from sentattn.loggers import wandb_logger
from sentattn.loggers.guard import summarize
from sentattn.loggers.wandb.media import confusion_matrix
from sentattn.loggers.wandb.upload import LocalRun, find_runs
from sentattn.prediction.model import LABELS
from sentattn.run import MODEL, PREDICTIONS, Run


def log_run(run: Run, place: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> LocalRun:
    """Returns W&B's folder of a run, and writes it if it is missing: metrics, summary and confusion matrices.

    Nothing is uploaded.

    Args:
        run: A finished run.
        place: Where it is to be uploaded if it was trained without W&B: `project`, `entity`, `host`.
        values: Of a trial of a sweep, the values that it tried, by their keys.

    Raises:
        RunError: If the run is damaged or W&B's files cannot be written.
    """
    if logged := find_runs([run.path]):
        return logged[0]._replace(host=logged[0].host or place["host"])
    result, matrices = run.result, _confusions(run)
    guard = wandb_logger(
        **place,
        mode="offline",
        directory=run.path,
        settings={"group": None, "tags": [], **run.settings},
        setting=str(result["setting"]),
        resumed=True,  # the guard logs the epochs of the run directory
        study=result.get("study"),
    )
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


def _confusions(run: Run) -> dict[str, Any]:
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
