"""The layer on each token against NumPy in float64, written from the formula."""

from __future__ import annotations

import numpy as np
import torch

from sentattn.models.encoders.tokenwise import Tokenwise

MASK_BL = torch.tensor([[True, True, True], [True, False, False]])


def test_equals_the_formula() -> None:
    torch.manual_seed(0)
    module = Tokenwise(dim=4, width=3).double().eval()
    with torch.no_grad():
        module.layer.bias.normal_()
    states_BLE = torch.randn(2, 3, 4, dtype=torch.float64)
    weight, bias = module.layer.weight.detach().numpy(), module.layer.bias.detach().numpy()
    expected = np.maximum(np.einsum("ble,de->bld", states_BLE.numpy(), weight) + bias, 0)
    np.testing.assert_allclose(module(states_BLE, MASK_BL).detach(), expected, atol=1e-12)


def test_parameter_count_and_dropout() -> None:
    module = Tokenwise(dim=384, width=74, dropout=0.5)
    assert sum(parameter.numel() for parameter in module.parameters()) == 385 * 74
    states_BLE = torch.randn(8, 50, 384)
    mask_BL = torch.ones(8, 50, dtype=torch.bool)
    in_training, in_evaluation = module(states_BLE, mask_BL), module.eval()(states_BLE, mask_BL)
    assert (in_training == 0).float().mean() > (in_evaluation == 0).float().mean() + 0.2
