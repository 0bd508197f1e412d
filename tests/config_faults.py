"""What is wrong with settings that are typed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sentattn.config.compose import compose
from sentattn.errors import Fault, SettingError


def faults(arguments: Sequence[str]) -> tuple[Fault, ...]:
    with pytest.raises(SettingError) as caught:
        compose(arguments)
    return caught.value.faults
