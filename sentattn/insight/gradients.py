"""Which tokens a logit depends on, after its gradient at the embedded words: attributions by Captum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sentattn.data.text import UNKNOWN_ID
from sentattn.insight.forward import TOKENS, Ids, Ints, batches, padded
from sentattn.insight.shape import Floats
from sentattn.models.classifier import TextClassifier

STEPS = 20
"""Points of the integral, by Gauss and Legendre's rule."""


class Attribution(NamedTuple):
    """How much each token of a text adds to the logit of a class.

    Attributes:
        input_x_gradient_L: Embedded word times gradient, summed over its components (Shrikumar et al. 2016).
        integrated_L: Integrated gradients from `<unk>` at all tokens, summed likewise (Sundararajan et al. 2017).
        change: The logit of the text less that of the baseline.
        error: Sum of the integrated gradients less `change`, which is 0 for an exact integral.
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
    steps: int = STEPS,
    advance: Callable[[int], None] | None = None,
) -> list[Attribution]:
    """Returns the attributions of each text to the logits of the head; those of n-grams have none.

    Args:
        model: The model, in evaluation mode.
        texts: Ids of the tokens of each text, at least one.
        classes_N: The class of each text whose logit is explained.
        steps: Points of the integral.
        advance: Called after each batch with the number of its texts.
    """
    from captum.attr import InputXGradient, IntegratedGradients

    def logits(states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        attended = model.attention(model.encoder(states_BLE, mask_BL), mask_BL)
        logits_BC: Tensor = model.head(model.pooling(attended.values_BRD))
        return logits_BC

    integrated, input_x_gradient = IntegratedGradients(logits), InputXGradient(logits)
    found: dict[int, Attribution] = {}
    lengths_N = np.array([len(ids) for ids in texts], dtype=np.int64)
    for indices in batches(lengths_N, tokens=8 * TOKENS // steps):  # each text is read once a step
        tokens_BL, mask_BL = padded(model, [texts[i] for i in indices])
        with torch.no_grad():
            states_BLE = model.embedding(tokens_BL, mask_BL)
            baseline_BLE = model.embedding(tokens_BL.masked_fill(mask_BL, UNKNOWN_ID), mask_BL)
        target_B = torch.from_numpy(classes_N[indices]).to(tokens_BL.device)
        given = {"target": target_B, "additional_forward_args": (mask_BL,)}
        with torch.backends.cudnn.flags(enabled=False):  # its LSTM has no gradient in evaluation mode
            product_BLE = input_x_gradient.attribute(states_BLE.clone().requires_grad_(), **given)
            integral_BLE, error_B = integrated.attribute(
                states_BLE, baselines=baseline_BLE, n_steps=steps, return_convergence_delta=True, **given
            )
        product_BL, integral_BL = (x.detach().double().sum(dim=2).cpu().numpy() for x in (product_BLE, integral_BLE))
        for row, (i, error) in enumerate(zip(indices, error_B.tolist(), strict=True)):
            product_L, integral_L = product_BL[row, : lengths_N[i]], integral_BL[row, : lengths_N[i]]
            found[int(i)] = Attribution(product_L, integral_L, float(integral_L.sum()) - error, error)
        if advance:
            advance(len(indices))
    return [found[i] for i in range(len(texts))]
