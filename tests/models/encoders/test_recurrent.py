"""LSTM and BiLSTM against packed `nn.LSTM`s with the same weights, and against the equations in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_modules import drawn
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentattn.models.encoders import bilstm, lstm
from sentattn.models.encoders.bilstm import BiLSTM, reorder, reversal
from sentattn.models.encoders.lstm import LSTM, leaves_autocast

LENGTHS = torch.tensor([9, 1, 4, 7])
MASK_BL = torch.arange(9)[None] < LENGTHS[:, None]
BOTH = pytest.mark.parametrize("encoder", [LSTM, BiLSTM])


def layers_of(encoder: LSTM | BiLSTM) -> dict[str, list[nn.Module]]:
    """The layers of each direction, by the ending that torch gives to its parameters."""
    if isinstance(encoder, LSTM):
        return {"": list(encoder.layers)}
    return {"": list(encoder.forwards), "_reverse": list(encoder.backwards)}


def twin(encoder: LSTM | BiLSTM, dim: int, hidden: int) -> nn.LSTM:
    """One LSTM of torch with the same weights."""
    layers = layers_of(encoder)
    packed = nn.LSTM(dim, hidden, num_layers=len(layers[""]), bidirectional=len(layers) == 2, batch_first=True)
    packed.load_state_dict(
        {
            name.replace("_l0", f"_l{number}{suffix}"): value
            for suffix, of_direction in layers.items()
            for number, layer in enumerate(of_direction)
            for name, value in layer.state_dict().items()
        }
    )
    return packed.to(next(encoder.parameters()).dtype)


@BOTH
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("layers", [1, 2])
def test_equals_packed_forward_and_backward(
    encoder: type[LSTM | BiLSTM], dtype: torch.dtype, tolerance: float, layers: int
) -> None:
    torch.manual_seed(0)
    ours = encoder(dim=5, hidden=6, layers=layers).to(dtype)
    theirs = twin(ours, 5, 6)
    states_BLE = torch.randn(4, 9, 5, dtype=dtype)
    found = ours(states_BLE, MASK_BL)
    output, _ = theirs(pack_padded_sequence(states_BLE, LENGTHS, batch_first=True, enforce_sorted=False))
    expected = pad_packed_sequence(output, batch_first=True)[0]
    torch.testing.assert_close(found[MASK_BL], expected[MASK_BL], atol=tolerance, rtol=0)
    found[MASK_BL].square().sum().backward()
    expected[MASK_BL].square().sum().backward()
    for suffix, (first, *_) in layers_of(ours).items():
        gradient = getattr(theirs, f"weight_hh_l0{suffix}").grad
        assert gradient.abs().max() > 0
        torch.testing.assert_close(first.weight_hh_l0.grad, gradient, atol=100 * tolerance, rtol=0)


def test_equals_the_equations() -> None:
    encoder = drawn(LSTM(dim=5, hidden=6))
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


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(0, 3))
def test_any_padding_changes_no_state(lengths: list[int], padding: int) -> None:
    torch.manual_seed(0)
    encoder = BiLSTM(dim=3, hidden=2, layers=2)
    mask_BL = torch.arange(max(lengths) + padding) < torch.tensor(lengths)[:, None]
    states = torch.randn(*mask_BL.shape, 3)
    output, _ = twin(encoder, 3, 2)(pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False))
    expected = pad_packed_sequence(output, batch_first=True, total_length=mask_BL.shape[1])[0]
    torch.testing.assert_close(encoder(states, mask_BL)[mask_BL], expected[mask_BL], atol=1e-5, rtol=0)


@BOTH
def test_initial_weights_width_and_parameter_count(encoder: type[LSTM | BiLSTM]) -> None:
    torch.manual_seed(0)
    module = encoder(dim=5, hidden=6, layers=2)
    torch.manual_seed(0)
    expected = lstm.one_layer(5, 6).state_dict()
    for directions in layers_of(module).values():
        of_first = directions[0].state_dict()
        assert not any(of_first[f"bias_{kind}_l0"].any() for kind in ("ih", "hh"))
        for gate in of_first["weight_hh_l0"].chunk(4):
            torch.testing.assert_close(gate @ gate.T, torch.eye(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(layers_of(module)[""][0].state_dict(), expected, rtol=0, atol=0)
    directions = len(layers_of(module))
    assert module.bidirectional == (directions == 2)
    assert module.out_dim == module(torch.randn(4, 9, 5), MASK_BL).shape[2] == 6 * directions
    per_direction = [4 * 6 * (width + 6) + 8 * 6 for width in (5, 6 * directions)]
    assert sum(p.numel() for p in module.parameters()) == directions * sum(per_direction)


def test_reversal_by_hand() -> None:
    mask_BL = torch.tensor([[True, True, True, False], [True, False, False, False]])
    order_BL = reversal(mask_BL)
    assert order_BL.tolist() == [[2, 1, 0, 3], [0, 1, 2, 3]]
    states = torch.arange(8.0).reshape(2, 4, 1)
    assert reorder(states, order_BL)[0, :, 0].tolist() == [2.0, 1.0, 0.0, 3.0]
    assert torch.equal(reorder(reorder(states, order_BL), order_BL), states)


@BOTH
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


@BOTH
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
