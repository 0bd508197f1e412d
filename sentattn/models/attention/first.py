"""The state of the first token, such as BERT's [CLS] (Devlin et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from sentattn.models.attention.base import Attended, Fixed


class First(Fixed):
    """All weight on the first token, whose state is the value (Devlin et al. 2019, section 3). No parameters."""

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns the first state as values_BRD with R = 1."""
        is_first_L = torch.arange(mask_BL.shape[1], device=mask_BL.device) == 0
        weights_BL = (is_first_L & mask_BL).to(torch.promote_types(states_BLD.dtype, torch.float32))
        return Attended(states_BLD[:, :1], weights_BL[:, None])
