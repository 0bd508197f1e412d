"""Diagnostics of the attention of compared runs: computed once and kept with each run, and shown as tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from sentattn.compare.runs import Comparison, Evaluated, Setting
from sentattn.console import Progress
from sentattn.errors import Fault, RunError, UserError
from sentattn.insight.diagnostics import Diagnostics, Texts, diagnose, sample

ROWS = 500
"""Rows of a sample: a figure's mean is then known to about 0.02, and a BiLSTM on IMDB takes a minute or two."""


@dataclass(frozen=True)
class Insight:
    """The diagnostics of a setting, one for each seed."""

    setting: Setting
    seeds: Sequence[Diagnostics]

    def mean(self, name: str) -> float:
        """Returns the mean of a figure over texts and seeds; NaN where it does not apply."""
        return float(np.mean([one.mean(name) for one in self.seeds]))


def insights(comparison: Comparison, rows: int | None = ROWS) -> tuple[list[Insight], list[Fault]]:
    """Diagnoses the attentions of a comparison, each on the same sample of its rows.

    Args:
        comparison: Settings with the same rows; those without a model of this package are left out.
        rows: Size of the sample; None for all rows.

    Returns:
        The diagnostics, and a fault for each setting that is left out.

    Raises:
        RunError: If Captum or scikit-learn is missing.
    """
    if missing := [name for name in ("captum", "sklearn") if find_spec(name) is None]:
        message = f'insight= needs {missing[0]}: pip install "sentattn[insight]".'
        raise RunError(Fault("insight", "package", message))
    found: list[Insight] = []
    faults: list[Fault] = []
    indices = sample(len(comparison.rows.labels_N), rows)
    with Progress() as progress:
        for setting in comparison.settings:
            if "attention" not in setting.settings["model"]:
                continue
            try:
                seeds = [_diagnosed(one, comparison, indices, progress) for one in setting.runs]
            except UserError as error:
                faults += error.faults
            else:
                found.append(Insight(setting, seeds))
    return found, faults


def _diagnosed(one: Evaluated, comparison: Comparison, indices: np.ndarray, progress: Progress) -> Diagnostics:
    """Returns the diagnostics of a run, which are kept in its directory."""
    file = one.run.path / f"insight-{comparison.split}-{len(indices)}.parquet"
    if (stored := Diagnostics.load(file)) is not None and len(stored.weights) == len(indices):
        return stored
    texts = read_texts(one, comparison.split, indices)
    stage = f"insight of {one.run.path.parent.name}/{one.run.path.name}"
    result = diagnose(one.run.classifier.model, texts, lambda part, done, of: progress(f"{stage}: {part}", done, of))
    with suppress(OSError):  # a run that may only be read is computed again the next time
        result.save(file)
    return result


def read_texts(one: Evaluated, split: str, indices: np.ndarray) -> Texts:
    """Reads rows of a split again, as the model of a run reads them.

    Raises:
        RunError: If the data is not that on which the run was trained.
        DataError: If it is missing.
    """
    from sentattn.build import build_data

    classifier = one.run.classifier
    data = build_data({**one.settings, "data": {**one.settings["data"], **classifier.config["text"]}})
    data.prepare(words=classifier.tokenizer.words)
    if data.fingerprint != one.result.get("data_fingerprint"):
        message = f"data={data.name} has other texts now than when {one.run.path} was trained; it has no insight."
        raise RunError(Fault("data.path", "conflict", message))
    rows = data.split(split)
    encoded = classifier.tokenizer.encode([rows.texts(i) for i in indices])
    return Texts(encoded, rows.labels[indices], [rows.rationale(i) for i in indices])
