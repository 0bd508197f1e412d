"""The whole model: embed, encode, attend, pool, classify; with a wide part, n-grams next to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor, nn

from sentattn.config.types import Positive, as_typed, checked
from sentattn.errors import Fault, SettingError
from sentattn.models.attention.base import Attended, Attention
from sentattn.models.embedding import Embedding
from sentattn.models.encoders.base import Encoder
from sentattn.models.head import Head
from sentattn.models.pooling import Pooling
from sentattn.models.wide import NoWide, TrainingTexts, Wide, WideNGrams, WideTerms


class Classified(NamedTuple):
    """Logits, and the attention that led to them.

    Attributes:
        logits_BC: The logits.
        attended: The attention.
        parts: The logits of each part alone, `attention` and `wide`, where the model has a wide part.
        wide: What each n-gram adds to them, where the model has a wide part.
    """

    logits_BC: Tensor
    attended: Attended
    parts: Mapping[str, Tensor] = MappingProxyType({})
    wide: WideTerms | None = None


class TextClassifier(nn.Module):
    """Any embedding x any encoder x any attention x any pooling, and a head; next to them a wide part or none.

    Args:
        name: The variant's name, for people.
        init_std: Standard deviation of the normal distribution from which all weights after the embedding are drawn
            (Lin et al. 2017: 0.1); None leaves them as each part draws them. Biases are not drawn.
        freeze_attention: Keep the parameters that score the tokens as they start, at random: a control that tells
            what a learned attention adds to a random one.
    """

    @checked
    def __init__(
        self,
        *,
        embedding: Embedding,
        encoder: Encoder,
        attention: Attention,
        pooling: Pooling,
        head: Head,
        wide: Wide | None = None,
        name: str,
        init_std: Positive | None = None,
        freeze_attention: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.embedding, self.encoder, self.attention = embedding, encoder, attention
        self.pooling, self.head = pooling, head
        self.wide = wide if wide is not None else NoWide()
        if isinstance(self.wide, WideNGrams) and self.wide.attend and not embedding.reads:
            typed = as_typed(self.wide.attend)
            message = f"model.wide.attend={typed} has no effect: model/embedding=none leaves nothing to attend to."
            raise SettingError(Fault("model.wide.attend", "no_effect", message))
        if init_std is not None:
            for weight in (w for part in (encoder, attention, pooling, head) for w in part.parameters() if w.dim() > 1):
                nn.init.normal_(weight, std=init_std)
        if freeze_attention:
            scoring = list(attention.scoring_parameters())
            if not scoring:
                message = (
                    f"model.freeze_attention=true has no effect: {type(attention).__name__} has no weights to learn."
                )
                raise SettingError(Fault("model.freeze_attention", "no_effect", message))
            for parameter in scoring:
                parameter.requires_grad_(False)

    def count(self, read: Callable[[], TrainingTexts]) -> None:
        """Reads the training texts once, before training, if a part needs them."""
        self.embedding.count(lambda: read()[:2])
        self.wide.count(read)

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part in the logits, which are a weighted sum; empty where there is one part only."""
        has_both = self.embedding.reads and not isinstance(self.wide, NoWide)
        return {"attention": 1 - self.wide.share, "wide": self.wide.share} if has_both else {}

    def forward(
        self,
        tokens_BL: Tensor,
        mask_BL: Tensor,
        *,
        labels_B: Tensor | None = None,
        lengths_B: Tensor | None = None,
        pairs: bool = False,
    ) -> Classified:
        """Classifies a batch.

        Args:
            tokens_BL: Ids of the tokens, padded at the end.
            mask_BL: True at real tokens, at least one a row.
            labels_B: The labels of training rows, so that a wide part that has counted them can leave them out.
            lengths_B: Numbers of real tokens in main memory, with which some encoders are faster on a GPU.
            pairs: Whether to return token-to-token weights: the attention's, or else the encoder's.
        """
        states_BLE = self.embedding(tokens_BL, mask_BL)
        lengths = (lengths_B,) if self.encoder.reads_lengths else ()
        states_BLD = self.encoder(states_BLE, mask_BL, *lengths)
        attended: Attended = self.attention(states_BLD, mask_BL)
        if pairs:
            pairs_BHLL = self.attention.pairs(states_BLD, mask_BL)
            pairs_BHLL = self.encoder.pairs(states_BLE, mask_BL) if pairs_BHLL is None else pairs_BHLL
            attended = attended._replace(pairs_BHLL=pairs_BHLL)
        return self.classify(attended, self.wide(tokens_BL, mask_BL, states_BLD, labels_B))

    def classify(self, attended: Attended, wide: WideTerms | None) -> Classified:
        """Classifies what an attention has read, and adds the logits of the wide part."""
        deep_BC: Tensor = self.head(self.pooling(attended.values_BRD))
        if wide is None:
            return Classified(deep_BC, attended)
        wide_BC = wide.terms_BGC.sum(dim=1)
        if not (shares := self.shares):  # there is nothing to attend to: the head is the intercept
            logits_BC = deep_BC + wide_BC
            return Classified(logits_BC, attended, {"wide": logits_BC}, wide)
        deep_BC = deep_BC + wide.attended_BGC.sum(dim=1)
        logits_BC = shares["attention"] * deep_BC + shares["wide"] * wide_BC
        return Classified(logits_BC, attended, {"attention": deep_BC, "wide": wide_BC}, wide)
