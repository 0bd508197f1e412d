"""Diagnostics of the attention of compared runs: computed once and kept with each run, and shown as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch

from sentattn.compare.metrics import Ints
from sentattn.compare.runs import Comparison, Evaluated, Setting
from sentattn.compare.texts import read_texts
from sentattn.console import Progress
from sentattn.errors import Fault, RunError, UserError
from sentattn.insight.diagnostics import Diagnostics, Texts, diagnose, sample
from sentattn.insight.faithfulness import rank_correlation
from sentattn.insight.shape import is_ranking
from sentattn.training.environment import keep_freed_memory

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

ROWS = 200
"""Rows of a sample: a mean fall of the probability is then known to about 0.02. A text costs 250 forward passes."""


@dataclass(frozen=True)
class Insight:
    """The diagnostics of a setting, one for each seed."""

    setting: Setting
    seeds: Sequence[Diagnostics]

    def mean(self, name: str) -> float:
        """Returns the mean of a figure over texts and seeds; NaN where it does not apply."""
        return float(np.mean([one.mean(name) for one in self.seeds]))

    @cached_property
    def agreement(self) -> float:
        """Kendall's tau between the attention of two seeds, mean over texts and pairs; NaN for one seed."""
        values = [
            rank_correlation(*weights)
            for first, second in combinations(self.seeds, 2)
            for weights in zip(first.weights, second.weights, strict=True)
            if all(map(is_ranking, weights))
        ]
        return float(np.nanmean(values)) if values else np.nan


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
    torch.set_flush_denormal(True)  # gradients over a long text end as denormal numbers, which are slow
    keep_freed_memory()
    found: list[Insight] = []
    faults: list[Fault] = []
    indices = sample(len(comparison.rows.labels_N), rows)
    read = cache(lambda: read_texts(comparison))  # not at all where everything is stored
    with Progress() as progress:
        for setting in comparison.settings:
            if "attention" not in setting.settings["model"]:
                continue
            try:
                seeds = [_diagnosed(one, read, indices, comparison.split, progress) for one in setting.runs]
            except UserError as error:
                faults += error.faults
            else:
                found.append(Insight(setting, seeds))
    return found, list(dict.fromkeys(faults))


def _diagnosed(
    one: Evaluated, read: Callable[[], TextData], indices: Ints, split: str, progress: Progress
) -> Diagnostics:
    """Returns the diagnostics of a run, which are kept in its directory."""
    file = one.run.path / f"insight-{split}-{len(indices)}.parquet"
    if (stored := Diagnostics.load(file)) is not None and len(stored.weights) == len(indices):
        return stored
    rows, classifier = read().split(split), one.run.classifier
    encoded = classifier.tokenizer.encode([rows.texts(i) for i in indices])
    texts = Texts(encoded, rows.labels[indices], [rows.rationale(i) for i in indices])
    stage = f"insight of {one.run.path.parent.name}/{one.run.path.name}"
    result = diagnose(classifier.model, texts, lambda part, done, of: progress(f"{stage}: {part}", done, of))
    with suppress(OSError):  # a run that may only be read is computed again the next time
        result.save(file)
    return result
