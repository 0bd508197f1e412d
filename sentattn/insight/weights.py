"""Predictions for many texts, with the model's attention weights and with others: even, permuted and adversarial.

Jain and Wallace (2019, Attention is not Explanation), sections 4.2.1 and 4.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sentattn.data.batching import pad
from sentattn.insight.metrics import is_ranking
from sentattn.metrics import Floats, Ints
from sentattn.models.classifier import Classified, TextClassifier, WideTerms
from sentattn.models.wide import WideAndDeep
from sentattn.prediction.prediction import TIE

Ids: TypeAlias = NDArray[np.integer]
Over: TypeAlias = Literal["tokens", "ngrams"]
"""The objects of an attention: states of tokens, or the n-grams of a wide part."""

TOKENS = 4096
"""Most tokens of a batch, padding included; four times as many take twice the time on a CPU."""
SEED = 0
"""Of everything that is drawn; the numbers for a text depend on its position only."""
PERMUTATIONS = 10
TOLERANCE = 1e-4
"""Relative to the largest value: how far `weights @ states` may be from the values that an attention returns."""
CHANGE = 0.01
"""Largest total variation distance from the model's own probabilities of weights with the same prediction (4.2.2)."""
STEPS, RATE, PENALTY = 60, 0.3, 500.0
"""Of the search for such weights: Adam's steps and learning rate, and the penalty of a distance above `CHANGE`."""


def batches(lengths_N: Ints, tokens: int = TOKENS) -> Iterator[Ints]:
    """Yields the indices of texts of similar length, as many as have at most `tokens` with padding."""
    order = np.argsort(lengths_N, kind="stable")
    start = 0
    for place, length in enumerate(lengths_N[order], start=1):
        if (place - start) * length > tokens and place - start > 1:
            yield order[start : place - 1]
            start = place - 1
    if start < len(order):
        yield order[start:]


