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


def refused(call: Callable[[], object]) -> tuple[str, str]:
    """Returns key and kind of the only fault of the `DataError` that a call raises."""
    fault = fault_of(call)
    return fault.key, fault.kind
