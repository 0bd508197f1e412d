"""What every model keeps: padding has no influence, and the weights of its attention are shares of the real tokens."""

from __future__ import annotations

import math

from torch import Tensor

from sentattn.models.classifier import Classified, TextClassifier


def errors(model: TextClassifier, tokens_BL: Tensor, mask_BL: Tensor) -> dict[str, float]:
    """Returns how far a model in evaluation is from each rule; numbers above 1 relative to the largest of them."""
    together, largest = model(tokens_BL, mask_BL), 0.0
    for row, length in enumerate(mask_BL.sum(dim=1).tolist()):
        alone = model(tokens_BL[row : row + 1, :length], mask_BL[row : row + 1, :length])
        for one, other in zip(_of_row(alone, 0, length), _of_row(together, row, length), strict=True):
            largest = max(largest, _largest((one - other) / one.abs().max().clamp_min(1)))
    alike = {"a text alone equals the text in a padded batch": largest}
    return alike | weight_errors(together.attended.weights_BRL, mask_BL)


def weight_errors(weights_BRL: Tensor, mask_BL: Tensor) -> dict[str, float]:
    """Returns how far weights are from each rule about them."""
    return {
        "weights are 0 or more": _largest(weights_BRL.clamp(max=0)),
        "weights of a text sum to 1": _largest(weights_BRL.sum(dim=-1) - 1),
        "weights of padding are 0": _largest(weights_BRL * ~mask_BL[:, None]),
    }


def _of_row(output: Classified, row: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    values_BRD, weights_BRL, _ = output.attended
    return values_BRD[row], weights_BRL[row, :, :length], output.logits_BC[row]


def _largest(errors: Tensor) -> float:
    """Returns the largest absolute value, and infinity for NaN."""
    return float(errors.detach().abs().max().nan_to_num(math.inf))
