"""The result of a training: what `result.json`, `predictions.parquet` and `model/` hold, and what is printed of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sentattn.inference import TEXT_SETTINGS, Classifier
from sentattn.metrics import format_value
from sentattn.run import MODEL, Run
from sentattn.training import costs
from sentattn.training.callbacks import SPEED
from sentattn.training.environment import git_revision, versions

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier
    from sentattn.training.callbacks import EpochRecorder, Row
    from sentattn.training.evaluate import Evaluation
    from sentattn.training.lit_module import LitClassifier

Settings = Mapping[str, Any]

DIVERGED = 10.0
"""A validation log loss above this many times that of a uniform guess is reported as diverged."""


def initial_result(
    settings: Settings, lit: LitClassifier, setting: str, fingerprint: str, study: str | None
) -> dict[str, Any]:
    """Returns what is known of a result before the training."""
    return {
        "status": None,
        "setting": setting,
        "study": study,
        "model": settings["model"]["name"],
        "data": settings["data"]["name"],
        "seed": settings["seed"],
        "best_epoch": None,
        "metrics": {},
        "parameters": costs.parameters(lit.model),
        "seconds": {"train": None, "total": None},
        "git": git_revision(),
        "versions": versions(),
        "data_fingerprint": fingerprint,
    }


def finished_result(recorder: EpochRecorder, evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Returns what the result of a finished run adds: the metrics of its best epoch, and what it cost."""
    train = {name: value for name, value in _metrics(recorder.best).items() if name.startswith("train/")}
    evaluated = {name: value for evaluation in evaluations.values() for name, value in evaluation.metrics.items()}
    return {"status": "finished", "metrics": train | evaluated, **_best_and_costs(recorder)}


def pruned_result(recorder: EpochRecorder) -> dict[str, Any]:
    """Returns what the result of a pruned run adds: the metrics of its best epoch so far."""
    return {"status": "pruned", "metrics": _metrics(recorder.best), **_best_and_costs(recorder)}


def _best_and_costs(recorder: EpochRecorder) -> dict[str, Any]:
    return {
        "best_epoch": int(recorder.best["epoch"]),
        "seconds": {"train": recorder.train_seconds},
        "tokens_per_second": recorder.tokens / recorder.train_seconds,
        "peak_memory_bytes": costs.peak_memory_bytes(),
    }


def _metrics(row: Mapping[str, float]) -> dict[str, float]:
    """Returns the metrics of an epoch that say how good it was, not how fast."""
    return {name: value for name, value in row.items() if "/" in name and name != SPEED}


def write_model(
    run: Run,
    settings: Settings,
    data: TextData,
    model: TextClassifier,
    evaluations: Mapping[str, Evaluation],
) -> None:
    """Writes predictions and model."""
    run.write_predictions(
        {split: (data.split(split), evaluation.probabilities) for split, evaluation in evaluations.items()}
    )
    text = {key: settings["data"][key] for key in TEXT_SETTINGS}
    config = {"model": settings["model"], "text": text, "ordered": data.ordered, "class_counts": data.class_counts}
    classifier = Classifier(model=model, tokenizer=data.tokenizer, labels=data.labels, config=config)
    classifier.save(run.path / MODEL)


def warn_if_diverged(rows: Sequence[Row], *, classes: int) -> None:
    """Prints a warning where the metrics of an epoch are those of a diverged training.

    Args:
        rows: The metrics of each epoch.
        classes: Number of classes.
    """
    guess = math.log(classes)
    for row in rows:
        loss = row["val/log_loss"]
        if not loss <= DIVERGED * guess:  # NaN too
            print(
                f"warning: the training diverged: val/log_loss was {format_value(loss)} in epoch {row['epoch']}, a "
                f"uniform guess has {format_value(guess)}. Try a smaller optimizer.lr.",
                file=sys.stderr,
                flush=True,
            )
            return


def print_metrics(result: Mapping[str, Any]) -> None:
    """Prints the metrics of the best epoch, a column a split."""
    metrics = result["metrics"]
    splits = [split for split in ("val", "test") if f"{split}/loss" in metrics]
    print(f"best epoch {result['best_epoch']}, in {result['seconds']['total']:.0f} s:")
    print(" " * 20 + "".join(f"{split:>10}" for split in splits))
    for name in (name.removeprefix("val/") for name in metrics if name.startswith("val/")):
        print(f"  {name:<18}" + "".join(f"{format_value(metrics[f'{split}/{name}']):>10}" for split in splits))
