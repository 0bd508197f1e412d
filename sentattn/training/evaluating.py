"""Testing a saved run, on its own or on other data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentattn import build
from sentattn.data.datamodule import TextData
from sentattn.errors import DataError
from sentattn.progress import Progress
from sentattn.run import Run
from sentattn.training import quiet
from sentattn.training.judging import Judged, judge


def evaluate(record: Run, settings: Mapping[str, Any], split: str) -> Judged:
    """Measures a run's model on a split, read with the run's own vocabulary and length.

    Args:
        record: The run.
        settings: Its settings, or the same with other data.
        split: `val` or `test`.

    Raises:
        UserError: If the run has no model, or the data's labels are not the model's.
    """
    quiet.libraries()
    classifier = record.classifier
    settings = {**settings, "data": {**settings["data"], **classifier.config["text"]}}
    data = build.build_data(settings)
    data.test_only(split, classifier.labels, ordered=classifier.config["ordered"])
    with Progress() as progress:
        data.prepare(progress, words=classifier.tokenizer.words)
        progress.close()
        for sentence in data.report:
            print(sentence)
        _require_labels(data, classifier.labels)
        # Class weights are those of the rows that the model was trained on, whatever it is tested on.
        class_counts = classifier.config.get("class_counts") or data.class_counts
        lit = build.build_lit(settings, data, classifier.model, class_counts=class_counts)
        return judge(settings, lit, data, split, progress)


def _require_labels(data: TextData, labels: tuple[str, ...]) -> None:
    if data.labels != labels:
        raise DataError(
            f"The run knows the labels {', '.join(labels)}; data={data.name} has {', '.join(data.labels)}. "
            "A run can be tested on data with the same labels only."
        )
