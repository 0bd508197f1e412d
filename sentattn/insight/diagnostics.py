"""What a model's attention does over many texts: figures for each text, and their means over texts and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sentattn.data.text import Encoded, Span
from sentattn.insight.faithfulness import DRAWS, drops, order, rank_correlation, summary, unknown_probability
from sentattn.insight.forward import Ids, Ints, Reading, read
from sentattn.insight.gradients import Attribution, attributions
from sentattn.insight.plausibility import plausibility
from sentattn.insight.shape import Floats, is_ranking, shape
from sentattn.models.classifier import TextClassifier

Progress: TypeAlias = Callable[[str, int, int], None]

SEED = 0
"""Of the sample of texts and of everything that is drawn."""
FORMAT = "4"
"""Of a stored file; it changes with the definition of a figure."""
WEIGHTS = "weights"


@dataclass(frozen=True)
class Texts:
    """Labelled texts as a model reads them.

    Attributes:
        encoded: The texts' tokens, at least one each.
        labels_N: The true classes.
        rationales: For each text the character spans that decide its label; empty where they are unknown.
    """

    encoded: Sequence[Encoded]
    labels_N: Ints
    rationales: Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Diagnostics:
    """The figures of one model.

    Attributes:
        figures: A value for each text, (N,), by name; NaN where a figure is not applicable.
        weights: The attention to each text's tokens, mean over the hops.
    """

    figures: Mapping[str, Floats]
    weights: Sequence[Floats]

    def mean(self, name: str) -> float:
        """Returns the mean over the texts to which a figure applies; NaN where there are none."""
        values_N = self.figures[name]
        values_N = values_N[~np.isnan(values_N)]
        return float(values_N.mean()) if len(values_N) else np.nan

    def save(self, path: Path) -> None:
        """Writes a Parquet file: a column for each figure, and one of lists with the weights."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from sentattn.run import replacing

        weights = pa.array([row.astype(np.float32) for row in self.weights], pa.list_(pa.float32()))
        table = pa.table({**self.figures, WEIGHTS: weights}).replace_schema_metadata({"format": FORMAT})
        with replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> Diagnostics | None:
        """Reads what `save` wrote; None where there is none, or one of another format."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException):
            return None
        if (table.schema.metadata or {}).get(b"format") != FORMAT.encode():
            return None
        weights = [np.asarray(row, dtype=np.float64) for row in table[WEIGHTS].to_pylist()]
        figures = {name: table[name].to_numpy() for name in table.column_names if name != WEIGHTS}
        return cls(figures, weights)


def sample(count: int, rows: int | None) -> Ints:
    """Returns the indices of a sample, ascending, the same for all models; all where `rows` is None or not fewer."""
    if rows is None or rows >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, rows, replace=False))


def diagnose(model: TextClassifier, texts: Texts, progress: Progress = lambda stage, done, total: None) -> Diagnostics:
    """Returns the figures of a model on texts.

    Those of `shape` and `plausibility`; the probability `p` of the predicted class y, `p_unknown` with `<unk>` at all
    tokens, and those of `faithfulness.summary` for the rankings by attention, by gradients and at random; Kendall's tau
    between attention and the magnitude of gradients, and between two kinds of gradients; 1 or 0 for a correct
    prediction, with the model's own weights and with others.

    Args:
        model: The model, in evaluation mode.
        texts: The texts.
        progress: Called with the progress of the work.
    """
    ids = [one.ids for one in texts.encoded]
    done = Counter(progress, len(ids))
    readings = read(model, ids, seed=SEED)
    rows = [
        shape(one.weights_RL, encoded.tokens) | plausibility(one.weights_RL, encoded.spans, rationale)
        for one, encoded, rationale in zip(readings, texts.encoded, texts.rationales, strict=True)
    ]
    figures = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    figures |= _correct(readings, texts.labels_N)
    weights = [one.weights_RL.mean(axis=0) for one in readings]
    classes_N = np.array([one.probabilities_C.argmax() for one in readings])
    gradients = attributions(model, ids, classes_N, advance=done.of("gradients"))
    figures |= _correlations(weights, gradients)
    figures |= _faithfulness(model, ids, classes_N, weights, gradients, done.of("removing tokens"))
    figures["p"] = np.array([one.probabilities_C.max() for one in readings])
    figures["p_unknown"] = unknown_probability(model, ids, classes_N)
    return Diagnostics(figures, weights)


class Counter:
    """Adds up how much of each stage is done."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def of(self, stage: str) -> Callable[[int], None]:
        """Returns what a stage calls with the number of texts that it has done."""
        self._done = 0

        def advance(count: int) -> None:
            self._done += count
            self._progress(stage, self._done, self._total)

        return advance


def _correct(readings: Sequence[Reading], labels_N: Ints) -> dict[str, Floats]:
    """Whether predictions are correct: with own, uniform and permuted weights; NaN where these are the same anyway."""
    result_N3 = np.full((len(readings), 3), np.nan)
    for i, (one, label) in enumerate(zip(readings, labels_N, strict=True)):
        result_N3[i, 0] = one.probabilities_C.argmax() == label
        if one.uniform_C is not None and one.permuted_PC is not None and is_ranking(one.weights_RL.ravel()):
            result_N3[i, 1:] = one.uniform_C.argmax() == label, (one.permuted_PC.argmax(axis=1) == label).mean()
    return dict(zip(("correct", "correct_uniform", "correct_permuted"), result_N3.T, strict=True))


def _correlations(weights: Sequence[Floats], gradients: Sequence[Attribution]) -> dict[str, Floats]:
    rows = []
    for weights_L, one in zip(weights, gradients, strict=True):
        integrated_L, product_L = np.abs(one.integrated_L), np.abs(one.input_x_gradient_L)
        pairs = (integrated_L, product_L) if is_ranking(weights_L) else ()
        of_attention = [rank_correlation(weights_L, other_L) for other_L in pairs] or [np.nan, np.nan]
        rows.append([*of_attention, rank_correlation(integrated_L, product_L), abs(one.error), abs(one.change)])
    names = ("tau_integrated", "tau_input_x_gradient", "tau_gradients", "integral_error", "logit_change")
    return dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))


def _faithfulness(
    model: TextClassifier,
    ids: Sequence[Ids],
    classes_N: Ints,
    weights: Sequence[Floats],
    gradients: Sequence[Attribution],
    advance: Callable[[int], None],
) -> dict[str, Floats]:
    orders = []
    for i, (weights_L, one) in enumerate(zip(weights, gradients, strict=True)):
        random = np.random.default_rng([SEED, i])
        scores = (weights_L, one.integrated_L, one.input_x_gradient_L, *np.zeros((DRAWS, len(weights_L))))
        orders.append([order(scores_L, random) for scores_L in scores])
    falls = drops(model, ids, classes_N, orders, advance=advance)
    falls[[not is_ranking(weights_L) for weights_L in weights], 0] = np.nan
    numbers = {"attention": [0], "integrated": [1], "input_x_gradient": [2], "random": range(3, 3 + DRAWS)}
    return summary(falls, {name: np.array(places) for name, places in numbers.items()})
