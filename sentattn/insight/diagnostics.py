"""Is a model's attention faithful, stable and plausible? Measures of each text, NaN where they do not apply.

Faithfulness is how far the probability of the predicted class falls without the tokens that a ranking puts first, or
with them alone (DeYoung et al. 2020, ERASER, section 4.3), and how often the prediction is correct with other weights
than the attention's own (Jain and Wallace 2019, sections 4.2 and 4.3; Adebayo et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from sentattn.data.batching import pad
from sentattn.data.tokenizer import Encoded, Span
from sentattn.metrics import Floats, Ints
from sentattn.models.classifier import Classified, TextClassifier
from sentattn.models.wide import WideAndDeep
from sentattn.prediction.prediction import ties

Ids: TypeAlias = NDArray[np.integer]
FORMAT = "7"
"""Of a stored file; it changes with the definition of a measure."""
WEIGHTS = "weights"
TOKENS = 4096
"""Most tokens of a batch, padding included; four times as many take twice the time on a CPU."""
SEED = 0
"""Of everything that is drawn; the numbers for a text depend on its position only."""
DRAWS = 10
"""Random rankings and permutations of a text, and random attentions."""
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the tokens that count as first, at least one token."""
WEIGHTS_EXACT = 1e-4
"""Relative to the largest value: how far `weights @ states` may be from the values that an attention returns."""
GRADIENT_STEPS, MOST_GRADIENT_STEPS = 20, 160
"""Fewest points of the integral of gradients; they are doubled up to the most until it is complete enough."""
COMPLETE = 0.05
"""Relative to the change of the logit: the error of the integral at which it is complete enough."""


@dataclass(frozen=True)
class Diagnostics:
    """Measures of an attention by name, (N texts,), NaN where they do not apply; its weights, means over the hops.

    The weights are those of the tokens that are ranked: special tokens of a subword tokenizer are left out.
    """

    values: Mapping[str, Floats]
    weights: Sequence[Floats]

    def save(self, path: Path) -> None:
        """Writes a Parquet file: a column for each measure, and a column of lists with the weights."""
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
        values = {name: table[name].to_numpy() for name in table.column_names if name != WEIGHTS}
        return cls(values, [np.asarray(row, dtype=np.float64) for row in table[WEIGHTS].to_pylist()])


def sample(count: int, rows: int | None) -> Ints:
    """Returns the indices of a sample, ascending, the same for all models; all where `rows` is None or not fewer."""
    if rows is None or rows >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, rows, replace=False))


