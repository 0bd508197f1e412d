"""Errors of settings that are typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sentattn.config.compose import compose
from sentattn.errors import Fault, SettingError


def faults(arguments: Sequence[str], read: Callable[[Sequence[str]], object] = compose) -> tuple[Fault, ...]:
    """The errors of arguments, which are refused."""
    with pytest.raises(SettingError) as caught:
        read(arguments)
    return caught.value.faults


def kinds(arguments: Sequence[str], read: Callable[[Sequence[str]], object] = compose) -> list[tuple[str, str]]:
    """The key and the kind of each error."""
    return [(fault.key, fault.kind) for fault in faults(arguments, read)]
