"""The classifier's head: the pooled vector to logits."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.dropout import Dropout


class Head(nn.Module):
    """Dropout, a hidden layer if `width` is not None, dropout, logits.

    Args:
        width: Units of the hidden layer; None for none.
        activation: Of the hidden layer: `relu` (Lin et al. 2017) or `tanh` (the Gluon tutorial).
        dropout: Share of the components set to 0 before each layer while training.
        init: How the layers start: as `torch` starts them, or by `glorot`, uniform weights (Glorot and Bengio 2010,
            equation 16) and biases of 0, as Keras does.
    """

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        classes: Count,
        width: Count | None = None,
        activation: Literal["relu", "tanh"] = "relu",
        dropout: Fraction = 0.0,
        init: Literal["torch", "glorot"] = "torch",
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [Dropout(dropout)]
        if width is not None:
            layers += [nn.Linear(dim, width), nn.ReLU() if activation == "relu" else nn.Tanh(), Dropout(dropout)]
        layers.append(nn.Linear(width or dim, classes))
        self.layers = nn.Sequential(*layers)
        for layer in layers if init == "glorot" else ():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, vector_BP: Tensor) -> Tensor:
        """Returns logits_BC."""
        logits_BC: Tensor = self.layers(vector_BP)
        return logits_BC
