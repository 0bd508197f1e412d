from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sentattn.export.onnx_folder import OnnxLSTM, lower_bound, with_onnx_lstms

NUMBERS = st.integers(-(2**62), 2**63 - 1)


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.lists(NUMBERS, min_size=1, max_size=9))
def test_lower_bound_equals_numpy(table: list[int], values: list[int]) -> None:
    sorted_N = np.sort(np.array(table))
    wanted = np.array([*values, *table])  # numbers that are there, too
    found = lower_bound(torch.from_numpy(sorted_N), torch.from_numpy(wanted))
    assert found.tolist() == np.searchsorted(sorted_N, wanted).tolist()


def test_lstms_of_one_direction_and_layer_are_replaced_in_a_copy() -> None:
    kept = [nn.LSTM(2, 3, bidirectional=True, batch_first=True), nn.LSTM(2, 3, 2, batch_first=True), nn.LSTM(2, 3)]
    model = nn.Sequential(nn.LSTM(2, 3, batch_first=True), nn.ModuleList(kept), nn.Linear(1, 1))
    copied = with_onnx_lstms(model)
    assert isinstance(copied[0], OnnxLSTM)
    assert [type(part) for part in copied[1]] == [nn.LSTM] * 3  # type: ignore[union-attr]
    assert type(model[0]) is nn.LSTM


def test_gates_have_the_order_of_onnx() -> None:
    lstm = nn.LSTM(1, 1, batch_first=True)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter[:] = torch.arange(4.0).view_as(parameter)  # torch: input 0, forget 1, cell 2, output 3
    exchanged = OnnxLSTM(lstm)
    order = [0.0, 3.0, 1.0, 2.0]  # ONNX: input, output, forget, cell
    assert exchanged.incoming.tolist() == exchanged.recurrent.tolist() == [[[gate] for gate in order]]
    assert exchanged.biases.tolist() == [order + order]
