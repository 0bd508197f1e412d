"""The whole model: embed, encode, attend, pool, classify."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from sentattn.config.types import Positive, checked
from sentattn.models.attention.base import Attended, Attention
from sentattn.models.embedding import Embedding, TrainingTexts
from sentattn.models.encoders.base import Encoder
from sentattn.models.head import Head
from sentattn.models.pooling import Pooling

CrossEntropy = Callable[..., Tensor]
"""Returns the cross entropy of logits_BC and labels_B; with `smooth=False` of the labels as they are."""
DecayOn = Literal["all", "attention_and_head"]


class WideTerms(NamedTuple):
    """What each n-gram of a text adds to the logits; G places for n-grams, 0 where there is none.

    Attributes:
        terms_BGC: To the logits of the wide part.
        attended_BGC: To the logits of the attention, and trained with them; 0 where it has none.
        places_BG: The n-gram of order `orders[i]` that ends at token t of L has the place i L + t.
        is_present_BG: Which places have an n-gram.
    """

    terms_BGC: Tensor
    attended_BGC: Tensor
    places_BG: Tensor
    is_present_BG: Tensor


class WideOutput(NamedTuple):
    """Logits of the two parts of a `WideAndDeep` model, and what each n-gram adds to them."""

    deep_BC: Tensor
    wide_BC: Tensor
    terms: WideTerms


class Classified(NamedTuple):
    """Logits, and the attention that led to them.

    Attributes:
        logits_BC: The logits.
        attended: The attention.
        states_BLD: The encoder's states.
        wide: The parts of the logits, of a `WideAndDeep` model.
    """

    logits_BC: Tensor
    attended: Attended
    states_BLD: Tensor
    wide: WideOutput | None = None


class TextClassifier(nn.Module):
    """Any embedding x any encoder x any attention x any pooling, and a head.

    Args:
        name: The variant's name, for people.
        init_std: Standard deviation of the normal distribution from which all weights after the embedding are drawn
            (Lin et al. 2017: 0.1); None leaves them as each part draws them. Biases are not drawn.
        freeze_attention: Keep the parameters that score the tokens as they start, at random: a control that shows
            what a learned attention adds to a random one.

    Attributes:
        parts: Names of the parts whose logits are added, where there are several.

    Raises:
        ValueError: If an attention is to be frozen that has no weights to learn.
    """

    parts: tuple[str, ...] = ()

    @checked
    def __init__(
        self,
        *,
        embedding: Embedding,
        encoder: Encoder,
        attention: Attention,
        pooling: Pooling,
        head: Head,
        name: str,
        init_std: Positive | None = None,
        freeze_attention: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.embedding, self.encoder, self.attention = embedding, encoder, attention
        self.pooling, self.head = pooling, head
        if init_std is not None:
            for weight in (w for part in (encoder, attention, pooling, head) for w in part.parameters() if w.dim() > 1):
                nn.init.normal_(weight, std=init_std)
        if freeze_attention:
            scoring = list(attention.scoring_parameters())
            if not scoring:
                raise ValueError(f"freeze_attention: {type(attention).__name__} has no weights to learn")
            for parameter in scoring:
                parameter.requires_grad_(False)

    def forward(
        self,
        tokens_BL: Tensor,
        mask_BL: Tensor,
        *,
        labels_B: Tensor | None = None,
        states_BLE: Tensor | None = None,
        pairs: bool = False,
    ) -> Classified:
        """Classifies a batch.

        Args:
            tokens_BL: Ids of the tokens, padded at the end.
            mask_BL: True at real tokens, at least one a row.
            labels_B: Labels of training rows, which a wide part needs.
            states_BLE: Cached states of a frozen encoder for these tokens.
            pairs: Whether to return token-to-token weights: the attention's, or else the encoder's.
        """
        cached = () if states_BLE is None else (states_BLE,)
        states_BLE = self.embedding(tokens_BL, mask_BL, *cached)
        states_BLD = self.encoder(states_BLE, mask_BL)
        kept_BL = self.embedding.attended(tokens_BL, mask_BL)
        attended = attend(self.attention, states_BLD, mask_BL, kept_BL, pairs=pairs)
        if pairs and attended.pairs_BHLL is None:
            attended = attended._replace(pairs_BHLL=self.encoder.pairs(states_BLE, mask_BL))
        return Classified(self.classify(attended.values_BRD), attended, states_BLD)

    def classify(self, values_BRD: Tensor) -> Tensor:
        """Returns logits_BC from the values of the attention."""
        logits_BC: Tensor = self.head(self.pooling(values_BRD))
        return logits_BC

    def cross_entropy(self, classified: Classified, labels_B: Tensor, cross_entropy: CrossEntropy) -> Tensor:
        """Returns the mean cross entropy of a batch, which is minimized in training and reported in evaluation."""
        return cross_entropy(classified.logits_BC, labels_B)

    def part_logits(self, classified: Classified) -> dict[str, Tensor]:
        """Returns logits_BC of each of `parts`."""
        return {}

    def prepare_training(self, read: Callable[[], TrainingTexts]) -> None:
        """Reads the training texts, or weights, once before training, if a part needs them.

        Raises:
            DataError: If they have nothing that a part needs.
        """
        self.embedding.prepare_training(read)

    def parameter_groups(self, weight_decay_on: DecayOn, options: Collection[str]) -> list[dict[str, object]]:
        """Returns the trainable parameters as PyTorch's optimizers take them.

        Lin et al. (2017) add 1e-4 times the sum of squared weights of attention and head to the loss, in their released
        code: a weight decay of twice as much on these alone, without biases.

        Args:
            weight_decay_on: Which parameters have the optimizer's weight decay.
            options: Names of the optimizer's arguments.
        """
        own = self.own_groups(options)
        inside = {id(parameter) for group in own for parameter in group["params"]}
        trainable = [p for p in self.parameters() if p.requires_grad and id(p) not in inside]
        if weight_decay_on == "all":
            return [{"params": trainable}, *own]
        decayed = {id(w) for part in (self.attention, self.head) for w in part.parameters() if w.dim() > 1}
        return [
            {"params": [parameter for parameter in trainable if id(parameter) in decayed]},
            {"params": [parameter for parameter in trainable if id(parameter) not in decayed], "weight_decay": 0.0},
            *({"weight_decay": 0.0} | group for group in own),
        ]

    def own_groups(self, options: Collection[str]) -> list[dict[str, Any]]:
        """Returns the parameters that have a learning rate of their own, as PyTorch's optimizers take them."""
        return self.embedding.parameter_groups()