def diagnose(
    model: TextClassifier,
    texts: Sequence[Encoded],
    labels_N: Ints,
    rationales: Sequence[Sequence[Span]],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Diagnostics:
    """Returns the measures of a model in evaluation mode.

    The attention is that over states; of one over n-grams nothing is measured. Special tokens of a subword tokenizer,
    whose spans are empty, are in no ranking and are never removed.

    The measures: `tokens`, exp(H) of the weights' entropy H, mean over hops; `hop_overlap`; `comprehensiveness` and
    `sufficiency` of `removals`, ranked by attention, by the magnitude of integrated gradients and at random; 1 or 0
    for a correct prediction (`correct`), and its mean with other weights (`correct_even`, `correct_permuted`,
    `correct_random`); and those of `plausibility`.

    Args:
        model: The model.
        texts: Texts of at least one token.
        labels_N: Their classes.
        rationales: The character spans of each that decide its class, where they are known.
        progress: Is called with the number of texts that are done, and of all.
    """
    from scipy.special import entr

    rows, weights = [], []
    random_NP = random_predictions(model, [encoded.ids for encoded in texts])
    for i, (encoded, label, rationale) in enumerate(zip(texts, labels_N, rationales, strict=True)):
        random = np.random.default_rng([SEED, i])
        ranked_K = np.flatnonzero([start < end for start, end in encoded.spans])
        reading = read(model, encoded.ids, random)
        predicted, weights_K = int(reading.own_C.argmax()), reading.weights_RL[:, ranked_K].mean(axis=0)
        gradients_K = np.abs(integrated_gradients(model, encoded.ids, predicted).of_tokens_L[ranked_K])
        rankings = {
            "attention": weights_K if ranks(weights_K) else None,
            "gradients": None if ties(gradients_K) else gradients_K,
        }
        others = {"even": reading.even_1C, "permuted": reading.permuted_PC}
        classes = {
            name: np.where(np.isnan(p_PC).any(axis=1), np.nan, p_PC.argmax(axis=1)) for name, p_PC in others.items()
        }
        classes["random"] = random_NP[i]
        is_ranking = ranks(reading.weights_RL.ravel())
        rows.append(
            {
                "tokens": float(np.exp(entr(reading.weights_RL).sum(axis=1)).mean()),
                "hop_overlap": overlap(reading.weights_RL),
                **removals(model, encoded.ids, predicted, ranked_K, rankings, random),
                "correct": float(predicted == label),
                **{
                    f"correct_{name}": float((classes_P == label).mean())
                    if is_ranking and not np.isnan(classes_P).any()
                    else np.nan
                    for name, classes_P in classes.items()
                },
                **plausibility(weights_K, [encoded.spans[token] for token in ranked_K], rationale),
            }
        )
        weights.append(weights_K)
        progress(i + 1, len(texts))
    return Diagnostics({name: np.array([row[name] for row in rows]) for name in rows[0]}, weights)


def ranks(weights_L: Floats) -> bool:
    """Whether weights rank tokens: False where all tokens that have a weight tie, as those of `uniform` and `last`."""
    return not ties(weights_L[weights_L > 0])


def batches(lengths_N: Ints) -> Iterator[Ints]:
    """Yields the indices of texts of similar length, as many as have at most `TOKENS` with padding."""
    order = np.argsort(lengths_N, kind="stable")
    while len(order):
        count = max(1, int((lengths_N[order] * np.arange(1, len(order) + 1) <= TOKENS).sum()))
        yield order[:count]
        order = order[count:]


def _padded(model: TextClassifier, texts: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    device = next(model.parameters()).device
    tokens_BL, mask_BL = pad(texts)
    return tokens_BL.to(device), mask_BL.to(device)


def _softmax(logits_BC: Tensor) -> Floats:
    probabilities_BC: Floats = logits_BC.double().softmax(dim=-1).cpu().numpy()
    return probabilities_BC


@torch.inference_mode()
def probabilities(
    model: TextClassifier, texts: Sequence[Ids], parameters: Mapping[str, Tensor] | None = None
) -> Floats:
    """Returns the probability of each class, (texts, C), with some parameters replaced; texts have a token or more."""
    result: dict[int, Floats] = {}
    for indices in batches(np.array([len(ids) for ids in texts], dtype=np.int64)):
        batch = _padded(model, [texts[i] for i in indices])
        logits_BC = functional_call(model, dict(parameters or {}), batch).logits_BC
        result |= dict(zip(indices.tolist(), _softmax(logits_BC), strict=True))
    return np.stack([result[i] for i in range(len(texts))])


class Reading(NamedTuple):
    """A text's weights, which sum to 1 in each row, and the probabilities with them, with even and with permuted ones.

    The last two are NaN where the values of an attention are not weights @ states.
    """

    weights_RL: Floats
    own_C: Floats
    even_1C: Floats
    permuted_PC: Floats


@torch.inference_mode()
def read(model: TextClassifier, ids: Ids, random: np.random.Generator) -> Reading:
    """Returns how a model reads a text."""
    classified: Classified = model(*_padded(model, [ids]))
    own_C, weights_RL = _softmax(classified.logits_BC)[0], _numpy(_weights(classified)[0])
    even_RL = np.full_like(weights_RL, 1 / len(ids))
    permuted = [weights_RL[:, np.argsort(random.random(len(ids)))] for _ in range(DRAWS)]  # alike for all rows
    others_PRL = torch.from_numpy(np.stack([even_RL, *permuted])).to(classified.states_BLD)
    logits_PC = _logits_with(model, classified, others_PRL)
    others_PC = np.full((DRAWS + 1, len(own_C)), np.nan) if logits_PC is None else _softmax(logits_PC)
    return Reading(weights_RL, own_C, others_PC[:1], others_PC[1:])


def _weights(classified: Classified) -> Tensor:
    return classified.attended.weights_BRL.to(classified.states_BLD.dtype)


def _logits_with(model: TextClassifier, classified: Classified, weights_PRL: Tensor) -> Tensor | None:
    """Returns the logits with each of P other weights, (P, C); None if an attention's values are not weights @ states.

    What a wide part adds stays.
    """
    _, attended, states_1LD, wide = classified
    sums_1RD, values_1RD = _weights(classified) @ states_1LD, attended.values_BRD
    is_sum = sums_1RD.shape == values_1RD.shape and bool(
        (sums_1RD - values_1RD).abs().max() <= WEIGHTS_EXACT * values_1RD.abs().max()
    )
    if not is_sum:
        return None
    other = classified._replace(logits_BC=model.classify(weights_PRL @ states_1LD))
    if wide is not None and isinstance(model, WideAndDeep):
        other = model.add(other, wide.terms)
    return other.logits_BC


def _numpy(tensor: Tensor) -> Floats:
    values: Floats = tensor.detach().double().cpu().numpy()
    return values


def random_predictions(model: TextClassifier, texts: Sequence[Ids]) -> Floats:
    """Returns the class of each text with `DRAWS` random attentions, (texts, draws); NaN for one without parameters.

    The values of each parameter that scores are shuffled (model parameter randomization, Adebayo et al. 2018), so that
    weights still depend on the states and are about as sharp, and what scoring has learned is gone. All else stays.
    """
    scoring = {id(parameter) for parameter in model.attention.scoring_parameters()}
    named = {name: parameter for name, parameter in model.named_parameters() if id(parameter) in scoring}
    if not named:
        return np.full((len(texts), DRAWS), np.nan)
    random = np.random.default_rng(SEED)
    draws = [{name: _shuffled(parameter, random) for name, parameter in named.items()} for _ in range(DRAWS)]
    return np.stack([probabilities(model, texts, of_draw).argmax(axis=1) for of_draw in draws], axis=1).astype(
        np.float64
    )


def _shuffled(parameter: Tensor, random: np.random.Generator) -> Tensor:
    order = torch.from_numpy(random.permutation(parameter.numel())).to(parameter.device)
    return parameter.detach().flatten()[order].view_as(parameter)


class Attribution(NamedTuple):
    """How much each token of a text adds to the logit of a class: integrated gradients from `<unk>` at all tokens.

    Their sum less `change`, the logit of the text less that of the baseline, is `error`, 0 for an exact integral.
    """

    of_tokens_L: Floats
    change: float
    error: float


def integrated_gradients(
    model: TextClassifier, ids: Ids, label: int, *, most_steps: int = MOST_GRADIENT_STEPS
) -> Attribution:
    """Returns the attribution of a text to the logit of a class (Sundararajan et al. 2017), by Captum.

    An n-gram of a wide part is a feature that is 1 in the text and 0 in the baseline, whose `<unk>` form no n-gram; its
    attribution is spread evenly over its tokens at its first occurrence. So the attributions of tokens add up to the
    change of the logit, where the integral is exact. `GRADIENT_STEPS` points are doubled up to `most_steps`, while the
    error exceeds `COMPLETE` times the change.
    """
    from captum.attr import IntegratedGradients

    tokens_1L, mask_1L = _padded(model, [ids])
    with torch.no_grad():
        words_1LI = model.embedding.inputs(tokens_1L, mask_1L)
        unknown_1LI = model.embedding.inputs(tokens_1L.masked_fill(mask_1L, model.embedding.blank_id), mask_1L)
        inputs: tuple[Tensor, ...] = (words_1LI,)
        baselines: tuple[Tensor, ...] = (unknown_1LI,)
        effects_1OLC = mask_1L  # of no n-grams
        if isinstance(model, WideAndDeep):
            states_1LD = model.encoder(model.embedding.contextual(words_1LI, tokens_1L, mask_1L), mask_1L)
            terms, attention_1OL = model.wide(tokens_1L, mask_1L, states_1LD), model.wide.attention(states_1LD, mask_1L)
            counts_1OL, effects_1OLC = model.ngram_terms(terms, attention_1OL)
            present_1OL = (counts_1OL > 0).to(counts_1OL.dtype)
            inputs, baselines = (words_1LI, present_1OL), (unknown_1LI, torch.zeros_like(present_1OL))

    def logits(words_BLI: Tensor, *present: Tensor) -> Tensor:
        tokens_BL, mask_BL = tokens_1L.expand(len(words_BLI), -1), mask_1L.expand(len(words_BLI), -1)
        states_BLD = model.encoder(model.embedding.contextual(words_BLI, tokens_BL, mask_BL), mask_BL)
        logits_BC = model.classify(model.attention(states_BLD, mask_BL).values_BRD)
        for present_BOL in present:
            assert isinstance(model, WideAndDeep)
            attention_BOL = model.wide.attention(states_BLD, mask_BL)
            counts_BOL = present_BOL if attention_BOL is None else present_BOL * attention_BOL
            logits_BC = model.deep_share * logits_BC + (counts_BOL[..., None] * effects_1OLC).sum(dim=(1, 2))
        return logits_BC

    steps, size = GRADIENT_STEPS, max(1, 8 * TOKENS // len(ids))
    with torch.backends.cudnn.flags(enabled=False):  # its LSTM has no gradient in evaluation mode
        while True:
            integrals, error_1 = IntegratedGradients(logits).attribute(
                inputs, baselines, target=label, n_steps=steps, internal_batch_size=size, return_convergence_delta=True
            )
            of_tokens_1L = integrals[0].sum(dim=2)
            if isinstance(model, WideAndDeep):
                of_tokens_1L = of_tokens_1L + model.spread_over_tokens(integrals[1]).sum(dim=1)
            of_tokens_L, error = _numpy(of_tokens_1L[0]), float(error_1)
            change = float(of_tokens_L.sum()) - error
            if abs(error) <= COMPLETE * abs(change) or 2 * steps > most_steps:
                return Attribution(of_tokens_L, change, error)
            steps *= 2


def removals(
    model: TextClassifier,
    ids: Ids,
    label: int,
    ranked_K: Ints,
    rankings: Mapping[str, Floats | None],
    random: np.random.Generator,
) -> dict[str, float]:
    """Returns by how much the probability of a class falls, the mean over `SHARES`.

    `comprehensiveness` is p(y | x) - p(y | x without the first ceil(k n) of the n ranked tokens), `sufficiency`
    p(y | x) - p(y | only these and the others that are not ranked), for each ranking by scores, and for
    `random`, the mean over `DRAWS` random rankings. DeYoung et al. (2020, equation 3) divide the same sum by one more
    than the number of shares. NaN without scores, and for a text of one token, of which nothing would be left.
    """
    kinds, length = ("comprehensiveness", "sufficiency"), len(ranked_K)
    found = {f"{kind}_{name}": np.nan for kind in kinds for name in (*rankings, "random")}
    if length < 2:
        return found
    counts = [max(1, math.ceil(round(share * length, 9))) for share in SHARES]  # 0.2 * 15 is a little more than 3
    orders = {"random": [random.permutation(length) for _ in range(DRAWS)]}  # first: the same for all models
    orders |= {name: [order(scores_K, random)] for name, scores_K in rankings.items() if scores_K is not None}
    variants = [
        np.delete(ids, ranked_K[side])
        for of_name in orders.values()
        for order_K in of_name
        for count in counts
        for side in (order_K[:count], order_K[count:])
    ]
    whole, *others = probabilities(model, [ids, *variants])[:, label]
    falls_Q2 = iter(whole - np.reshape(others, (-1, len(counts), len(kinds))).mean(axis=1))
    for name, of_name in orders.items():
        falls_2 = np.mean([next(falls_Q2) for _ in of_name], axis=0)
        found |= {f"{kind}_{name}": float(fall) for kind, fall in zip(kinds, falls_2, strict=True)}
    return found


def order(scores_K: Floats, random: np.random.Generator) -> Ints:
    """Returns the tokens' indices by descending score; tokens that tie are in random order, not in that of the text."""
    order_K: Ints = np.lexsort((random.random(len(scores_K)), -scores_K)).astype(np.int64)
    return order_K


def overlap(weights_RL: Floats) -> float:
    """Returns how much the hops read the same tokens: 0 where they share none, 1 where they are equal, NaN for one hop.

    The mean off the diagonal of A A^T divided by that of its diagonal, so that sharp weights do not pass for overlap.
    """
    hops = len(weights_RL)
    if hops == 1:
        return np.nan
    products_RR = weights_RL @ weights_RL.T
    diagonal = float(np.trace(products_RR))
    return float(products_RR.sum() - diagonal) / (hops - 1) / diagonal


def plausibility(weights_K: Floats, spans: Sequence[Span], rationale: Sequence[Span]) -> dict[str, float]:
    """Returns the average precision of the weights against the words of a rationale, and that of random weights.

    NaN where no token or all are in the rationale, or the weights rank nothing. `spans` are start and end of each token
    in the text, `rationale` of each part that decides the label.
    """
    from sklearn.metrics import average_precision_score

    gold_K = np.array([any(start < last and first < end for first, last in rationale) for start, end in spans], bool)
    if gold_K.all() or not gold_K.any() or not ranks(weights_K):
        return {"average_precision": np.nan, "average_precision_random": np.nan}
    return {
        "average_precision": float(average_precision_score(gold_K, weights_K)),
        "average_precision_random": expected_average_precision(len(gold_K), int(gold_K.sum())),
    }


def expected_average_precision(length: int, gold: int) -> float:
    """Returns the expected average precision of a random ranking of `length` tokens L, of which `gold` R are gold.

    The average precision is the mean over gold tokens of (gold tokens up to its rank) / rank. A gold token at rank i
    has itself and (i - 1) (R - 1) / (L - 1) others before it on average, and each rank is equally likely, so with the
    harmonic number H_L = 1 + 1/2 + ... + 1/L the mean is (R - 1) / (L - 1) (1 - H_L / L) + H_L / L.
    """
    if length < 2:
        return 1.0
    harmonic = float(np.sum(1 / np.arange(1, length + 1))) / length
    return (gold - 1) / (length - 1) * (1 - harmonic) + harmonic


def rank_correlation(first_L: Floats, second_L: Floats) -> float:
    """Returns Kendall's tau-b of two scores of the same tokens; NaN where one of them ranks nothing."""
    from scipy.stats import kendalltau

    return float(kendalltau(first_L, second_L).statistic) if ranks(first_L) and ranks(second_L) else np.nan