def padded(model: TextClassifier, texts: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    """Returns texts as one batch on the model's device: tokens_BL and mask_BL."""
    device = next(model.parameters()).device
    tokens_BL, mask_BL = pad(texts)
    return tokens_BL.to(device), mask_BL.to(device)


@torch.inference_mode()
def probabilities(model: TextClassifier, texts: Sequence[Ids]) -> Floats:
    """Returns the probability of each class, (texts, C); each text has at least one token."""
    result_NC: list[Floats] = [np.empty(0)] * len(texts)
    for indices in batches(np.array([len(ids) for ids in texts], dtype=np.int64)):
        logits_BC = model(*padded(model, [texts[i] for i in indices])).logits_BC
        for i, row in zip(indices, softmax(logits_BC), strict=True):
            result_NC[i] = row
    return np.stack(result_NC)


def softmax(logits_BC: Tensor) -> Floats:
    """Returns probabilities in double precision."""
    probabilities_BC: Floats = logits_BC.detach().double().softmax(dim=-1).cpu().numpy()
    return probabilities_BC


class Reading(NamedTuple):
    """A model's probabilities for a text with its own weights, with even and with permuted ones.

    `weights_RL` is the attention to each token (`token_rows` for n-grams), `product_L` the attention times the gradient
    of the predicted class's logit, the sum over the hops, and `divergence` the result of `adversary`, NaN where the
    weights tie. All but the first two are NaN where the values of an attention are not weights @ states.
    """

    probabilities_C: Floats
    weights_RL: Floats
    product_L: Floats
    uniform_C: Floats
    permuted_PC: Floats
    divergence: float


class Weights(NamedTuple):
    """The weights of a batch, and the logits that other weights give.

    A row is a hop, or an order of n-grams; it sums to 1 over its places. These are the real tokens, or the tokens at
    which an n-gram ends that the wide part knows, each n-gram once. `logits` returns logits_BC with other weights, and
    is None where an attention's values are not weights @ states. `to_tokens` spreads values of places over tokens.
    """

    weights_BRL: Tensor
    is_place_BRL: Tensor
    logits: Callable[[Tensor], Tensor] | None
    to_tokens: Callable[[Tensor], Tensor]


def read(
    model: TextClassifier,
    texts: Sequence[Ids],
    over: Over = "tokens",
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Reading]:
    """Returns the prediction of a model in evaluation mode for each text, with its weights and with others.

    Each text has at least one token. `advance` is called after each batch with the number of its texts.
    """
    readings: dict[int, Reading] = {}
    for indices in batches(np.array([len(ids) for ids in texts], dtype=np.int64)):
        tokens_BL, mask_BL = padded(model, [texts[i] for i in indices])
        with torch.no_grad():
            classified: Classified = model(tokens_BL, mask_BL)
            own_BC = classified.logits_BC
            if over == "ngrams":
                assert isinstance(model, WideAndDeep), "an attention over n-grams is that of a wide part"
                weights = _of_ngrams(model, mask_BL, classified)
                rows_BRL = token_rows(weights, mask_BL)
            else:
                weights = _of_tokens(model, mask_BL, classified)
                rows_BRL = weights.weights_BRL
        lengths = mask_BL.sum(dim=1).tolist()
        generators = [np.random.default_rng([SEED, int(i)]) for i in indices]
        draws = [generator.random((PERMUTATIONS + 1, n)) for generator, n in zip(generators, lengths, strict=True)]
        product_BL, uniform_BC, permuted_PBC, divergence_B = _with_others(weights, own_BC, draws)
        weights_BRL = rows_BRL.double().cpu().numpy()
        for row, (i, n, own_C) in enumerate(zip(indices, lengths, softmax(own_BC), strict=True)):
            weights_RL = weights_BRL[row, :, :n]
            divergence = float(divergence_B[row]) if is_ranking(weights_RL.ravel()) else np.nan
            others = (product_BL[row, :n], uniform_BC[row], permuted_PBC[:, row], divergence)
            readings[int(i)] = Reading(own_C, weights_RL, *others)
        advance(len(indices))
    return [readings[i] for i in range(len(texts))]


def distance(first_C: Floats, second_C: Floats) -> Floats:
    """Returns the total variation distance of probabilities: half the sum over classes of the absolute differences."""
    half: Floats = np.abs(first_C - second_C).sum(axis=-1) / 2
    return half


def ngram_parts(model: WideAndDeep, terms: WideTerms, attention_BOL: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns the terms of n-grams in the logits of the whole model, by the order and the token at which they end.

    These are counts_BOL, how much an n-gram counts, 0 where there is none, by default 1; and effects_BOLC, what it adds
    where it counts 1.
    """
    terms_BGC = model.deep_share * terms.attended_BGC + model.wide_share * terms.terms_BGC
    size, orders, classes = len(terms_BGC), len(model.wide.orders), terms_BGC.shape[-1]
    is_present_BG = torch.zeros_like(terms.is_present_BG).scatter(1, terms.places_BG, terms.is_present_BG)
    index_BGC = terms.places_BG[..., None].expand_as(terms_BGC)
    terms_BOLC = torch.zeros_like(terms_BGC).scatter(1, index_BGC, terms_BGC).view(size, orders, -1, classes)
    counts_BOL = is_present_BG.view(size, orders, -1).to(terms_BGC.dtype)
    if attention_BOL is not None:
        counts_BOL = counts_BOL * attention_BOL
    return counts_BOL, terms_BOLC / counts_BOL.clamp_min(torch.finfo(terms_BGC.dtype).tiny)[..., None]


def spread(scores_BOL: Tensor, orders: Sequence[int]) -> Tensor:
    """Spreads the scores of n-grams of these lengths, which are at their last tokens, evenly over their tokens."""
    rows = [
        functional.pad(scores_BOL[:, row], (0, order - 1)).unfold(-1, order, 1).sum(dim=-1) / order
        for row, order in enumerate(orders)
    ]
    return torch.stack(rows, dim=1)


def token_rows(weights: Weights, mask_BL: Tensor) -> Tensor:
    """Returns the weights of tokens that follow from those of n-grams, (B, orders, L).

    The weight of an n-gram is spread evenly over its tokens at its first occurrence, which is where the wide part
    reads it (`WideTerms.places_BG`) and where pages show it. So a token has the weights of all n-grams that it is in,
    and a row sums to 1. A row whose n-grams all have the same weight, or which has none, ranks nothing: it is even.
    """
    least_BR1 = weights.weights_BRL.masked_fill(~weights.is_place_BRL, torch.inf).amin(dim=2, keepdim=True)
    is_tie_BR1 = weights.weights_BRL.amax(dim=2, keepdim=True) <= least_BR1 * (1 + TIE)
    even_B1L = (mask_BL / mask_BL.sum(dim=1, keepdim=True))[:, None].to(weights.weights_BRL.dtype)
    return torch.where(is_tie_BR1, even_B1L, weights.to_tokens(weights.weights_BRL))


def _of_tokens(model: TextClassifier, mask_BL: Tensor, classified: Classified) -> Weights:
    """The attention over states."""
    _, attended, states_BLD, wide = classified
    weights_BRL = attended.weights_BRL.to(states_BLD.dtype)
    sums_BRD = weights_BRL @ states_BLD
    is_sum = sums_BRD.shape == attended.values_BRD.shape and bool(
        (sums_BRD - attended.values_BRD).abs().max() <= TOLERANCE * attended.values_BRD.abs().max()
    )

    def logits(other_BRL: Tensor) -> Tensor:
        other = classified._replace(logits_BC=model.classify(other_BRL @ states_BLD))
        if wide is not None and isinstance(model, WideAndDeep):
            other = model.add(other, wide.terms)
        return other.logits_BC

    is_place_BRL = mask_BL[:, None].expand_as(weights_BRL)
    return Weights(weights_BRL, is_place_BRL, logits if is_sum else None, lambda scores_BRL: scores_BRL)


def _of_ngrams(model: WideAndDeep, mask_BL: Tensor, classified: Classified) -> Weights:
    """The attention over n-grams: of each order the n-grams of the text share what they count together."""
    assert classified.wide is not None
    attention_BOL = model.wide.attention(classified.states_BLD, mask_BL)
    counts_BOL, effects_BOLC = ngram_parts(model, classified.wide.terms, attention_BOL)
    total_BO1 = counts_BOL.sum(dim=2, keepdim=True)
    weights_BOL = counts_BOL / total_BO1.clamp_min(torch.finfo(counts_BOL.dtype).tiny)
    effects_BOLC = total_BO1[..., None] * effects_BOLC
    rest_BC = classified.logits_BC - (weights_BOL[..., None] * effects_BOLC).sum(dim=(1, 2))

    def logits(other_BOL: Tensor) -> Tensor:
        return rest_BC + (other_BOL[..., None] * effects_BOLC).sum(dim=(1, 2))

    return Weights(weights_BOL, counts_BOL > 0, logits, lambda scores_BOL: spread(scores_BOL, model.wide.orders))


def _with_others(weights: Weights, own_BC: Tensor, draws: Sequence[Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """Attention times gradient, probabilities with even and permuted weights, and the divergence of an adversary."""
    if weights.logits is None:
        missing_BC, missing_BL = np.full(own_BC.shape, np.nan), np.full(weights.is_place_BRL[:, 0].shape, np.nan)
        return missing_BL, missing_BC, np.stack([missing_BC] * PERMUTATIONS), missing_BC[:, 0]
    keys = torch.full((PERMUTATIONS + 1, *weights.is_place_BRL[:, 0].shape), 2.0, dtype=torch.float64)
    for row, drawn in enumerate(draws):
        keys[:, row, : drawn.shape[1]] = torch.from_numpy(drawn)
    keys = keys.to(own_BC.device)
    with torch.enable_grad():
        own_BRL = weights.weights_BRL.detach().clone().requires_grad_()
        chosen = weights.logits(own_BRL).gather(1, own_BC.argmax(dim=1, keepdim=True)).sum()
        [gradient_BRL] = torch.autograd.grad(chosen, [own_BRL])
    product_BL = weights.to_tokens(gradient_BRL * weights.weights_BRL).sum(dim=1)
    with torch.no_grad():
        counts_BR1 = weights.is_place_BRL.sum(dim=2, keepdim=True).clamp_min(1)
        uniform_BC = softmax(weights.logits(weights.is_place_BRL.to(own_BC.dtype) / counts_BR1))
        permuted = [softmax(weights.logits(permuted_BRL)) for permuted_BRL in _permuted(weights, keys[:PERMUTATIONS])]
    divergence_B = adversary(weights, own_BC, keys[PERMUTATIONS])
    return product_BL.double().cpu().numpy(), uniform_BC, np.stack(permuted), divergence_B.double().cpu().numpy()


def _permuted(weights: Weights, keys_PBL: Tensor) -> Iterator[Tensor]:
    """Yields the weights of each row in another order on its places; the rows of a text alike."""
    # Places come first in both orders: sorted by their keys, and in the order of the text.
    target_BRL = (~weights.is_place_BRL).to(torch.int8).argsort(dim=2, stable=True)
    for keys_BL in keys_PBL:
        keys_BRL = keys_BL[:, None].expand(weights.is_place_BRL.shape)
        source_BRL = keys_BRL.masked_fill(~weights.is_place_BRL, torch.inf).argsort(dim=2, stable=True)
        moved_BRL = weights.weights_BRL.gather(2, source_BRL)
        yield torch.zeros_like(weights.weights_BRL).scatter(2, target_BRL, moved_BRL)


def adversary(weights: Weights, own_BC: Tensor, keys_BL: Tensor) -> Tensor:
    """Returns how unlike the attention other weights can be that give the same prediction, (B,).

    The Jensen-Shannon divergence in nats, at most log 2, mean over rows of two or more places. It is that of the
    weights farthest from the attention's among those whose probabilities have a total variation distance of at most
    `CHANGE` from the model's own (Jain and Wallace 2019, section 4.2.2). Adam searches for them, `STEPS` steps from
    each of three starts: the attention's own weights, moved a little in two opposite directions, and the same weights
    in reverse order of their size. So the true maximum may be larger.

    `own_BC` are the model's logits, and `keys_BL` random numbers between 0 and 1, the first of these directions.
    """
    assert weights.logits is not None, "the attention can be replaced"
    own_probabilities_BC, farthest_B = own_BC.softmax(dim=-1), torch.zeros_like(own_BC[:, 0])
    is_free_BR = weights.is_place_BRL.sum(dim=2) > 1
    ranked_BRL = weights.weights_BRL.masked_fill(~weights.is_place_BRL, torch.inf)
    lowest_BRL = ranked_BRL.argsort(dim=2)
    highest_BRL = (-ranked_BRL).masked_fill(~weights.is_place_BRL, torch.inf).argsort(dim=2)
    reversed_BRL = torch.zeros_like(ranked_BRL).scatter(2, highest_BRL, weights.weights_BRL.gather(2, lowest_BRL))
    moved = [weights.weights_BRL * (sign * keys_BL[:, None]).exp().to(own_BC.dtype) for sign in (0.1, -0.1)]
    for start_BRL in (*moved, reversed_BRL):
        scores_BRL = start_BRL.clamp_min(torch.finfo(start_BRL.dtype).tiny).log().requires_grad_()
        optimizer = torch.optim.Adam([scores_BRL], lr=RATE)
        for _ in range(STEPS):
            with torch.enable_grad():
                masked_BRL = scores_BRL.masked_fill(~weights.is_place_BRL, torch.finfo(scores_BRL.dtype).min)
                other_BRL = masked_BRL.softmax(dim=-1) * weights.is_place_BRL
                change_B = (weights.logits(other_BRL).softmax(dim=-1) - own_probabilities_BC).abs().sum(dim=-1) / 2
                divergence_BR = divergence(weights.weights_BRL, other_BRL) * is_free_BR
                divergence_B = divergence_BR.sum(dim=1) / is_free_BR.sum(dim=1).clamp_min(1)
                loss = (PENALTY * (change_B - CHANGE).relu() - divergence_B).sum()
            farthest_B = torch.where(change_B <= CHANGE, torch.maximum(farthest_B, divergence_B), farthest_B).detach()
            [scores_BRL.grad] = torch.autograd.grad(loss, [scores_BRL])
            optimizer.step()
    return farthest_B


def divergence(first_BRL: Tensor, second_BRL: Tensor) -> Tensor:
    """Returns the Jensen-Shannon divergence of each row in nats, (B, R): between 0 and log 2."""
    tiny = torch.finfo(first_BRL.dtype).tiny
    logs_BRL = ((first_BRL + second_BRL) / 2).clamp_min(tiny).log()
    halves = [weights_BRL * (weights_BRL.clamp_min(tiny).log() - logs_BRL) for weights_BRL in (first_BRL, second_BRL)]
    return (halves[0] + halves[1]).sum(dim=2) / 2
