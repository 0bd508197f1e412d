"""Parameter groups: which parameters an optimizer updates, and to which of them weight decay applies."""

from __future__ import annotations

from typing import Any, Literal

from sentattn.models.classifier import TextClassifier


def parameter_groups(
    model: TextClassifier, weight_decay_on: Literal["all", "attention_and_head"]
) -> list[dict[str, Any]]:
    """Returns a model's trainable parameters as PyTorch's optimizers take them; biases do not decay unless `all` do.

    Lin et al. (2017) add 1e-4 times the sum of squared weights of attention and head to the loss, in their released
    code: a weight decay of twice as much on these alone.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if weight_decay_on == "all":
        return [{"params": trainable}]
    decayed = {id(w) for part in (model.attention, model.head) for w in part.parameters() if w.dim() > 1}
    return [
        {"params": [parameter for parameter in trainable if id(parameter) in decayed]},
        {"params": [parameter for parameter in trainable if id(parameter) not in decayed], "weight_decay": 0.0},
    ]
