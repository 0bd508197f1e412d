"""Errors of what is typed, as keys and kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sentattn.config.compose import compose
from sentattn.errors import Fault, SettingError, UserError


def faults(arguments: Sequence[str], read: Callable[[Sequence[str]], object] = compose) -> tuple[Fault, ...]:
    """The errors of arguments, which are refused."""
    with pytest.raises(SettingError) as caught:
        read(arguments)
    return caught.value.faults


def kinds(arguments: Sequence[str], read: Callable[[Sequence[str]], object] = compose) -> list[tuple[str, str]]:
    """The key and the kind of each error."""
    return [(fault.key, fault.kind) for fault in faults(arguments, read)]


def refused(work: Callable[[], object]) -> list[tuple[str, str]]:
    """The key and the kind of each error that work ends with."""
    with pytest.raises(UserError) as caught:
        work()
    return [(fault.key, fault.kind) for fault in caught.value.faults]
