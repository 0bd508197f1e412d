"""Words to vectors, with words lost while training."""

from __future__ import annotations

import torch

from sentattn.models.embedding import PAD_ID, UNKNOWN_ID, Words


def test_padding_is_zero_and_words_have_their_rows() -> None:
    embedding = Words(num_embeddings=5, size=3).eval()
    states = embedding(torch.tensor([[4, PAD_ID]]), torch.tensor([[True, False]]))
    assert torch.equal(states[0, 0], embedding.vectors.weight[4])
    assert states[0, 1].tolist() == [0.0, 0.0, 0.0]


def test_word_dropout_loses_whole_words_to_unknown_and_never_padding() -> None:
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


def test_frozen_vectors_have_no_gradient() -> None:
    assert not Words(num_embeddings=5, size=3, frozen=True).vectors.weight.requires_grad
    assert Words(num_embeddings=5, size=3).vectors.weight.requires_grad


def test_positions_add_the_vector_of_the_place_and_none_to_padding() -> None:
    embedding = Words(num_embeddings=5, size=3, positions=4).eval()
    tokens_BL = torch.tensor([[2, 2, 2], [2, PAD_ID, PAD_ID]])
    states_BLE = embedding(tokens_BL, tokens_BL != PAD_ID)
    assert embedding.positions is not None
    expected = embedding.vectors.weight[2] + embedding.positions.weight[:3]
    torch.testing.assert_close(states_BLE[0], expected)
    torch.testing.assert_close(states_BLE[1, 0], expected[0])
    assert (states_BLE[1, 1:] == 0).all()


def test_vectors_start_with_the_spread_asked_for() -> None:
    torch.manual_seed(0)
    weight_VE = Words(num_embeddings=500, size=40, init_std=0.03).vectors.weight
    # The standard error of the deviation of 20,000 normal numbers is 0.5%.
    assert abs(float(weight_VE[1:].detach().std()) / 0.03 - 1) < 0.02
    assert (weight_VE[PAD_ID] == 0).all()
