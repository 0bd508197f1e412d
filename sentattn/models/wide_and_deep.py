"""A linear model over n-grams next to a deep model: their logits are added (wide and deep, Cheng et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn

from sentattn.models.classifier import Classified, CrossEntropy, DecayOn, TextClassifier, WideOutput
from sentattn.models.wide import TrainingTexts, Wide, WideTerms


class WideAndDeep(TextClassifier):
    """A deep and a wide part, each trained by a loss of its own.

    logits = (1 - s) (deep + attended) + s wide, with the wide part's share s, and what its n-grams add to the deep
    part's logits (`WideTerms.attended_BGC`). Trained by the loss of this sum, the deep part learns next to nothing, so
    the loss is that of deep + attended plus that of wide, whose labels are not smoothed. Without words to read, the
    deep part is the intercept of one linear model: logits = deep + wide, and its loss is that of these logits.

    The modules of the deep part are those of this model, so that weights have the same names with and without a wide
    part.

    Args:
        deep: The deep part.
        wide: The wide part.

    Attributes:
        deep_share: Share of the deep part's logits.
        wide_share: Share of the wide part's logits.
    """

    def __init__(self, deep: TextClassifier, wide: Wide) -> None:
        super().__init__(
            embedding=deep.embedding,
            encoder=deep.encoder,
            attention=deep.attention,
            pooling=deep.pooling,
            head=deep.head,
            name=deep.name,
        )
        self.wide = wide
        self.parts = ("attention", "wide") if deep.embedding.reads else ()
        self.deep_share, self.wide_share = (1 - wide.share, wide.share) if self.parts else (1.0, 1.0)

    def forward(
        self,
        tokens_BL: Tensor,
        mask_BL: Tensor,
        *,
        lengths_B: Tensor | None = None,
        pairs: bool = False,
        labels_B: Tensor | None = None,
    ) -> Classified:
        """Classifies a batch; with labels_B each training row is left out of the counts of its own n-grams."""
        deep = super().forward(tokens_BL, mask_BL, lengths_B=lengths_B, pairs=pairs)
        return self.add(deep, self.wide(tokens_BL, mask_BL, deep.states_BLD, labels_B))

    def add(self, deep: Classified, terms: WideTerms) -> Classified:
        """Adds the logits of the wide part to those of the deep part."""
        deep_BC, wide_BC = deep.logits_BC, terms.terms_BGC.sum(dim=1)
        if not self.parts:
            return deep._replace(logits_BC=deep_BC + wide_BC, wide=WideOutput(deep_BC, wide_BC, terms))
        deep_BC = deep_BC + terms.attended_BGC.sum(dim=1)
        logits_BC = self.deep_share * deep_BC + self.wide_share * wide_BC
        return deep._replace(logits_BC=logits_BC, wide=WideOutput(deep_BC, wide_BC, terms))

    def forward_training(self, tokens_BL: Tensor, mask_BL: Tensor, labels_B: Tensor, lengths_B: Tensor) -> Classified:
        """Classifies training rows by the counts of all others."""
        classified: Classified = self(tokens_BL, mask_BL, lengths_B=lengths_B, labels_B=labels_B)
        return classified

    def cross_entropy(self, classified: Classified, labels_B: Tensor, cross_entropy: CrossEntropy) -> Tensor:
        """Returns the sum over both parts in training, and that of the logits in evaluation."""
        if not self.parts:
            return cross_entropy(classified.logits_BC, labels_B, smooth=False)
        if not self.training:
            return cross_entropy(classified.logits_BC, labels_B)
        deep_BC, wide_BC = self.part_logits(classified).values()
        entropies = [cross_entropy(deep_BC, labels_B), cross_entropy(wide_BC, labels_B, smooth=False)]
        return torch.stack(entropies).sum()

    def part_logits(self, classified: Classified) -> dict[str, Tensor]:
        """Returns logits_BC of each of `parts`."""
        assert classified.wide is not None
        return dict(zip(self.parts, classified.wide[:2], strict=False))

    def count(self, read: Callable[[], TrainingTexts]) -> None:
        """Reads the training texts for both parts."""
        super().count(read)
        self.wide.count(read)

    def parameter_groups(self, weight_decay_on: DecayOn, options: Collection[str]) -> list[dict[str, Any]]:
        """Adds the weights of the wide part, which have their own learning rate and plain gradient descent.

        Adam and its like divide by root mean squares of gradients plus `eps`. These stay below 0.1, so eps=1 turns Adam
        into SGD.

        Raises:
            ValueError: If the optimizer cannot do so.
        """
        groups = super().parameter_groups(weight_decay_on, options)
        if not self.wide.weights:
            return groups
        if "eps" in options:
            plain = {"eps": 1.0}
        elif "momentum" in options:
            plain = {"momentum": 0.0}
        else:
            raise ValueError("model/wide=ngrams needs an optimizer with eps or momentum, such as Adam or SGD")
        group = {"params": self.wide.weights, "lr": self.wide.lr, "weight_decay": self.wide.weight_decay}
        return [*groups, group | plain]

    def trained_parameters(self) -> list[nn.Parameter]:
        """Returns all but the weights of the wide part."""
        wide = {id(parameter) for parameter in self.wide.weights}
        return [parameter for parameter in self.parameters() if id(parameter) not in wide]
