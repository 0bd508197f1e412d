"""The mean by position, by hand."""

from __future__ import annotations

import torch

from sentattn.models.attention.position import Position


def test_a_token_weighs_its_position() -> None:
    states_BLD = torch.tensor([[[1.0, 0.0], [0.0, 3.0], [6.0, 0.0]], [[2.0, 2.0], [9.0, 9.0], [9.0, 9.0]]])
    mask_BL = torch.tensor([[True, True, True], [True, False, False]])
    attended = Position(dim=2)(states_BLD, mask_BL)
    torch.testing.assert_close(attended.weights_BRL, torch.tensor([[[1 / 6, 2 / 6, 3 / 6]], [[1.0, 0.0, 0.0]]]))
    torch.testing.assert_close(attended.values_BRD, torch.tensor([[[19 / 6, 1.0]], [[2.0, 2.0]]]))
