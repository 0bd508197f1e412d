"""Evaluation of a model on a split, at the end of a training or of a saved run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentattn import build
from sentattn.console import Progress
from sentattn.errors import DataError, Fault
from sentattn.run import Run
from sentattn.training.callbacks import EvaluationProgress
from sentattn.training.environment import quiet_libraries
from sentattn.training.trainer import build_lit, build_trainer

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData
    from sentattn.training.lit_module import LitClassifier


class Evaluation(NamedTuple):
    """Metrics such as `val/accuracy`, and the probabilities, (rows, C), in the split's order."""

    metrics: dict[str, float]
    probabilities: NDArray[np.float32]


def evaluate_split(
    settings: Mapping[str, Any], lit: LitClassifier, data: TextData, split: str, progress: Progress
) -> Evaluation:
    """Evaluates a model on `val` or `test`, in one pass and with the weights it has.

    A separate trainer leaves averaged weights and checkpoints of a training as they are.
    """
    trainer = build_trainer(settings, callbacks=[EvaluationProgress(progress)])
    evaluate = trainer.validate if split == "val" else trainer.test
    [metrics] = evaluate(lit, dataloaders=data.batches(split), verbose=False)
    progress.close()
    return Evaluation(dict(metrics), lit.scores().softmax(dim=-1).numpy())


def evaluate_run(run: Run, settings: Mapping[str, Any], split: str) -> Evaluation:
    """Evaluates a run's model on a split, read with the run's own vocabulary and length.

    Args:
        run: The run.
        settings: Its settings, or the same with other data.
        split: `val` or `test`.

    Raises:
        UserError: If the run has no model, or the data's labels are not the model's.
    """
    quiet_libraries()
    classifier = run.classifier
    settings = {**settings, "data": {**settings["data"], **classifier.config["text"]}}
    data = build.build_data(settings)
    data.test_only(split, classifier.labels, ordered=classifier.config["ordered"])
    with Progress() as progress:
        data.prepare(progress, words=classifier.tokenizer.words)
        progress.close()
        print("\n".join(data.report))
        if data.labels != classifier.labels:
            message = (
                f"The run knows the labels {', '.join(classifier.labels)}; data={data.name} has "
                f"{', '.join(data.labels)}. A run can be evaluated on data with the same labels only."
            )
            raise DataError(Fault("data.label", "conflict", message))
        # Class weights are those of the rows that the model was trained on, not of those it is evaluated on.
        class_counts = classifier.config.get("class_counts") or data.class_counts
        lit = build_lit(settings, data, classifier.model, class_counts=class_counts)
        return evaluate_split(settings, lit, data, split, progress)
