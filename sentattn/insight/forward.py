"""Forward passes over many texts: probabilities, weights, and predictions with other weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentattn.data.batching import pad
from sentattn.insight.shape import Floats
from sentattn.models.attention.base import Attended
from sentattn.models.classifier import TextClassifier
from sentattn.models.wide import WideTerms

Ids: TypeAlias = NDArray[np.integer]
Ints: TypeAlias = NDArray[np.int64]

TOKENS = 4096
"""Most tokens of a batch, padding included; four times as many take twice the time on a CPU."""
PERMUTATIONS = 10
TOLERANCE = 1e-4
"""Relative to the largest value: how far `weights @ states` may be from the values that an attention returns."""


class Reading(NamedTuple):
    """What a model makes of a text.

    Attributes:
        probabilities_C: Probability of each class.
        weights_RL: The attention.
        uniform_C: Probabilities with weights 1/n in place of the attention's; None where its values are not
            weights @ states.
        permuted_PC: Probabilities with permuted weights, for each of `PERMUTATIONS`; None likewise.
    """

    probabilities_C: Floats
    weights_RL: Floats
    uniform_C: Floats | None
    permuted_PC: Floats | None


def batches(lengths_N: Ints, tokens: int | None = None) -> Iterator[Ints]:
    """Yields the indices of texts of similar length, as many as have at most `tokens` with padding (`TOKENS`)."""
    tokens = tokens or TOKENS
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
def probabilities(model: TextClassifier, texts: Sequence[Ids], advance: Callable[[int], None] | None = None) -> Floats:
    """Returns the probability of each class, (texts, C).

    Args:
        model: The model, in evaluation mode.
        texts: Ids of the tokens of each text, at least one.
        advance: Called after each batch with the number of its texts.
    """
    result_NC: list[Floats] = [np.empty(0)] * len(texts)
    for indices in batches(np.array([len(ids) for ids in texts], dtype=np.int64)):
        logits_BC = model(*padded(model, [texts[i] for i in indices])).logits_BC
        for i, row in zip(indices, _softmax(logits_BC), strict=True):
            result_NC[i] = row
        if advance:
            advance(len(indices))
    return np.stack(result_NC)


@torch.inference_mode()
def read(model: TextClassifier, texts: Sequence[Ids], *, seed: int = 0) -> list[Reading]:
    """Returns what a model makes of each text, with its own weights and with others in their place.

    Args:
        model: The model, in evaluation mode.
        texts: Ids of the tokens of each text, at least one.
        seed: Of the permutations; those of a text depend on its place only.
    """
    readings: dict[int, Reading] = {}
    for indices in batches(np.array([len(ids) for ids in texts], dtype=np.int64)):
        tokens_BL, mask_BL = padded(model, [texts[i] for i in indices])
        states_BLD = model.encoder(model.embedding(tokens_BL, mask_BL), mask_BL)
        attended: Attended = model.attention(states_BLD, mask_BL)
        wide = model.wide(tokens_BL, mask_BL, states_BLD)
        own_BC = _softmax(model.classify(attended, wide).logits_BC)
        other_QBC = _with_other_weights(model, states_BLD, mask_BL, attended, wide, indices, seed)
        weights_BRL = attended.weights_BRL.double().cpu().numpy()
        for row, i in enumerate(indices):
            uniform_C, permuted_PC = (None, None) if other_QBC is None else (other_QBC[0, row], other_QBC[1:, row])
            readings[int(i)] = Reading(own_BC[row], weights_BRL[row, :, : len(texts[i])], uniform_C, permuted_PC)
    return [readings[i] for i in range(len(texts))]


def _with_other_weights(
    model: TextClassifier,
    states_BLD: Tensor,
    mask_BL: Tensor,
    attended: Attended,
    wide: WideTerms | None,
    indices: Ints,
    seed: int,
) -> Floats | None:
    """Probabilities with uniform and then with permuted weights, all hops alike; None where values are no such sums."""
    weights_BRL = attended.weights_BRL.to(states_BLD.dtype)
    sums_BRD = weights_BRL @ states_BLD
    if sums_BRD.shape != attended.values_BRD.shape:
        return None
    if (sums_BRD - attended.values_BRD).abs().max() > TOLERANCE * attended.values_BRD.abs().max():
        return None
    ones_BL = mask_BL.to(states_BLD.dtype)
    uniform_B1L = (ones_BL / ones_BL.sum(dim=1, keepdim=True))[:, None]
    variants = [uniform_B1L.expand_as(weights_BRL)]
    order_PBL = np.tile(np.arange(mask_BL.shape[1]), (PERMUTATIONS, len(mask_BL), 1))
    for row, (i, length) in enumerate(zip(indices, mask_BL.sum(dim=1).tolist(), strict=True)):
        random = np.random.default_rng([seed, int(i)])
        order_PBL[:, row, :length] = random.permuted(order_PBL[:, row, :length], axis=1)
    for order_BL in torch.from_numpy(order_PBL).to(states_BLD.device):
        variants.append(weights_BRL.gather(2, order_BL[:, None].expand_as(weights_BRL)))
    read = (attended._replace(values_BRD=variant @ states_BLD) for variant in variants)
    return np.stack([_softmax(model.classify(one, wide).logits_BC) for one in read])


def _softmax(logits_BC: Tensor) -> Floats:
    probabilities_BC: Floats = logits_BC.double().softmax(dim=-1).cpu().numpy()
    return probabilities_BC
