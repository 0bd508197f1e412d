"""A sweep as it is typed or written in a file, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sentattn.errors import Fault, SettingError
from sentattn.sweep.config import read_plan


def faults(*words: str) -> tuple[Fault, ...]:
    with pytest.raises(SettingError) as caught:
        read_plan(words)
    return caught.value.faults


def kinds(*words: str) -> list[tuple[str, str]]:
    return [(fault.key, fault.kind) for fault in faults(*words)]


def write(folder: Path, **content: object) -> str:
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return f"sweep={file}"
