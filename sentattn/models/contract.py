"""What every model keeps: padding has no influence, and the weights of its attention are shares of the real tokens."""

from __future__ import annotations

import math

from torch import Tensor

from sentattn.models.classifier import TextClassifier


def padding_errors(model: TextClassifier, tokens_BL: Tensor, mask_BL: Tensor) -> dict[str, float]:
    """Returns the largest differences between each text in a padded batch and the same text alone, by what differs.

    The model is one in evaluation. Numbers above 1 differ relative to the largest of them.
    """
    together, found = model(tokens_BL, mask_BL), dict[str, float]()
    for row, length in enumerate(mask_BL.sum(dim=1).tolist()):
        alone = model(tokens_BL[row : row + 1, :length], mask_BL[row : row + 1, :length])
        pairs = {
            "values of the attention": (alone.attended.values_BRD[0], together.attended.values_BRD[row]),
            "weights of the attention": (alone.attended.weights_BRL[0], together.attended.weights_BRL[row, :, :length]),
            "logits": (alone.logits_BC[0], together.logits_BC[row]),
        }
        for name, (one, other) in pairs.items():
            found[name] = max(found.get(name, 0.0), _largest((one - other) / one.abs().max().clamp_min(1)))
    return found


def weight_errors(weights_BRL: Tensor, mask_BL: Tensor) -> dict[str, float]:
    """Returns how far weights are from each rule about them."""
    return {
        "weights are 0 or more": _largest(weights_BRL.clamp(max=0)),
        "weights of a text sum to 1": _largest(weights_BRL.sum(dim=-1) - 1),
        "weights of padding are 0": _largest(weights_BRL * ~mask_BL[:, None]),
    }


def _largest(errors: Tensor) -> float:
    """Returns the largest absolute value, and infinity for NaN."""
    return float(errors.detach().abs().max().nan_to_num(math.inf)) if errors.numel() else 0.0


def padded(tokens_BL: Tensor, mask_BL: Tensor) -> tuple[Tensor, Tensor]:
    """Returns two rows of a batch, ids and mask; the second one is cut to its first half, so that it has padding."""
    tokens_2L, mask_2L = tokens_BL[[0, -1]], mask_BL[[0, -1]].clone()
    mask_2L[1, (int(mask_2L[1].sum()) + 1) // 2 :] = False
    return tokens_2L * mask_2L, mask_2L
