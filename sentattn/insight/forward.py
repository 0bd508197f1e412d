"""Forward passes over many texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentattn.data.batching import pad
from sentattn.insight.shape import Floats
from sentattn.models.classifier import TextClassifier

Ids: TypeAlias = NDArray[np.integer]
Ints: TypeAlias = NDArray[np.int64]

TOKENS = 4096
"""Most tokens of a batch, padding included; four times as many take twice the time on a CPU."""


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
        for i, row in zip(indices, softmax(logits_BC), strict=True):
            result_NC[i] = row
        if advance:
            advance(len(indices))
    return np.stack(result_NC)


def softmax(logits_BC: Tensor) -> Floats:
    """Returns probabilities in double precision."""
    probabilities_BC: Floats = logits_BC.detach().double().softmax(dim=-1).cpu().numpy()
    return probabilities_BC
