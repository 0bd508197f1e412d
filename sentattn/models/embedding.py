"""Embeddings: token ids to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, Positive, checked
from sentattn.models.dropout import Dropout

PAD_ID, UNKNOWN_ID = 0, 1
POSITION_STD = 0.02
"""Small compared with the words, as in GPT-2 and BERT; positions of the same size would hide them at first."""


class TrainingTexts(NamedTuple):
    """The ids of all training rows one after another, where each row starts, with the end of the last, and labels."""

    tokens: NDArray[np.int64]
    offsets: NDArray[np.int64]
    labels_N: NDArray[np.int64]


class Embedding(nn.Module, ABC):
    """Turns token ids into vectors.

    Attributes:
        out_dim: Width E of a vector.
        reads: Whether the vectors depend on the words.
        blank_id: Id of the token that replaces a hidden one.
        fingerprint: Hash of the files that it is made of, if it is.
        frozen_parameters: Number of parameters that are no part of the model's weights.
    """

    reads: ClassVar[bool] = True
    out_dim: int
    blank_id: int = UNKNOWN_ID
    fingerprint: str | None = None
    frozen_parameters: int = 0

    @abstractmethod
    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLE."""

    def inputs(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the vectors of the tokens that gradients are taken at, from which `contextual` makes the states."""
        states_BLE: Tensor = self(tokens_BL, mask_BL)
        return states_BLE

    def contextual(self, inputs_BLI: Tensor, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLE of vectors that take the place of those of the tokens."""
        return inputs_BLI

    def attended(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns which of the real tokens the attention may read, at least one a row; all by default."""
        return mask_BL

    def prepare_training(self, read: Callable[[], TrainingTexts]) -> None:
        """Reads the training texts, or weights, once before training, if the embedding needs them."""
        return

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Returns the parameters that have a learning rate of their own, as PyTorch's optimizers take them."""
        return []

    def start_from(self, vectors_VE: Tensor, known_V: Tensor) -> None:
        """Starts from pretrained vectors, before training.

        Args:
            vectors_VE: One vector an id, the specials included.
            known_V: Which ids have one; the rows of the others have no meaning.

        Raises:
            ValueError: If the embedding has no vectors of words.
        """
        raise ValueError(f"{type(self).__name__} has no vectors of words")


class NoWords(Embedding):
    """The same number for every word, so that head and attention are a constant: a model of its wide part alone.

    Args:
        num_embeddings: Number of ids; it changes nothing.
        word_dropout: It changes nothing; settings of data sets have it for other embeddings.
    """

    reads = False

    @checked
    def __init__(self, *, num_embeddings: Count, word_dropout: Fraction = 0.0) -> None:
        super().__init__()
        self.out_dim = 1
        self.one: Tensor
        self.register_buffer("one", torch.ones(1), persistent=False)  # of the type that the model computes with

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLE: 1 at each word, 0 on padding."""
        return mask_BL[..., None] * self.one


class Words(Embedding):
    """One vector a word, and with `positions` one a position.

    Word dropout replaces whole words by `<unk>` while training (Dai and Le 2015), so that no review is decided by one
    word alone and the vector of `<unk>` is trained.

    Args:
        num_embeddings: Number of ids, the specials included.
        size: Width E of a vector.
        dropout: Share of the vectors' components set to 0 while training.
        word_dropout: Share of the words replaced by `<unk>` while training.
        frozen: Keep the vectors of the words as they start.
        init_std: Standard deviation of the words' vectors at the start, where they are random.
        positions: Positions of a text that have a vector, which is added to the word's
            (Gehring et al. 2017); no text may be longer. None for none.
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
        init_std: Positive = 0.1,
        positions: Count | None = None,
    ) -> None:
        super().__init__()
        self.out_dim = size
        self.word_dropout = word_dropout
        self.vectors = vectors(num_embeddings, size, init_std)
        self.vectors.weight.requires_grad_(not frozen)
        self.positions = nn.Embedding(positions, size) if positions is not None else None
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=POSITION_STD)
        self.dropout = Dropout(dropout)

    @torch.no_grad()
    def start_from(self, vectors_VE: Tensor, known_V: Tensor) -> None:
        """Takes pretrained vectors for the words that have one; the others start like them.

        These are drawn, with the variance of the known vectors (Kim 2014, section 4.3) and their mean, dimension by
        dimension: GloVe has dimensions whose mean lies beyond their deviation. `<unk>` is the mean, as Pennington
        advised in GloVe's forum. Frozen, a vector drawn would be noise for good: a word without one is `<unk>` there.
        """
        weight_VE, known_FE = self.vectors.weight, vectors_VE[known_V]
        mean_E, std_E = known_FE.mean(dim=0), known_FE.std(dim=0, correction=0)
        weight_VE[:] = mean_E
        if weight_VE.requires_grad:
            weight_VE += std_E * torch.randn(weight_VE.shape)
        weight_VE[UNKNOWN_ID] = mean_E
        weight_VE[known_V] = known_FE
        weight_VE[PAD_ID] = 0.0

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLE; padding is all zeros."""
        if self.training and self.word_dropout:
            lost_BL = (torch.rand(tokens_BL.shape, device=tokens_BL.device) < self.word_dropout) & mask_BL
            tokens_BL = tokens_BL.masked_fill(lost_BL, UNKNOWN_ID)
        states_BLE: Tensor = self.vectors(tokens_BL)
        if self.positions is not None:
            length = tokens_BL.shape[1]
            assert length <= self.positions.num_embeddings, "texts are clipped to the positions there are"
            states_BLE = states_BLE + self.positions.weight[:length] * mask_BL[..., None]
        dropped_BLE: Tensor = self.dropout(states_BLE)
        return dropped_BLE


def vectors(num_embeddings: int, size: int, std: float) -> nn.Embedding:
    """Returns normally distributed vectors, that of `<pad>` all zeros."""
    embedding = nn.Embedding(num_embeddings, size, padding_idx=PAD_ID)
    nn.init.normal_(embedding.weight, std=std)
    with torch.no_grad():
        embedding.weight[PAD_ID].zero_()
    return embedding
