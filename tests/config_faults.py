"""What is wrong with settings that are typed."""

from __future__ import annotations

import pytest

from sentattn.config.compose import compose
from sentattn.errors import SettingError


def faults(arguments: list[str]) -> tuple[str, ...]:
    with pytest.raises(SettingError) as caught:
        compose(arguments)
    return caught.value.messages
