"""Metrics of a model's attention for each text, and their means over texts and seeds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.data.tokenizer import Encoded, Span
from sentattn.insight.faithfulness import DRAWS, drops, order, rank_correlation, summary, unknown_probability
from sentattn.insight.gradients import Attribution, attributions
from sentattn.insight.metrics import Floats, is_ranking, plausibility, shape, ties
from sentattn.insight.weights import SEED, Ids, Ints, Over, Reading, distance, read
from sentattn.models.classifier import TextClassifier

Progress: TypeAlias = Callable[[str, int, int], None]

FORMAT = "4"
"""Of a stored file; it changes with the definition of a metric."""
WEIGHTS = "weights"


@dataclass(frozen=True)
class Texts:
    """Texts of at least one token, their classes, and the character spans that decide these, where they are known."""

    encoded: Sequence[Encoded]
    labels_N: Ints
    rationales: Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Diagnostics:
    """Metrics of an attention by name, (N texts,), NaN where they do not apply, and its weights, mean over the hops."""

    values: Mapping[str, Floats]
    weights: Sequence[Floats]

    def applicable(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Returns the texts to which all these metrics apply, except metrics that apply to no text, (N,)."""
        applies = [~np.isnan(self.values[name]) for name in names]
        all_apply: NDArray[np.bool_] = np.logical_and.reduce([is_N for is_N in applies if is_N.any()] or applies)
        return all_apply

    def means(self, names: Sequence[str], among: Iterable[str] = ()) -> list[float]:
        """Returns means over the texts to which all of these metrics, and those of `among`, apply; NaN over no text."""
        counts_N = self.applicable([*names, *among])
        return [float(self.values[name][counts_N].mean()) if counts_N.any() else np.nan for name in names]

    def save(self, path: Path) -> None:
        """Writes a Parquet file: a column for each metric, and a column of lists with the weights."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from sentattn.run import replacing

        weights = pa.array([row.astype(np.float32) for row in self.weights], pa.list_(pa.float32()))
        table = pa.table({**self.values, WEIGHTS: weights}).replace_schema_metadata({"format": FORMAT})
        with replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> Diagnostics | None:
        """Reads what `save` wrote; None where the file is missing or of another format."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException):
            return None
        if (table.schema.metadata or {}).get(b"format") != FORMAT.encode():
            return None
        weights = [np.asarray(row, dtype=np.float64) for row in table[WEIGHTS].to_pylist()]
        values = {name: table[name].to_numpy() for name in table.column_names if name != WEIGHTS}
        return cls(values, weights)


def sample(count: int, rows: int | None) -> Ints:
    """Returns the indices of a sample, ascending, the same for all models; all where `rows` is None or not fewer."""
    if rows is None or rows >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, rows, replace=False))


def diagnose(
    model: TextClassifier,
    texts: Texts,
    attentions: Sequence[Over] = ("tokens",),
    progress: Progress = lambda stage, done, total: None,
) -> list[Diagnostics]:
    """Returns the metrics of each of a model's attentions on texts.

    Those of `shape` and `plausibility`; the probability `p` of the predicted class y, `p_unknown` with `<unk>` at all
    tokens, and those of `faithfulness.summary` for the rankings by attention, by attention times gradient, by gradients
    and at random; Kendall's tau between attention and the magnitude of gradients, and between two kinds of gradients; 1
    or 0 for a correct prediction, and the total variation distance from the model's own probabilities, with other
    weights; and the divergence of `weights.adversary`.

    Args:
        model: The model, in evaluation mode.
        texts: The texts.
        attentions: Which attentions; `ngrams` for one that weighs the n-grams of a wide part, as `weights.token_rows`.
        progress: Called with a stage, and the numbers of finished and of all texts.
    """
    ids = [encoded.ids for encoded in texts.encoded]

    def report(stage: str) -> Callable[[int], None]:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            progress(stage, done, len(ids))

        return advance

    readings = {over: read(model, ids, over, advance=report("other weights")) for over in attentions}
    probabilities_NC = np.stack([reading.probabilities_C for reading in readings[attentions[0]]])
    classes_N = probabilities_NC.argmax(axis=1)
    shared = {"p": probabilities_NC.max(axis=1), "p_unknown": unknown_probability(model, ids, classes_N)}
    gradients = attributions(model, ids, classes_N, advance=report("gradients"))
    removals = _removals(model, ids, classes_N, readings.values(), gradients, report("removing tokens"))
    return [
        Diagnostics(
            _shapes(of_attention, texts)
            | _others(of_attention, texts.labels_N)
            | _correlations(of_attention, gradients)
            | removed
            | shared,
            [reading.weights_RL.mean(axis=0) for reading in of_attention],
        )
        for of_attention, removed in zip(readings.values(), removals, strict=True)
    ]


