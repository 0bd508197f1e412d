"""Metrics of a model's attention for each text, and their means over texts and seeds.

Faithfulness is how far a prediction changes without the tokens that a ranking puts first, or with them alone (DeYoung
et al. 2020, ERASER, section 4.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sentattn.data.tokenizer import Encoded, Span
from sentattn.insight.gradients import Attribution, attributions
from sentattn.insight.metrics import is_ranking, plausibility, shape, ties
from sentattn.insight.weights import SEED, Ids, Over, Reading, distance, probabilities, read
from sentattn.metrics import Floats, Ints
from sentattn.models.classifier import TextClassifier

FORMAT = "5"
"""Of a stored file; it changes with the definition of a metric."""
WEIGHTS = "weights"
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the tokens that count as first, at least one token
DRAWS = 10  # random rankings of a text
REMOVALS, KINDS = ("deleted", "replaced"), ("comprehensiveness", "sufficiency")
OF_RANKINGS = (
    "tau_integrated", "tau_input_x_gradient",
    "correct_uniform", "correct_permuted", "tvd_uniform", "tvd_permuted", "jsd_adversarial",
)  # fmt: skip
"""Metrics that do not apply to weights that rank no token, or to an attention whose weights cannot be replaced."""


@dataclass(frozen=True)
class Texts:
    """Texts of at least one token, their classes, and the character spans that decide these, where they are known."""

    encoded: Sequence[Encoded]
    labels_N: Ints
    rationales: Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Diagnostics:
    """Metrics of an attention by name, (N texts,), NaN where they do not apply; its weights, means over the hops.

    The weights are those of the tokens that are ranked: special tokens of a subword tokenizer are left out.
    """

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
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> list[Diagnostics]:
    """Returns the metrics of each of a model's attentions on texts.

    Those of `shape` and `plausibility`; the probability `p` of the predicted class y, `p_unknown` with `<unk>` at all
    tokens, and those of `summary` for the rankings by attention, by attention times gradient, by gradients and at
    random; Kendall's tau between attention and the magnitude of gradients, and between two kinds of gradients; 1 or 0
    for a correct prediction, and the total variation distance from the model's own probabilities, with other weights;
    and the divergence of `weights.adversary`. Special tokens of a subword tokenizer, whose spans are empty, are in no
    ranking and are never removed; only `shape` and other weights count them.

    Args:
        model: The model, in evaluation mode.
        texts: The texts.
        attentions: Which attentions; `ngrams` for one that weighs the n-grams of a wide part, as `weights.token_rows`.
        progress: Called with a stage, and the numbers of finished and of all texts.
    """
    ids = [encoded.ids for encoded in texts.encoded]
    ranked = [np.flatnonzero([start < end for start, end in encoded.spans]) for encoded in texts.encoded]

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
    shared = {"p": probabilities_NC.max(axis=1), "p_unknown": unknown_probability(model, ids, classes_N, ranked)}
    gradients = attributions(model, ids, classes_N, advance=report("gradients"))
    removals = _removals(model, ids, classes_N, ranked, readings.values(), gradients, report("removing tokens"))
    result = []
    for of_attention, removed in zip(readings.values(), removals, strict=True):
        of_texts = zip(of_attention, gradients, ranked, texts.encoded, texts.labels_N, texts.rationales, strict=True)
        rows = [_of_text(*of_text) for of_text in of_texts]
        values = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        weights = [
            reading.weights_RL[:, tokens_K].mean(axis=0) for reading, tokens_K in zip(of_attention, ranked, strict=True)
        ]
        result.append(Diagnostics(values | removed | shared, weights))
    return result


def _of_text(
    reading: Reading, gradient: Attribution, tokens_K: Ints, encoded: Encoded, label: int, rationale: Sequence[Span]
) -> dict[str, float]:
    """The metrics of a text but those of removals; `tokens_K` are the tokens that are ranked."""
    weights_RK, own_C = reading.weights_RL[:, tokens_K], reading.probabilities_C
    weights_K, spans = weights_RK.mean(axis=0), [encoded.spans[token] for token in tokens_K]
    integrated_K, product_K = np.abs(gradient.integrated_L[tokens_K]), np.abs(gradient.input_x_gradient_L[tokens_K])
    metrics = shape(reading.weights_RL, encoded.tokens) | plausibility(weights_RK, spans, rationale)
    metrics |= dict.fromkeys(OF_RANKINGS, np.nan)
    metrics |= {
        "correct": float(own_C.argmax() == label),
        "tau_gradients": rank_correlation(integrated_K, product_K),
        "integral_error": abs(gradient.error),
        "logit_change": abs(gradient.change),
    }
    if is_ranking(weights_K):
        metrics["tau_integrated"] = rank_correlation(weights_K, integrated_K)
        metrics["tau_input_x_gradient"] = rank_correlation(weights_K, product_K)
    if is_ranking(reading.weights_RL.ravel()) and not np.isnan(reading.uniform_C).any():
        metrics |= {
            "correct_uniform": float(reading.uniform_C.argmax() == label),
            "correct_permuted": float((reading.permuted_PC.argmax(axis=1) == label).mean()),
            "tvd_uniform": float(distance(reading.uniform_C, own_C)),
            "tvd_permuted": float(np.median(distance(reading.permuted_PC, own_C))),
            "jsd_adversarial": reading.divergence,
        }
    return metrics


def _removals(
    model: TextClassifier,
    ids: Sequence[Ids],
    classes_N: Ints,
    ranked: Sequence[Ints],
    attentions: Collection[Sequence[Reading]],
    gradients: Sequence[Attribution],
    advance: Callable[[int], None],
) -> list[dict[str, Floats]]:
    """The metrics of `summary` for each attention, with those of gradients and random rankings."""
    orders, ranks = [], []
    for i, (tokens_K, gradient, *readings) in enumerate(zip(ranked, gradients, *attentions, strict=True)):
        random = np.random.default_rng([SEED, i])
        integrated_K = gradient.integrated_L[tokens_K]
        scores = [gradient.input_x_gradient_L[tokens_K], integrated_K, np.abs(integrated_K)]
        is_ranked = [not ties(scores_K) for scores_K in scores]
        for reading in readings:
            weights_K, product_K = reading.weights_RL[:, tokens_K].mean(axis=0), reading.product_L[tokens_K]
            scores += [weights_K, product_K]
            is_ranked += [is_ranking(weights_K), not (np.isnan(product_K).any() or ties(product_K))]
        ranks.append(is_ranked)
        scores += [*np.zeros((DRAWS, len(tokens_K)))]
        orders.append([tokens_K[order(scores_K, random)] for scores_K in scores])
    falls = drops(model, ids, classes_N, orders, advance=advance)
    falls[:, : len(ranks[0])][~np.array(ranks)] = np.nan
    shared = {"input_x_gradient": [0], "integrated": [1], "integrated_magnitude": [2]}
    shared["random"] = [*range(len(ranks[0]), falls.shape[1])]
    return [
        summary(falls, {"attention": [place], "attention_x_gradient": [place + 1]} | shared)
        for place in range(3, len(ranks[0]), 2)
    ]


def order(scores_L: Floats, random: np.random.Generator) -> Ints:
    """Returns the tokens' indices by descending score; tokens that tie are in random order, not in that of the text."""
    order_L: Ints = np.lexsort((random.random(len(scores_L)), -scores_L)).astype(np.int64)
    return order_L


