"""Attentions without parameters, by hand, and the last state as the final one that a packed `nn.LSTM` reports."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentattn.models.attention.base import Fixed
from sentattn.models.attention.first import First
from sentattn.models.attention.last import Last
from sentattn.models.attention.max import Max
from sentattn.models.attention.mean_max import MeanMax
from sentattn.models.attention.position import Position
from sentattn.models.attention.uniform import Uniform

COUNTED = [[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [9.0] * 4], [[2.0, 3.0, 4.0, 5.0], [9.0] * 4, [9.0] * 4]]
"""Texts of two tokens and of one."""
TIED = [[[1.0, 5.0, 2.0, -3.0], [4.0, 5.0, 1.0, -2.0], [9.0] * 4], [[1.0, 5.0, 2.0, -3.0], [9.0] * 4, [9.0] * 4]]
LONG = [[[1.0, 0.0], [0.0, 3.0], [6.0, 0.0]], [[2.0, 2.0], [9.0, 9.0], [9.0, 9.0]]]
FORWARD, BOTH = Last(dim=4, bidirectional=False), Last(dim=4, bidirectional=True)


def mask(*lengths: int) -> Tensor:
    return torch.arange(3) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize(
    ("module", "states", "length", "values", "weights"),
    [
        (First(dim=4), COUNTED, 2, [0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 0.0]),
        (FORWARD, COUNTED, 2, [4.0, 5.0, 6.0, 7.0], [0.0, 1.0, 0.0]),
        (BOTH, COUNTED, 2, [4.0, 5.0, 2.0, 3.0], [0.5, 0.5, 0.0]),
        (Max(dim=4), TIED, 2, [4.0, 5.0, 2.0, -2.0], [1.5 / 4, 2.5 / 4, 0.0]),  # ties share a channel
        (
            MeanMax(dim=4),
            TIED,
            2,
            [2.5, 5.0, 1.5, -2.5, 4.0, 5.0, 2.0, -2.0],
            [(1 / 2 + 1.5 / 4) / 2, (1 / 2 + 2.5 / 4) / 2, 0.0],
        ),
        (Position(dim=2), LONG, 3, [19 / 6, 1.0], [1 / 6, 2 / 6, 3 / 6]),
        (Uniform(dim=2), LONG, 3, [7 / 3, 1.0], [1 / 3] * 3),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Fixed) else "",
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_weights(
    module: Fixed, states: list, length: int, values: Sequence[float], weights: Sequence[float], dtype: torch.dtype
) -> None:
    states_BLD = torch.tensor(states, dtype=dtype)
    attended = module(states_BLD, mask(length, 1))
    alone = states[1][0] * (module.out_dim // len(states[1][0]))
    torch.testing.assert_close(attended.values_BRD, torch.tensor([[values], [alone]], dtype=dtype))
    torch.testing.assert_close(attended.weights_BRL, torch.tensor([[weights], [[1.0, 0.0, 0.0]]], dtype=dtype))
    halves = module(states_BLD.bfloat16(), mask(length, 1))
    assert (halves.values_BRD.dtype, halves.weights_BRL.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (First(dim=4), [[1.0] * 4, [0.0] * 4, [0.0] * 4]),
        (BOTH, [[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0] * 4]),  # to the halves that are read
        (Max(dim=4), [[0.0, 0.5, 1.0, 0.0], [1.0, 0.5, 0.0, 1.0], [0.0] * 4]),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Fixed) else "",
)
def test_gradient_goes_to_what_is_read(module: Fixed, expected: list[list[float]]) -> None:
    states_BLD = torch.tensor(TIED, requires_grad=True)
    module(states_BLD, mask(2, 1)).values_BRD.sum().backward()
    assert states_BLD.grad is not None
    assert states_BLD.grad.tolist() == [expected, [[1.0] * 4, [0.0] * 4, [0.0] * 4]]


@pytest.mark.parametrize("bidirectional", [False, True])
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), more=st.integers(0, 3))
def test_the_last_states_are_the_final_hidden_ones(bidirectional: bool, lengths: list[int], more: int) -> None:
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
