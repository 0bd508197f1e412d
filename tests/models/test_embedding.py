"""Words to vectors, with words lost while training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentattn.models.embedding import PAD_ID, UNKNOWN_ID, Words
from sentattn.models.ngrams import NGrams


def test_word_dropout_replaces_words_by_unknown() -> None:
    torch.manual_seed(0)
    embedding = Words(num_embeddings=5, size=3, word_dropout=0.5).train()
    tokens_BL = torch.full((20, 50), 4)
    tokens_BL[:, 25:] = PAD_ID
    states = embedding(tokens_BL, tokens_BL != PAD_ID)
    is_unknown = (states == embedding.vectors.weight[UNKNOWN_ID]).all(-1)
    is_word = (states == embedding.vectors.weight[4]).all(-1)
    assert (is_unknown ^ is_word)[:, :25].all()
    assert 0.4 < is_unknown[:, :25].float().mean() < 0.6
    assert (states[:, 25:] == 0).all()
    kept = embedding.eval()(tokens_BL, tokens_BL != PAD_ID)
    assert (kept[:, :25] == embedding.vectors.weight[4]).all()
    assert (kept[:, 25:] == 0).all()


def test_positions_are_added_to_words_only() -> None:
    embedding = Words(num_embeddings=5, size=3, positions=4).eval()
    tokens_BL = torch.tensor([[2, 2, 2], [2, PAD_ID, PAD_ID]])
    states_BLE = embedding(tokens_BL, tokens_BL != PAD_ID)
    assert embedding.positions is not None
    expected = embedding.vectors.weight[2] + embedding.positions.weight[:3]
    torch.testing.assert_close(states_BLE[0], expected)
    torch.testing.assert_close(states_BLE[1, 0], expected[0])
    assert (states_BLE[1, 1:] == 0).all()


def test_init_std_of_the_vectors() -> None:
    torch.manual_seed(0)
    weight_VE = Words(num_embeddings=500, size=40, init_std=0.03).vectors.weight
    # The standard error of the deviation of 20,000 normal numbers is 0.5%.
    assert abs(float(weight_VE[1:].detach().std()) / 0.03 - 1) < 0.02
    assert (weight_VE[PAD_ID] == 0).all()


def pretrained(num_embeddings: int, found: int) -> tuple[Tensor, Tensor]:
    """Vectors of three numbers, far from zero and of unlike spread, for the first words; rubbish for the others."""
    random = torch.Generator().manual_seed(7)
    mean, std = torch.tensor([5.0, 0.0, -2.0]), torch.tensor([1.0, 0.1, 3.0])
    vectors_VE = mean + std * torch.randn(num_embeddings, 3, generator=random)
    found_V = torch.arange(num_embeddings).ge(2) & torch.arange(num_embeddings).lt(2 + found)
    vectors_VE[~found_V] = 1e9
    return vectors_VE, found_V


@pytest.mark.parametrize("frozen", [False, True])
def test_words_start_from_pretrained_vectors(frozen: bool) -> None:
    vectors_VE, found_V = pretrained(50, 20)
    embedding = Words(num_embeddings=50, size=3, frozen=frozen, positions=4)
    embedding.start_from(vectors_VE, found_V)
    weight_VE = embedding.vectors.weight.detach()
    assert torch.equal(weight_VE[2:22], vectors_VE[2:22])
    assert weight_VE[PAD_ID].tolist() == [0.0, 0.0, 0.0]
    expected = vectors_VE[2:22].double().numpy().mean(axis=0)
    assert weight_VE[UNKNOWN_ID].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert embedding.vectors.weight.requires_grad is not frozen
    assert (weight_VE[22:] == weight_VE[UNKNOWN_ID]).all() == frozen  # the others are drawn, where they are learned
    assert embedding.positions is not None
    assert embedding.positions.weight.abs().max() < 1


def test_words_without_a_vector_are_drawn_by_dimension() -> None:
    vectors_VE, found_V = pretrained(20_000, 50)
    embedding = Words(num_embeddings=20_000, size=3)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        embedding.start_from(vectors_VE, found_V)
        return embedding.vectors.weight.detach()[52:].clone()

    found, others = vectors_VE[2:52].double().numpy(), drawn(0).double().numpy()
    # The standard error of the mean of 20,000 draws is 0.7% of their deviation, that of the deviation 0.5%.
    assert (abs(others.mean(axis=0) - found.mean(axis=0)) < 0.03 * found.std(axis=0)).all()
    assert (abs(others.std(axis=0) / found.std(axis=0) - 1) < 0.02).all()
    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1))


def test_embeddings_of_ngrams_start_from_pretrained_vectors() -> None:
    vectors_VE, found_V = pretrained(50, 20)
    embedding = NGrams(num_embeddings=50, size=3, ngram_size=2, ngram_vocab_size=10).eval()
    before = embedding.ngram_vectors.weight.detach().clone()
    embedding.start_from(vectors_VE, found_V)
    tokens_BL = torch.tensor([[4, 5, PAD_ID]])
    states_BLE = embedding(tokens_BL, tokens_BL != PAD_ID)
    assert torch.equal(states_BLE[0, :2, :3], vectors_VE[[4, 5]])
    assert (states_BLE[0, 2] == 0).all()
    assert torch.equal(embedding.ngram_vectors.weight, before)