def _shapes(readings: Sequence[Reading], texts: Texts) -> dict[str, Floats]:
    rows = [
        shape(reading.weights_RL, encoded.tokens) | plausibility(reading.weights_RL, encoded.spans, rationale)
        for reading, encoded, rationale in zip(readings, texts.encoded, texts.rationales, strict=True)
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _others(readings: Sequence[Reading], labels_N: Ints) -> dict[str, Floats]:
    """Predictions with the model's, even, permuted and adversarial weights; NaN where these are equal by definition."""
    names = ("correct", "correct_uniform", "correct_permuted", "tvd_uniform", "tvd_permuted", "jsd_adversarial")
    result = np.full((len(readings), len(names)), np.nan)
    for i, (reading, label) in enumerate(zip(readings, labels_N, strict=True)):
        probabilities_C = reading.probabilities_C
        result[i, 0] = probabilities_C.argmax() == label
        if is_ranking(reading.weights_RL.ravel()) and not np.isnan(reading.uniform_C).any():
            result[i, 1:] = (
                reading.uniform_C.argmax() == label,
                (reading.permuted_PC.argmax(axis=1) == label).mean(),
                distance(reading.uniform_C, probabilities_C),
                np.median(distance(reading.permuted_PC, probabilities_C)),
                reading.divergence,
            )
    return dict(zip(names, result.T, strict=True))


def _correlations(readings: Sequence[Reading], gradients: Sequence[Attribution]) -> dict[str, Floats]:
    names = ("tau_integrated", "tau_input_x_gradient", "tau_gradients", "integral_error", "logit_change")
    result = np.full((len(readings), len(names)), np.nan)
    for i, (reading, gradient) in enumerate(zip(readings, gradients, strict=True)):
        weights_L = reading.weights_RL.mean(axis=0)
        integrated_L, product_L = np.abs(gradient.integrated_L), np.abs(gradient.input_x_gradient_L)
        if is_ranking(weights_L):
            result[i, :2] = [rank_correlation(weights_L, other_L) for other_L in (integrated_L, product_L)]
        result[i, 2:] = rank_correlation(integrated_L, product_L), abs(gradient.error), abs(gradient.change)
    return dict(zip(names, result.T, strict=True))


def _removals(
    model: TextClassifier,
    ids: Sequence[Ids],
    classes_N: Ints,
    attentions: Collection[Sequence[Reading]],
    gradients: Sequence[Attribution],
    advance: Callable[[int], None],
) -> list[dict[str, Floats]]:
    """The metrics of `faithfulness.summary` for each attention, with those of gradients and random rankings."""
    orders, ranks = [], []
    for i, (gradient, *readings) in enumerate(zip(gradients, *attentions, strict=True)):
        random = np.random.default_rng([SEED, i])
        scores = [gradient.input_x_gradient_L, gradient.integrated_L, np.abs(gradient.integrated_L)]
        is_ranked = [not ties(scores_L) for scores_L in scores]
        for reading in readings:
            weights_L = reading.weights_RL.mean(axis=0)
            scores += [weights_L, reading.product_L]
            is_ranked += [is_ranking(weights_L), not (np.isnan(reading.product_L).any() or ties(reading.product_L))]
        ranks.append(is_ranked)
        orders.append([order(scores_L, random) for scores_L in (*scores, *np.zeros((DRAWS, len(ids[i]))))])
    falls = drops(model, ids, classes_N, orders, advance=advance)
    falls[:, : len(ranks[0])][~np.array(ranks)] = np.nan
    shared = {"input_x_gradient": [0], "integrated": [1], "integrated_magnitude": [2]}
    shared["random"] = [*range(len(ranks[0]), falls.shape[1])]
    return [
        summary(falls, {"attention": [place], "attention_x_gradient": [place + 1]} | shared)
        for place in range(3, len(ranks[0]), 2)
    ]
