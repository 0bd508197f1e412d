"""The whole model: embed, encode, attend, pool, classify."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from sentattn.config.types import Positive, checked
from sentattn.errors import Fault, SettingError
from sentattn.models.attention.base import Attended, Attention
from sentattn.models.embedding import Embedding
from sentattn.models.encoders.base import Encoder
from sentattn.models.head import Head
from sentattn.models.pooling import Pooling


class Classified(NamedTuple):
    """Logits, and the attention that led to them."""

    logits_BC: Tensor
    attended: Attended


class TextClassifier(nn.Module):
    """Any embedding x any encoder x any attention x any pooling, and a head.

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
                message = (
                    f"model.freeze_attention=true has no effect: {type(attention).__name__} has no weights to learn."
                )
                raise SettingError(Fault("model.freeze_attention", "no_effect", message))
            for parameter in scoring:
                parameter.requires_grad_(False)

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor, *, pairs: bool = False) -> Classified:
        """Classifies a batch.

        Args:
            tokens_BL: Ids of the tokens, padded at the end.
            mask_BL: True at real tokens, at least one a row.
            pairs: Whether to return token-to-token weights: the attention's, or else the encoder's.
        """
        states_BLE = self.embedding(tokens_BL, mask_BL)
        states_BLD = self.encoder(states_BLE, mask_BL)
        attended: Attended = self.attention(states_BLD, mask_BL)
        if pairs:
            pairs_BHLL = self.attention.pairs(states_BLD, mask_BL)
            pairs_BHLL = self.encoder.pairs(states_BLE, mask_BL) if pairs_BHLL is None else pairs_BHLL
            attended = attended._replace(pairs_BHLL=pairs_BHLL)
        vector_BP = self.pooling(attended.values_BRD)
        return Classified(self.head(vector_BP), attended)
