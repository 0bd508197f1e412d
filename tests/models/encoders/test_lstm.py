"""The LSTM against a packed `nn.LSTM` with the same weights, and against its equations in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentattn.models.encoders import bilstm, lstm
from sentattn.models.encoders.bilstm import BiLSTM
from sentattn.models.encoders.lstm import LSTM, leaves_autocast

LENGTHS = torch.tensor([9, 1, 4, 7])
MASK_BL = torch.arange(9)[None] < LENGTHS[:, None]


def twin(encoder: LSTM, layers: int) -> nn.LSTM:
    packed = nn.LSTM(5, 6, num_layers=layers, batch_first=True).to(next(encoder.parameters()).dtype)
    with torch.no_grad():
        for number, layer in enumerate(encoder.layers):
            for name, value in layer.named_parameters():
                getattr(packed, name.replace("_l0", f"_l{number}")).copy_(value)
    return packed


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("layers", [1, 2])
def test_equals_packed(dtype: torch.dtype, tolerance: float, layers: int) -> None:
    torch.manual_seed(0)
    encoder = LSTM(dim=5, hidden=6, layers=layers).to(dtype)
    states = torch.randn(4, 9, 5, dtype=dtype)
    packed, _ = twin(encoder, layers)(pack_padded_sequence(states, LENGTHS, batch_first=True, enforce_sorted=False))
    expected = pad_packed_sequence(packed, batch_first=True)[0]
    torch.testing.assert_close(encoder(states, MASK_BL)[MASK_BL], expected[MASK_BL], atol=tolerance, rtol=0)


def test_equals_the_equations() -> None:
    torch.manual_seed(0)
    encoder = LSTM(dim=5, hidden=6).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_()
    states = torch.randn(4, 9, 5, dtype=torch.float64)
    ours = encoder(states, MASK_BL).detach().numpy()
    w_in, w_rec, b_in, b_rec = (parameter.detach().numpy() for parameter in encoder.layers[0].parameters())
    for row, n in enumerate(LENGTHS.tolist()):
        h, c = np.zeros(6), np.zeros(6)
        for t in range(n):
            i, f, g, o = np.split(w_in @ states[row, t].numpy() + b_in + w_rec @ h + b_rec, 4)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            c = f * c + i * np.tanh(g)
            h = o * np.tanh(c)
            np.testing.assert_allclose(ours[row, t], h, atol=1e-12)


def test_initialization_is_that_of_the_bilstm() -> None:
    torch.manual_seed(0)
    ours = dict(LSTM(dim=5, hidden=6).layers[0].named_parameters())
    torch.manual_seed(0)
    for name, value in BiLSTM(dim=5, hidden=6).forwards[0].named_parameters():
        assert torch.equal(ours[name], value), name
    for gate in ours["weight_hh_l0"].chunk(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(6), atol=1e-5, rtol=0)
    assert (ours["bias_ih_l0"] == 0).all()
    assert (ours["bias_hh_l0"] == 0).all()


def test_parameter_count_and_width_are_the_formula() -> None:
    encoder = LSTM(dim=5, hidden=6, layers=2)
    assert sum(p.numel() for p in encoder.parameters()) == sum(4 * 6 * (width + 6) + 8 * 6 for width in (5, 6))
    assert encoder.out_dim == encoder(torch.randn(4, 9, 5), MASK_BL).shape[2] == 6
    assert not encoder.bidirectional


@pytest.mark.parametrize("encoder", [LSTM, BiLSTM])
@pytest.mark.parametrize(
    ("dropout", "output_dropout", "expected"), [(0.5, None, 0.5), (0.5, 0.0, 0.0), (0.0, 0.25, 0.25)]
)
def test_dropout_of_the_last_layer(
    encoder: type[LSTM | BiLSTM], dropout: float, output_dropout: float | None, expected: float
) -> None:
    torch.manual_seed(0)
    module = encoder(dim=5, hidden=50, layers=2, dropout=dropout, output_dropout=output_dropout)
    states, mask_BL = torch.randn(8, 20, 5), torch.ones(8, 20, dtype=torch.bool)
    assert not (module.eval()(states, mask_BL) == 0).any()
    zeros = (module.train()(states, mask_BL) == 0).float().mean().item()
    assert zeros == pytest.approx(expected, abs=0.02)
    # Between layers: with it two passes differ, without it and without the last one's they do not.
    same = torch.equal(module(states, mask_BL), module(states, mask_BL))
    assert same is (not dropout and not expected)


@pytest.mark.parametrize("encoder", [LSTM, BiLSTM])
def test_it_is_computed_in_float32_where_it_leaves_autocast(
    encoder: type[LSTM | BiLSTM], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lstm, bilstm):  # as on an NVIDIA GPU, which no test has
        monkeypatch.setattr(module, "leaves_autocast", torch.is_autocast_enabled)
    torch.manual_seed(0)
    model, states = encoder(dim=5, hidden=6, layers=2), torch.randn(4, 9, 5).bfloat16()
    expected = model(states.float(), MASK_BL)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(states, MASK_BL)
    assert found.dtype is torch.float32
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("device", "enabled", "expected"), [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)]
)
def test_it_leaves_autocast_on_nvidia_gpus(device: str, *, enabled: bool, expected: bool) -> None:
    torch.set_autocast_enabled(device, enabled)
    try:
        assert leaves_autocast(device) == expected
    finally:
        torch.set_autocast_enabled(device, False)