def attend(
    attention: Attention, states_BLD: Tensor, mask_BL: Tensor, kept_BL: Tensor, *, pairs: bool = False
) -> Attended:
    """Attends to the tokens that are kept, as if there were no others: these weigh exactly 0."""
    if kept_BL is mask_BL:
        attended: Attended = attention(states_BLD, mask_BL)
        return attended._replace(pairs_BHLL=attention.pairs(states_BLD, mask_BL)) if pairs else attended
    # An attention may read the first or the last token, so those that are kept move to the front.
    length = mask_BL.shape[1]
    places_BL = (kept_BL.cumsum(dim=1) - 1).masked_fill(~kept_BL, length)
    places_BLD = places_BL[..., None].expand_as(states_BLD)
    moved_BLD = pad(torch.zeros_like(states_BLD), (0, 0, 0, 1)).scatter(1, places_BLD, states_BLD)[:, :length]
    is_moved_BL = torch.arange(length, device=mask_BL.device) < kept_BL.sum(dim=1, keepdim=True)
    attended = attend(attention, moved_BLD, is_moved_BL, is_moved_BL, pairs=pairs)
    weights_BRL = pad(attended.weights_BRL, (0, 1)).take_along_dim(places_BL[:, None], dim=2)
    pairs_BHLL = attended.pairs_BHLL
    if pairs_BHLL is not None:
        pairs_BHLL = pad(pairs_BHLL, (0, 1, 0, 1)).take_along_dim(places_BL[:, None, None], dim=3)
        pairs_BHLL = pairs_BHLL.take_along_dim(places_BL[:, None, :, None], dim=2)
    return Attended(attended.values_BRD, weights_BRL, pairs_BHLL)
