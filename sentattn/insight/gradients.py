"""Attributions of a logit to tokens, from its gradient at the embedded words, by Captum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sentattn.insight.weights import TOKENS, Ids, batches, ngram_parts, padded, spread
from sentattn.metrics import Floats, Ints
from sentattn.models.classifier import TextClassifier
from sentattn.models.wide import WideAndDeep

STEPS = 20
"""Fewest points of the integral, by Gauss and Legendre's rule; they are doubled until it is complete enough."""
MOST_STEPS = 160
TOLERANCE = 0.05
"""Relative to the change of the logit: the error of the integral at which it is complete enough."""


class Attribution(NamedTuple):
    """How much each token of a text adds to the logit of a class.

    Embedded word times gradient, summed over its components (Shrikumar et al. 2016), and integrated gradients from
    `<unk>` at all tokens (Sundararajan et al. 2017). Their sum less `change`, the logit of the text less that of the
    baseline, is `error`, 0 for an exact integral.
    """

    input_x_gradient_L: Floats
    integrated_L: Floats
    change: float
    error: float


def attributions(
    model: TextClassifier,
    texts: Sequence[Ids],
    classes_N: Ints,
    *,
    most_steps: int = MOST_STEPS,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Attribution]:
    """Returns the attributions of each text to the logit that decides, which is the weighted sum of a model's parts.

    An n-gram of a wide part is a feature that is 1 in the text and 0 in the baseline, whose `<unk>` form no n-gram; its
    attribution is spread evenly over its tokens at its first occurrence. So the attributions of tokens add up to the
    change of the logit, where the integral is exact. `STEPS` points are doubled up to `most_steps`, for those texts
    whose error exceeds `TOLERANCE` times the change. `advance` is called after each batch with the number of its texts.
    """
    lengths_N = np.array([len(ids) for ids in texts], dtype=np.int64)
    result: dict[int, Attribution] = {}
    steps = STEPS
    left = np.arange(len(texts))
    while len(left) and steps <= most_steps:
        for rows in batches(lengths_N[left], tokens=8 * TOKENS // steps):  # each text is read once a step
            indices = left[rows]
            of_batch = _attributed(model, [texts[i] for i in indices], classes_N[indices], steps)
            result |= dict(zip(indices.tolist(), of_batch, strict=True))
            if steps == STEPS:
                advance(len(indices))
        left = np.array(
            [i for i in left.tolist() if abs(result[i].error) > TOLERANCE * abs(result[i].change)], dtype=np.int64
        )
        steps *= 2
    return [result[i] for i in range(len(texts))]


def _attributed(model: TextClassifier, texts: Sequence[Ids], classes_B: Ints, steps: int) -> list[Attribution]:
    """The attributions of a batch."""
    from captum.attr import InputXGradient, IntegratedGradients

    tokens_BL, mask_BL = padded(model, texts)
    with torch.no_grad():
        inputs_BLI = model.embedding.inputs(tokens_BL, mask_BL)
        baseline_BLI = model.embedding.inputs(tokens_BL.masked_fill(mask_BL, model.embedding.blank_id), mask_BL)
        states_BLD = model.encoder(model.embedding.contextual(inputs_BLI, mask_BL), mask_BL)
        share, orders = 1.0, tuple[int, ...]()
        inputs: tuple[Tensor, ...] = (inputs_BLI.clone(),)
        baselines: tuple[Tensor, ...] = (baseline_BLI,)
        fixed: tuple[Tensor, ...] = (mask_BL,)
        if isinstance(model, WideAndDeep):
            share, orders = model.deep_share, model.wide.orders
            terms, attention_BOL = model.wide(tokens_BL, mask_BL, states_BLD), model.wide.attention(states_BLD, mask_BL)
            counts_BOL, effects_BOLC = ngram_parts(model, terms, attention_BOL)
            present_BOL = (counts_BOL > 0).to(counts_BOL.dtype)
            inputs, baselines = (*inputs, present_BOL), (*baselines, torch.zeros_like(present_BOL))
            fixed = (mask_BL, effects_BOLC)

    def logits(inputs_BLI: Tensor, *more: Tensor) -> Tensor:
        *present, mask_BL = more[: len(inputs)]
        states_BLD = model.encoder(model.embedding.contextual(inputs_BLI, mask_BL), mask_BL)
        logits_BC = share * model.classify(model.attention(states_BLD, mask_BL).values_BRD)
        for present_BOL, effects_BOLC in zip(present, more[len(inputs) :], strict=True):
            assert isinstance(model, WideAndDeep)
            attention_BOL = model.wide.attention(states_BLD, mask_BL)
            counts_BOL = present_BOL if attention_BOL is None else present_BOL * attention_BOL
            logits_BC = logits_BC + (counts_BOL[..., None] * effects_BOLC).sum(dim=(1, 2))
        return logits_BC

    for tensor in inputs:
        tensor.requires_grad_()
    target_B = torch.from_numpy(classes_B).to(tokens_BL.device)
    options = {"target": target_B, "additional_forward_args": fixed}
    with torch.backends.cudnn.flags(enabled=False):  # its LSTM has no gradient in evaluation mode
        products = InputXGradient(logits).attribute(inputs, **options)
        integrals, error_B = IntegratedGradients(logits).attribute(
            inputs,
            baselines=baselines,
            n_steps=steps,
            internal_batch_size=max(len(texts), 8 * TOKENS // tokens_BL.shape[1]),
            return_convergence_delta=True,
            **options,
        )

    def of_tokens(parts: Sequence[Tensor]) -> Floats:
        of_token_BL = parts[0].sum(dim=2)
        for part_BOL in parts[1:]:
            of_token_BL = of_token_BL + spread(part_BOL, orders).sum(dim=1)
        result: Floats = of_token_BL.detach().double().cpu().numpy()
        return result

    product_BL, integral_BL = of_tokens(products), of_tokens(integrals)
    attributed = []
    for row, (ids, error) in enumerate(zip(texts, error_B.tolist(), strict=True)):
        integral_L = integral_BL[row, : len(ids)]
        attributed.append(Attribution(product_BL[row, : len(ids)], integral_L, float(integral_L.sum()) - error, error))
    return attributed
