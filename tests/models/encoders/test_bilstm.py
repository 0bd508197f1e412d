"""The BiLSTM against a packed `nn.LSTM` with the same weights."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentattn.models.encoders.bilstm import BiLSTM, reorder, reversal

LENGTHS = torch.tensor([9, 1, 4, 7])


def twin(encoder: BiLSTM, dim: int, hidden: int, layers: int) -> nn.LSTM:
    packed = nn.LSTM(dim, hidden, num_layers=layers, bidirectional=True, batch_first=True)
    packed = packed.to(next(encoder.parameters()).dtype)
    with torch.no_grad():
        for layer in range(layers):
            for suffix, direction in (("", encoder.forwards[layer]), ("_reverse", encoder.backwards[layer])):
                for name, value in direction.named_parameters():
                    getattr(packed, name.replace("_l0", f"_l{layer}{suffix}")).copy_(value)
    return packed


def packed_forward(lstm: nn.LSTM, states: Tensor) -> Tensor:
    output, _ = lstm(pack_padded_sequence(states, LENGTHS, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(output, batch_first=True)[0]


@pytest.mark.parametrize("own_packing", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("layers", [1, 2])
def test_equals_packed_forward_and_backward(
    dtype: torch.dtype, tolerance: float, layers: int, own_packing: bool
) -> None:
    torch.manual_seed(0)
    encoder = BiLSTM(dim=5, hidden=6, layers=layers).to(dtype)
    packed = twin(encoder, 5, 6, layers)
    mask_BL = torch.arange(9)[None] < LENGTHS[:, None]
    states = torch.randn(4, 9, 5, dtype=dtype)
    ours = (encoder.packed(states, LENGTHS.numpy()) if own_packing else encoder(states, mask_BL))[mask_BL]
    theirs = packed_forward(packed, states)[mask_BL]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    assert encoder.forwards[0].weight_ih_l0.grad is not None
    for mine, other in (("forwards", "weight_hh_l0"), ("backwards", "weight_hh_l0_reverse")):
        gradient = getattr(encoder, mine)[0].weight_hh_l0.grad
        torch.testing.assert_close(gradient, getattr(packed, other).grad, atol=100 * tolerance, rtol=0)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(0, 3), st.booleans())
def test_packed_states_equal_those_of_a_cpu(lengths: list[int], padding: int, copied: bool) -> None:
    torch.manual_seed(0)
    encoder = BiLSTM(dim=3, hidden=2, layers=2)
    encoder = copy.deepcopy(encoder) if copied else encoder
    states = torch.randn(len(lengths), max(lengths) + padding, 3)
    mask_BL = torch.arange(states.shape[1]) < torch.tensor(lengths)[:, None]
    packed = encoder.packed(states, np.array(lengths))
    torch.testing.assert_close(packed[mask_BL], encoder(states, mask_BL)[mask_BL], atol=1e-5, rtol=0)
    assert packed.shape == (*mask_BL.shape, 4)
    assert not packed[~mask_BL].any()


def test_parameters_are_saved_once_and_shared() -> None:
    encoder, other = BiLSTM(dim=3, hidden=2), BiLSTM(dim=3, hidden=2)
    assert len(encoder.state_dict()) == len(list(encoder.parameters())) == 8
    encoder.load_state_dict(other.state_dict())
    states, lengths = torch.randn(2, 4, 3), np.array([4, 4])
    assert torch.equal(encoder.packed(states, lengths), other.packed(states, lengths))


def test_packing_is_used_on_nvidia_gpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, calls = BiLSTM(dim=3, hidden=2), list[int]()
    monkeypatch.setattr(encoder, "packed", lambda states, lengths_B: calls.append(len(lengths_B)) or states)
    states, mask_BL = torch.randn(2, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    encoder(states, mask_BL, torch.tensor([4, 4]))
    assert calls == []
    on_gpu = SimpleNamespace(is_cuda=True, device=SimpleNamespace(type="cuda"))
    assert encoder.forward(cast("Tensor", on_gpu), mask_BL, torch.tensor([4, 4])) is cast("Tensor", on_gpu)
    assert calls == [2]


def test_parameter_count_is_the_formula() -> None:
    encoder = BiLSTM(dim=5, hidden=6, layers=2)
    per_direction = [4 * 6 * (width + 6) + 8 * 6 for width in (5, 12)]
    assert sum(p.numel() for p in encoder.parameters()) == 2 * sum(per_direction)


def test_reversal_by_hand() -> None:
    mask_BL = torch.tensor([[True, True, True, False], [True, False, False, False]])
    order_BL = reversal(mask_BL)
    assert order_BL.tolist() == [[2, 1, 0, 3], [0, 1, 2, 3]]
    states = torch.arange(8.0).reshape(2, 4, 1)
    assert reorder(states, order_BL)[0, :, 0].tolist() == [2.0, 1.0, 0.0, 3.0]
    assert torch.equal(reorder(reorder(states, order_BL), order_BL), states)
