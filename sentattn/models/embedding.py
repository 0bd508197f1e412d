"""Embeddings: token ids to vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.kinds import Count, Fraction, checked

PAD_ID, UNKNOWN_ID = 0, 1


class Words(nn.Module):
    """One vector a word.

    Word dropout replaces whole words by `<unk>` while training (Dai and Le 2015), so that no review
    is decided by one word alone and the vector of `<unk>` is trained.

    Args:
        num_embeddings: Number of ids, the specials included.
        size: Width E of a vector.
        dropout: Share of the vectors' components set to 0 while training.
        word_dropout: Share of the words replaced by `<unk>` while training.
        frozen: Keep the vectors as they are initialised.

    Raises:
        SettingError: If an argument is out of range.
    """

    @checked
    def __init__(
        self,
        *,
        num_embeddings: Count,
        size: Count = 100,
        dropout: Fraction = 0.0,
        word_dropout: Fraction = 0.0,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        self.out_dim = size
        self.word_dropout = word_dropout
        self.vectors = nn.Embedding(num_embeddings, size, padding_idx=PAD_ID)
        nn.init.normal_(self.vectors.weight, std=0.1)
        with torch.no_grad():
            self.vectors.weight[PAD_ID].zero_()
        self.vectors.weight.requires_grad_(not frozen)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLE; padding is all zeros."""
        if self.training and self.word_dropout:
            lost_BL = (torch.rand(tokens_BL.shape, device=tokens_BL.device) < self.word_dropout) & mask_BL
            tokens_BL = tokens_BL.masked_fill(lost_BL, UNKNOWN_ID)
        states_BLE: Tensor = self.dropout(self.vectors(tokens_BL))
        return states_BLE
