"""A sweep as it is typed or written in a file, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import refusals
import yaml

from sentattn.errors import Fault
from sentattn.sweep.config import read_plan


def faults(*words: str) -> tuple[Fault, ...]:
    return refusals.faults(words, read_plan)


def kinds(*words: str) -> list[tuple[str, str]]:
    return refusals.kinds(words, read_plan)


def write(folder: Path, **content: object) -> str:
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return f"sweep={file}"
