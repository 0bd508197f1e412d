from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentattn.export.onnx_folder import lower_bound

NUMBERS = st.integers(-(2**62), 2**63 - 1)


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.lists(NUMBERS, min_size=1, max_size=9))
def test_lower_bound_equals_numpy(table: list[int], values: list[int]) -> None:
    sorted_N = np.sort(np.array(table))
    wanted = np.array([*values, *table])  # numbers that are there, too
    found = lower_bound(torch.from_numpy(sorted_N), torch.from_numpy(wanted))
    assert found.tolist() == np.searchsorted(sorted_N, wanted).tolist()