def rank_correlation(first_L: Floats, second_L: Floats) -> float:
    """Returns Kendall's tau-b of two scores of the same tokens; NaN where one of them ranks nothing."""
    from scipy.stats import kendalltau

    return float(kendalltau(first_L, second_L).statistic) if np.ptp(first_L) and np.ptp(second_L) else np.nan


def drops(
    model: TextClassifier,
    texts: Sequence[Ids],
    classes_N: Ints,
    orders: Sequence[Sequence[Ints]],
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> Floats:
    """Returns by how much the probability of a class falls, (texts, Q rankings, 2 removals, 2 kinds, shares).

    With the first ceil(k n) tokens of a ranking: comprehensiveness(k) = p(y | x) - p(y | x without them),
    sufficiency(k) = p(y | x) - p(y | only them). Removed tokens are `deleted`, so that the text gets shorter, or
    `replaced` by `<unk>`. NaN for a text of one token, of which nothing would be left. `orders` has for each text Q
    rankings, which are the indices of its tokens, the first ones first; tokens in no ranking are never removed, and n
    does not count them.
    """
    rankings = len(orders[0])
    result = np.full((len(texts), rankings, len(REMOVALS), len(KINDS), len(SHARES)), np.nan)
    for i, ids in enumerate(texts):
        if (length := len(orders[i][0])) > 1:
            # 0.2 * 15 is a little more than 3; shares of a short text are often the same number.
            of_shares = [max(1, math.ceil(round(share * length, 9))) for share in SHARES]
            counts = sorted(set(of_shares))
            variants = _variants(ids, orders[i], counts, model.embedding.blank_id)
            whole, *others = probabilities(model, [ids, *variants])[:, classes_N[i]]
            by_count = whole - np.reshape(others, (rankings, len(counts), len(REMOVALS), len(KINDS)))
            of_share = list(map(counts.index, of_shares))
            result[i] = np.moveaxis(by_count[:, of_share], 1, -1)
        advance(1)
    return result


def unknown_probability(model: TextClassifier, texts: Sequence[Ids], classes_N: Ints, ranked: Sequence[Ints]) -> Floats:
    """Returns the probability of each text's class when all its tokens that are ranked are `<unk>`, (texts,)."""
    unknown = [ids.copy() for ids in texts]
    for ids, tokens_K in zip(unknown, ranked, strict=True):
        ids[tokens_K] = model.embedding.blank_id
    of_class_N: Floats = probabilities(model, unknown)[np.arange(len(texts)), classes_N]
    return of_class_N


def summary(drops_NQRKS: Floats, rankings: Mapping[str, Sequence[int]]) -> dict[str, Floats]:
    """Returns metrics of each text, (N,), by name: at each share, and their mean, which is called as they are.

    The name is `kind_removal_ranking`, and that of a share ends in its percent, as `sufficiency_deleted_random_20`. The
    mean is over the five shares; DeYoung et al. (2020, equation 3) divide the same sum by one more than their number.
    Of the rankings that have a name in `rankings`, by their numbers, the mean is taken.
    """
    metrics: dict[str, Floats] = {}
    for ranking, numbers in rankings.items():
        for r, removal in enumerate(REMOVALS):
            for k, kind in enumerate(KINDS):
                values_NS = drops_NQRKS[:, list(numbers), r, k].mean(axis=1)
                name = f"{kind}_{removal}_{ranking}"
                metrics[name] = values_NS.mean(axis=1)
                metrics |= {f"{name}_{percent(share)}": values_NS[:, s] for s, share in enumerate(SHARES)}
    return metrics


def percent(share: float) -> int:
    """Returns a share in percent, which are whole numbers."""
    return round(100 * share)


def _variants(ids: Ids, orders: Sequence[Ints], counts: Sequence[int], blank_id: int) -> Iterator[Ids]:
    """Yields for each ranking, number of first tokens and removal: the text without them, and without the others."""
    for order_K in orders:
        for count in counts:
            sides = order_K[:count], order_K[count:]
            yield from (np.delete(ids, removed_K) for removed_K in sides)
            for removed_K in sides:
                replaced_L = ids.copy()
                replaced_L[removed_K] = blank_id
                yield replaced_L
