"""N-grams beside words, against counting by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.models.embedding import UNKNOWN_ID, TrainingTexts
from sentattn.models.ngrams import NGrams

WORDS = 12
ROWS = st.lists(st.lists(st.integers(UNKNOWN_ID, WORDS - 1), min_size=1, max_size=12), min_size=1, max_size=6)


def make(**settings: object) -> NGrams:
    torch.manual_seed(0)
    defaults = {"size": 4, "ngram_size": 3, "ngram_vocab_size": 8, "ngram_min_count": 1}
    return NGrams(num_embeddings=WORDS, **(defaults | settings)).eval()


def counted(embedding: NGrams, rows: list[list[int]]) -> NGrams:
    offsets = np.cumsum([0, *map(len, rows)])
    embedding.prepare_training(
        lambda: TrainingTexts(np.concatenate(rows).astype(np.int64), offsets, np.zeros(len(rows), np.int64))
    )
    return embedding


def ends_with(row: list[int], place: int, order: int) -> tuple[int, ...] | None:
    """The n-gram that ends at a place of a row, in plain Python."""
    words = tuple(row[max(0, place - order + 1) : place + 1])
    return words if len(words) == order and UNKNOWN_ID not in words else None


def frequent(rows: list[list[int]], *, most: int, min_count: int) -> list[tuple[int, ...]]:
    """The most frequent n-grams; shorter ones first among equals, then by their words."""
    grams = [ends_with(row, place, n) for row in rows for place in range(len(row)) for n in (2, 3)]
    counts = Counter(gram for gram in grams if gram is not None)
    ordered = sorted(counts, key=lambda gram: (-counts[gram], len(gram), gram))
    return [gram for gram in ordered if counts[gram] >= min_count][:most]


def numbered(rows: list[list[int]], *, most: int, min_count: int) -> dict[tuple[int, ...], int]:
    """Each kept n-gram with the place of its vector: shorter ones first, then by their words."""
    kept = sorted(frequent(rows, most=most, min_count=min_count), key=lambda gram: (len(gram), gram))
    return {gram: number for number, gram in enumerate(kept, start=1)}


@given(rows=ROWS, min_count=st.integers(1, 3))
def test_tokens_have_the_vectors_of_ngrams_that_end_there(rows: list[list[int]], min_count: int) -> None:
    embedding = counted(make(ngram_min_count=min_count), rows)
    vectors = embedding.ngram_vectors.weight.detach()
    ids = numbered(rows, most=8, min_count=min_count)
    for row in rows:
        states_LE = embedding(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.bool))[0].detach()
        for place, word in enumerate(row):
            here = [ids.get(gram, 0) for n in (2, 3) if (gram := ends_with(row, place, n))]
            expected = vectors[here].sum(0) if here else torch.zeros(3)
            torch.testing.assert_close(states_LE[place, 4:], expected)
            assert torch.equal(states_LE[place, :4], embedding.vectors.weight[word])


def test_the_table_is_saved_with_the_weights() -> None:
    rows = [[2, 3, 4, 2, 3]]
    trained, fresh = counted(make(), rows), make()
    fresh.load_state_dict(trained.state_dict())
    tokens_BL, mask_BL = torch.tensor(rows), torch.ones(1, 5, dtype=torch.bool)
    assert torch.equal(trained(tokens_BL, mask_BL), fresh(tokens_BL, mask_BL))
    assert fresh(tokens_BL, mask_BL)[0, 1, 4:].abs().sum() > 0


def test_padding_is_zero_and_ngrams_of_dropped_words_stay() -> None:
    embedding = counted(make(word_dropout=0.9), [[2, 3]]).train()
    states_BLE = embedding(torch.tensor([[2, 3, 0]]), torch.tensor([[True, True, False]]))
    assert torch.equal(states_BLE[0, 1, 4:], embedding.ngram_vectors.weight[1])
    assert (states_BLE[0, 2] == 0).all()


def test_ngram_dropout_leaves_out_whole_ngrams_and_keeps_the_sum() -> None:
    embedding = counted(make(ngram_dropout=0.5, orders=[2]), [[2, 3]]).train()
    tokens_BL = torch.tensor([[2, 3]]).repeat(400, 1)
    seen = (
        embedding(tokens_BL, torch.ones_like(tokens_BL, dtype=torch.bool))[:, 1, 4:] / embedding.ngram_vectors.weight[1]
    )
    assert set(seen.round(decimals=4).unique().tolist()) == {0.0, 2.0}
    assert (seen == seen[:, :1]).all()
    assert 0.8 < seen.mean() < 1.2


@pytest.mark.parametrize("orders", [[], [1], [2, 2], [2, 20]])  # no 64 bits hold an n-gram of 20 words
def test_orders_without_a_code_are_refused(orders: list[int]) -> None:
    with pytest.raises(ValueError, match="orders"):
        make(orders=orders)


@pytest.mark.parametrize("preset", ["structured", "transformer", "pretrained", "wide"])
def test_ngrams_in_variants_with_other_embeddings(preset: str) -> None:
    model = build_model(
        compose([f"model={preset}", "model/embedding=ngrams"])["model"], num_embeddings=WORDS, classes=3
    )
    assert isinstance(model.embedding, NGrams)
    counted(model.embedding, [[2, 3, 4]] * 3)
    tokens_BL = torch.tensor([[2, 3, 4, 5], [5, 2, 0, 0]])
    logits_BC = model.eval()(tokens_BL, tokens_BL != 0).logits_BC
    logits_BC.square().sum().backward()
    assert logits_BC.shape == (2, 3)
    gradient_VE = model.embedding.ngram_vectors.weight.grad
    assert gradient_VE is not None
    assert gradient_VE[1:4].abs().sum() > 0
    assert (gradient_VE[4:] == 0).all()
