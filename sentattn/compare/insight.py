"""Diagnostics of the attention of compared runs: computed once and kept with each run, and shown as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from sentattn.compare.metrics import blocks
from sentattn.compare.runs import Comparison, Evaluated, Setting
from sentattn.compare.statistics import UNKNOWN, Estimate, Floats, Term, jackknife, seed_term
from sentattn.compare.texts import read_texts
from sentattn.console import Progress
from sentattn.errors import Fault, RunError, UserError
from sentattn.insight.diagnostics import Diagnostics, Texts, diagnose, sample
from sentattn.insight.faithfulness import rank_correlation
from sentattn.insight.shape import is_ranking
from sentattn.metrics import Ints
from sentattn.training.environment import keep_freed_memory

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

FILE = "insight-{split}-{rows}.parquet"
"""The file of a run with the diagnostics of a sample."""
ROWS = 200
"""Rows of a sample: a mean fall of the probability is then known to about 0.02. A text costs 250 forward passes."""


Means: TypeAlias = Callable[[str], Any]
"""Returns the mean of a figure over texts by its name: a number, or an array of such means."""
Figure: TypeAlias = Callable[[Means], Any]
"""Computes a figure of a table from means."""


@dataclass(frozen=True)
class Insight:
    """The diagnostics of a setting, one for each seed.

    Attributes:
        setting: The setting.
        seeds: The diagnostics.
        block_N: Number of each text's block for the jackknife; the texts of a group are in one block.
    """

    setting: Setting
    seeds: Sequence[Diagnostics]
    block_N: Ints

    def means(self, name: str) -> Floats:
        """Returns the means of a figure over all texts and over those outside each block, (seeds, 1 + blocks)."""
        return np.stack([_means(one.figures[name], self.block_N) for one in self.seeds])

    def estimate(self, figure: Figure) -> Estimate:
        """Returns the mean over seeds of what is computed from means, with its standard error.

        The errors from texts and from seeds are those of `metrics.estimates` for what is no mean over rows. A value of
        NaN does not apply; an error of NaN is unknown, since the setting has one seed.

        Args:
            figure: The computation.
        """
        values_SK = figure(self.means)
        seeds = [seed_term(values_SK[:, 0])] if len(self.seeds) > 1 else []
        return _estimate(values_SK, seeds, is_known=self.setting.has_seeds)

    @cached_property
    def agreement(self) -> Estimate:
        """Kendall's tau between the attention of two seeds, mean over texts and pairs; NaN for one seed.

        Its error from the seeds is that of the jackknife, as the pairs of a seed are not independent; with two seeds
        it is unknown.
        """
        numbers = range(len(self.seeds))
        pairs = list(combinations(numbers, 2))
        if not pairs:
            return Estimate.of(np.nan, [UNKNOWN])
        values_PK = np.stack([_means(self._agreement(*pair), self.block_N) for pair in pairs])
        if len(pairs) == 1:
            return _estimate(values_PK, [], is_known=False)
        without_S = [values_PK[[seed not in pair for pair in pairs], 0].mean() for seed in numbers]
        return _estimate(values_PK, [jackknife(float(values_PK[:, 0].mean()), np.array(without_S))], is_known=True)

    def _agreement(self, first: int, second: int) -> Floats:
        """The agreement of two seeds on each text, (texts,)."""
        weights = zip(self.seeds[first].weights, self.seeds[second].weights, strict=True)
        return np.array([rank_correlation(*both) if all(map(is_ranking, both)) else np.nan for both in weights])


def _means(values_N: Floats, block_N: Ints) -> Floats:
    """The means over all texts to which a figure applies, and over those outside each block; NaN over none."""
    applies_N = ~np.isnan(values_N)
    sums_K = np.bincount(block_N, weights=np.where(applies_N, values_N, 0))
    counts_K = np.bincount(block_N, weights=applies_N)
    sums, counts = (np.concatenate([[one_K.sum()], one_K.sum() - one_K]) for one_K in (sums_K, counts_K))
    means: Floats = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def _estimate(values_SK: Floats, seeds: Sequence[Term], *, is_known: bool) -> Estimate:
    """The mean over seeds, with its errors where they are known."""
    value, *without_K = values_SK.mean(axis=0)
    rows = jackknife(value, np.array(without_K))
    if not is_known or np.isnan(rows.variance):
        return Estimate.of(float(value), [UNKNOWN])
    return Estimate.of(float(value), [rows, *seeds])


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
    group_N = comparison.rows.group_N
    block_N = blocks(len(indices), None if group_N is None else np.unique(group_N[indices], return_inverse=True)[1])
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
                found.append(Insight(setting, seeds, block_N))
    return found, list(dict.fromkeys(faults))


def _diagnosed(
    one: Evaluated, read: Callable[[], TextData], indices: Ints, split: str, progress: Progress
) -> Diagnostics:
    """Returns the diagnostics of a run, which are kept in its directory."""
    file = one.run.path / FILE.format(split=split, rows=len(indices))
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
