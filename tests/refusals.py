"""The faults with which a call, or arguments of a command line, are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sentattn.config.compose import compose
from sentattn.errors import Fault, UserError


def faults_of(call: Callable[[], object]) -> tuple[Fault, ...]:
    """Returns the faults of the `UserError` that a call raises."""
    with pytest.raises(UserError) as caught:
        call()
    return caught.value.faults


def fault_of(call: Callable[[], object]) -> Fault:
    """Returns the only fault of the `UserError` that a call raises; its message is one line."""
    (fault,) = faults_of(call)
    assert "\n" not in fault.message
    return fault


def assert_refused(call: Callable[[], object], key: str, kind: str, *parts: str) -> None:
    """Asserts key and kind of the only fault of the `UserError` that a call raises, and parts of its message."""
    fault = fault_of(call)
    assert (fault.key, fault.kind) == (key, kind)
    assert all(part in fault.message for part in parts), fault.message


def refused(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Returns the key and the kind of each fault of the `UserError` that a call raises."""
    return [(fault.key, fault.kind) for fault in faults_of(call)]


def faults(arguments: Sequence[str], read: Callable[[Sequence[str]], object] = compose) -> tuple[Fault, ...]:
    """Returns the faults of arguments."""
    return faults_of(lambda: read(arguments))


def kinds(arguments: Sequence[str], read: Callable[[Sequence[str]], object] = compose) -> list[tuple[str, str]]:
    """Returns the key and the kind of each fault of arguments."""
    return refused(lambda: read(arguments))
