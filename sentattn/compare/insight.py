"""Diagnostics of the attention of compared runs: computed once and kept with each run, and shown as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sentattn.compare.runs import EvaluatedRun
from sentattn.compare.settings import Setting
from sentattn.compare.statistics import UNKNOWN, Estimate, Term, blocks, jackknife, seed_term
from sentattn.console import Progress
from sentattn.errors import Fault, RunError, UserError
from sentattn.insight.diagnostics import Diagnostics, Texts, diagnose, sample
from sentattn.insight.faithfulness import rank_correlation
from sentattn.insight.metrics import is_ranking
from sentattn.insight.weights import Over
from sentattn.metrics import Floats, Ints
from sentattn.prediction.model import LoadedRun
from sentattn.training.environment import keep_freed_memory

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

FILES: Mapping[Over, str] = {
    "tokens": "insight-{split}-{rows}.parquet",
    "ngrams": "insight-ngrams-{split}-{rows}.parquet",
}
"""The files of a run with the diagnostics of a sample, by what the attention is over."""
ROWS = 200
"""Rows of a sample: a mean fall of the probability is then known to about 0.02. A text costs hundreds of passes."""


@dataclass(frozen=True)
class Insight:
    """The diagnostics of an attention of a setting, for each seed.

    `block_N` numbers the blocks of texts for the jackknife; the texts of a group are in one block.
    """

    setting: Setting
    seeds: Sequence[Diagnostics]
    block_N: Ints
    over: Over = "tokens"

    @property
    def name(self) -> str:
        """The name of the setting, marked where the attention weighs n-grams."""
        return f"{self.setting.name} (n-grams)" if self.over == "ngrams" else self.setting.name

    @property
    def is_ranking(self) -> bool:
        """Whether the weights of any text rank its tokens."""
        return any(is_ranking(weights_L) for diagnostics in self.seeds for weights_L in diagnostics.weights)

    def estimate(
        self, names: Sequence[str], compute: Callable[..., Any] = lambda mean: mean, *, among: Sequence[str] = ()
    ) -> Estimate:
        """Returns the mean over seeds of a value that is computed from means over the same texts, with its error.

        A difference of two means is thus that of paired values. The errors from texts and from seeds are those of
        `statistics.estimates` for statistics that are no mean over rows. A value of NaN does not apply; an error of
        NaN is unknown, since the setting has too few seeds.

        Args:
            names: The metrics whose means are taken.
            compute: Computes the value from these means, which are its arguments.
            among: Further metrics that have to apply to a text for it to count.
        """
        values = []
        for diagnostics in self.seeds:
            is_left_out_N = ~diagnostics.applicable([*names, *among])
            values_N = [np.where(is_left_out_N, np.nan, diagnostics.values[name]) for name in names]
            values.append(compute(*(_means(of_name_N, self.block_N) for of_name_N in values_N)))
        values_SK = np.stack(values)
        seeds = [seed_term(values_SK[:, 0])] if len(self.seeds) > 1 else []
        return _estimate(values_SK, seeds, is_known=self.setting.has_seeds)

    def agreement(self, among: Sequence[str] = ()) -> Estimate:
        """Returns Kendall's tau between the attention of two seeds, mean over texts and pairs; NaN for one seed.

        Its error from the seeds is that of the jackknife, as the pairs of a seed are not independent; with two seeds
        it is unknown.
        Metrics `among` have to apply to a text, with both seeds, for it to count.
        """
        numbers = range(len(self.seeds))
        pairs = list(combinations(numbers, 2))
        if not pairs:
            return Estimate.of(np.nan, [UNKNOWN])
        values_PK = np.stack([_means(self._agreement(*pair, among), self.block_N) for pair in pairs])
        if len(pairs) == 1:
            return _estimate(values_PK, [], is_known=False)
        without_S = [values_PK[[seed not in pair for pair in pairs], 0].mean() for seed in numbers]
        return _estimate(values_PK, [jackknife(float(values_PK[:, 0].mean()), np.array(without_S))], is_known=True)

    def texts(self, among: Sequence[str]) -> int:
        """Returns the number of texts to which metrics apply, of the seed with the fewest."""
        return min(int(diagnostics.applicable(among).sum()) for diagnostics in self.seeds)

    def _agreement(self, first: int, second: int, among: Sequence[str]) -> Floats:
        """The agreement of two seeds on each text, (texts,)."""
        seeds = [self.seeds[first], self.seeds[second]]
        counts_N = np.ones(len(self.block_N), dtype=bool)
        if among:
            counts_N = seeds[0].applicable(among) & seeds[1].applicable(among)
        weights = zip(counts_N, seeds[0].weights, seeds[1].weights, strict=True)
        return np.array(
            [rank_correlation(*pair) if counts and all(map(is_ranking, pair)) else np.nan for counts, *pair in weights]
        )


def _means(values_N: Floats, block_N: Ints) -> Floats:
    """The means over all texts to which a metric applies, and over those outside each block; NaN over none."""
    applies_N = ~np.isnan(values_N)
    sums_K = np.bincount(block_N, weights=np.where(applies_N, values_N, 0))
    counts_K = np.bincount(block_N, weights=applies_N)
    sums, counts = (np.concatenate([[of_K.sum()], of_K.sum() - of_K]) for of_K in (sums_K, counts_K))
    means: Floats = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def _estimate(values_SK: Floats, seeds: Sequence[Term], *, is_known: bool) -> Estimate:
    """The mean over seeds, with its errors where they are known."""
    value, *without_K = values_SK.mean(axis=0)
    rows = jackknife(value, np.array(without_K))
    if not is_known or np.isnan(rows.variance):
        return Estimate.of(float(value), [UNKNOWN])
    return Estimate.of(float(value), [rows, *seeds])


def insights(settings: Sequence[Setting], split: str, size: int | None = ROWS) -> tuple[list[Insight], list[Fault]]:
    """Diagnoses the attentions of settings, each on the same sample of their rows.

    Args:
        settings: Settings with the same rows; those without a model of this package are left out.
        split: The split of the rows.
        size: Size of the sample; None for all rows.

    Returns:
        The diagnostics, and an error for each setting that is left out.

    Raises:
        RunError: If Captum or scikit-learn is missing.
    """
    if missing := [name for name in ("captum", "sklearn") if find_spec(name) is None]:
        message = f'insight= needs {missing[0]}: pip install "sentattn[insight]".'
        raise RunError(Fault("insight", "package", message))
    torch.set_flush_denormal(True)  # gradients over a long text end as denormal numbers, which are slow
    keep_freed_memory()
    result: list[Insight] = []
    faults: list[Fault] = []
    rows = settings[0].rows
    indices, group_N = sample(len(rows.labels_N), size), rows.group_N
    block_N = blocks(len(indices), None if group_N is None else np.unique(group_N[indices], return_inverse=True)[1])
    data = cache(lambda: settings[0].runs[0].read_data(split))  # only if some diagnostics are not stored
    with Progress() as progress:
        for setting in settings:
            if "attention" not in setting.settings["model"]:
                continue
            try:
                seeds = [_diagnose(run, data, indices, split, progress) for run in setting.runs]
            except UserError as error:
                faults += error.faults
                continue
            attentions = [Insight(setting, [of_run[over] for of_run in seeds], block_N, over) for over in seeds[0]]
            # Even weights are shown only where no attention of the setting ranks tokens.
            result += [insight for insight in attentions if insight.is_ranking] or attentions[-1:]
    return result, list(dict.fromkeys(faults))


def _diagnose(
    run: EvaluatedRun, data: Callable[[], TextData], indices: Ints, split: str, progress: Progress
) -> dict[Over, Diagnostics]:
    """Returns the diagnostics of a run's attentions, which are kept in its directory."""
    is_attended = (run.settings["model"].get("wide") or {}).get("attend") is True
    attentions: list[Over] = ["tokens", "ngrams"] if is_attended else ["tokens"]
    files = {over: run.path / FILES[over].format(split=split, rows=len(indices)) for over in attentions}
    stored = {over: diagnostics for over, file in files.items() if (diagnostics := Diagnostics.load(file)) is not None}
    if len(stored) == len(files) and all(len(kept.weights) == len(indices) for kept in stored.values()):
        return stored
    rows, classifier = data().split(split), LoadedRun(run.path, trust=run.run.trust).classifier
    encoded = classifier.tokenizer.encode([rows.texts(i) for i in indices])
    texts = Texts(encoded, rows.labels[indices], [rows.rationale(i) for i in indices])
    stage = f"insight of {run.path.parent.name}/{run.path.name}"
    measured = diagnose(
        classifier.model, texts, attentions, lambda step, done, total: progress(f"{stage}: {step}", done, total)
    )
    result = dict(zip(attentions, measured, strict=True))
    for over, diagnostics in result.items():
        with suppress(OSError):  # in a directory that may not be written they are computed again the next time
            diagnostics.save(files[over])
    return result
