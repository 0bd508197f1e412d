"""The last state by hand, and as the final hidden states that a packed `nn.LSTM` reports."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentattn.models.attention.last import Last

STATES_BLD = torch.arange(24.0).reshape(2, 3, 4)
MASK_BL = torch.tensor([[True, True, False], [True, False, False]])


def test_one_direction_by_hand() -> None:
    attended = Last(dim=4, bidirectional=False)(STATES_BLD, MASK_BL)
    assert attended.weights_BRL.tolist() == [[[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]]
    assert attended.values_BRD.tolist() == [[[4.0, 5.0, 6.0, 7.0]], [[12.0, 13.0, 14.0, 15.0]]]


def test_two_directions_by_hand() -> None:
    attended = Last(dim=4, bidirectional=True)(STATES_BLD, MASK_BL)
    assert attended.weights_BRL.tolist() == [[[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]]]
    assert attended.values_BRD.tolist() == [[[4.0, 5.0, 2.0, 3.0]], [[12.0, 13.0, 14.0, 15.0]]]


@pytest.mark.parametrize("bidirectional", [False, True])
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), more=st.integers(0, 3))
def test_equals_the_final_hidden_states(bidirectional: bool, lengths: list[int], more: int) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 2, bidirectional=bidirectional, batch_first=True)
    packed = pack_padded_sequence(
        torch.randn(len(lengths), max(lengths), 3), torch.tensor(lengths), batch_first=True, enforce_sorted=False
    )
    output, (final_directions_BU, _) = lstm(packed)
    states_BLD: Tensor = pad_packed_sequence(output, batch_first=True, padding_value=9.0, total_length=6 + more)[0]
    mask_BL = torch.arange(6 + more) < torch.tensor(lengths)[:, None]
    attended = Last(dim=states_BLD.shape[2], bidirectional=bidirectional)(states_BLD, mask_BL)
    assert torch.equal(attended.values_BRD[:, 0], torch.cat(list(final_directions_BU), dim=1))
    assert (attended.weights_BRL.sum(dim=2) == 1).all()
    assert (attended.weights_BRL[~mask_BL[:, None]] == 0).all()


def test_gradient_goes_to_the_halves_that_are_read() -> None:
    states = STATES_BLD.clone().requires_grad_()
    Last(dim=4, bidirectional=True)(states, MASK_BL).values_BRD.sum().backward()
    assert states.grad is not None
    assert states.grad[0].tolist() == [[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0] * 4]
    assert states.grad[1].tolist() == [[1.0] * 4, [0.0] * 4, [0.0] * 4]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_weights_keep_at_least_single_precision(dtype: torch.dtype) -> None:
    attended = Last(dim=4, bidirectional=True)(STATES_BLD.to(dtype), MASK_BL)
    assert attended.values_BRD.dtype == dtype
    assert attended.weights_BRL.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
