"""The fault for which something is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sentattn.errors import DataError, Fault


def fault_of(call: Callable[[], object]) -> Fault:
    """Returns the only fault of the `DataError` that a call raises; its message is one line."""
    with pytest.raises(DataError) as caught:
        call()
    (fault,) = caught.value.faults
    assert "\n" not in fault.message
    return fault
