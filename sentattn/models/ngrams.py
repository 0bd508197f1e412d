"""Words with the bigrams and trigrams they end: order in reach of a model that has no encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sentattn.config.types import Count, Fraction, as_typed, checked
from sentattn.models.embedding import TrainingTexts, Words, vectors

NONE = 2**63 - 1
"""Marks the absence of an n-gram; larger than every key, so that it ends the sorted table."""
LARGEST_KEY = 2**62
NGRAM_STD = 0.1


class NGrams(Words):
    """The vector of each word next to the sum of the vectors of the n-grams that end with it.

    As features of the text (Wang and Manning 2012; Joulin et al. 2017), but kept at their places, so that every encoder
    and attention can use them. An n-gram of a word that is not in the vocabulary has no vector. Dropped words do not
    drop their n-grams; those have a dropout of their own.

    Args:
        num_special: Number of special ids, the first ones, which are in no n-gram.
        orders: Lengths of the n-grams.
        ngram_size: Width of an n-gram's vector; it is appended to the word's.
        ngram_vocab_size: Number of vectors for n-grams.
        ngram_min_count: How often an n-gram must occur in the training rows to have a vector.
        ngram_dropout: Share of the n-grams left out while training.
        words: Those of `Words`.
    """

    @checked
    def __init__(
        self,
        *,
        num_embeddings: Count,
        num_special: Count = 2,
        orders: Sequence[Count] = (2, 3),
        ngram_size: Count = 16,
        ngram_vocab_size: Count = 200000,
        ngram_min_count: Count = 3,
        ngram_dropout: Fraction = 0.0,
        **words: Any,
    ) -> None:
        super().__init__(num_embeddings=num_embeddings, **words)
        require_orders(orders, num_embeddings, least=2)
        self.out_dim += ngram_size
        self.orders = tuple(orders)
        self.base, self.num_special = num_embeddings, num_special
        self.ngram_min_count = ngram_min_count
        self.ngram_dropout = ngram_dropout
        # The first vector is that of no n-gram, as `<pad>` is no word.
        self.ngram_vectors = vectors(ngram_vocab_size + 1, ngram_size, NGRAM_STD)
        self.keys: Tensor
        self.register_buffer("keys", torch.full((ngram_vocab_size,), NONE))

    def prepare_training(self, read: Callable[[], TrainingTexts]) -> None:
        """Gives a vector to each of the most frequent n-grams."""
        most, least = len(self.keys), self.ngram_min_count
        kept = frequent_keys(read(), self.orders, self.base, self.num_special, most=most, min_count=least)
        self.keys.fill_(NONE)
        self.keys[: len(kept)] = torch.from_numpy(kept)

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLE: the word's vector, then the sum of its n-grams'; padding is all zeros."""
        words_BLE = super().forward(tokens_BL, mask_BL)
        ngrams_BLE = sum(self._dropped(self.ngram_vectors(self._ids(tokens_BL, order))) for order in self.orders)
        return torch.cat([words_BLE, self.dropout(ngrams_BLE)], dim=-1)

    def _dropped(self, vectors_BLE: Tensor) -> Tensor:
        """Leaves out whole n-grams while training, and makes the others up for it."""
        if not self.training:  # the change of shapes below could not be exported
            return vectors_BLE
        rows: Tensor = functional.dropout1d(vectors_BLE.flatten(0, 1), self.ngram_dropout)
        return rows.view_as(vectors_BLE)

    def _ids(self, tokens_BL: Tensor, order: int) -> Tensor:
        """Returns the row of the n-gram that ends at each position, (B, L); 0 where there is none."""
        return 1 + table_rows(ngram_keys(tokens_BL, order, self.base, self.num_special), self.keys)


def require_orders(orders: Sequence[int], num_embeddings: int, *, least: int) -> None:
    """Refuses lengths of n-grams that are none, or that are too long for one number each."""
    if not orders or min(orders) < least or len(set(orders)) < len(orders):
        raise ValueError(f"orders must be a list of different integers >= {least}, got {as_typed(orders)}")
    if num_embeddings ** max(orders) >= LARGEST_KEY:
        raise ValueError(f"orders={as_typed(orders)} is too long for {num_embeddings:,} words; lower one of them")


def table_rows(keys_BL: Tensor, table_F: Tensor) -> Tensor:
    """Returns the row that each n-gram has in a table, (B, L); -1 where it has none.

    Args:
        keys_BL: N-grams as numbers, as `ngram_keys` gives them.
        table_F: The numbers of the table's n-grams, sorted.
    """
    places_BL = torch.searchsorted(table_F, keys_BL).clamp_max(len(table_F) - 1)
    is_known_BL = (table_F[places_BL] == keys_BL) & (keys_BL != NONE)
    return torch.where(is_known_BL, places_BL, -1)


def ngram_keys(tokens_BL: Tensor, order: int, base: int, num_special: int) -> Tensor:
    """Returns the n-gram that ends at each place as one number, (B, L); `NONE` where a token is special or missing.

    The number has the words as its digits; the first is no special, so lengths cannot be confused.
    """
    keys_BL, known_BL = torch.zeros_like(tokens_BL), torch.ones_like(tokens_BL, dtype=torch.bool)
    for back in reversed(range(order)):
        digit_BL = functional.pad(tokens_BL, (back, 0))[:, : tokens_BL.shape[1]]
        keys_BL = keys_BL * base + digit_BL
        known_BL = known_BL & (digit_BL >= num_special)
    return keys_BL.masked_fill(~known_BL, NONE)


def frequent_keys(
    texts: TrainingTexts, orders: Sequence[int], base: int, num_special: int, *, most: int, min_count: int
) -> NDArray[np.int64]:
    """Returns the most frequent n-grams of the training rows, as sorted numbers."""
    counted = [np.unique(_flat_keys(texts, order, base, num_special), return_counts=True) for order in orders]
    keys, counts = (np.concatenate(parts) for parts in zip(*counted, strict=True))
    often = counts >= min_count
    keys, counts = keys[often], counts[often]
    kept: NDArray[np.int64] = np.sort(keys[np.lexsort((keys, -counts))[:most]])
    return kept


def _flat_keys(texts: TrainingTexts, order: int, base: int, num_special: int) -> NDArray[np.int64]:
    """Returns the n-grams of all rows, one row after another."""
    keys: NDArray[np.int64] = ngram_keys(torch.from_numpy(texts.tokens)[None], order, base, num_special)[0].numpy()
    places = np.arange(len(texts.tokens)) - np.repeat(texts.offsets[:-1], np.diff(texts.offsets))
    kept: NDArray[np.int64] = keys[(places >= order - 1) & (keys != NONE)]
    return kept
