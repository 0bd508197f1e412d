"""Random files: each reader ends with rows or with a message."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fuzz import READERS, read

SECONDS = 60
MISSING = object()
OTHERS = (None, True, -1, 1.5, math.nan, math.inf, 10**30, "", "x", "\x1b[31m", "../x", [], ["a"], {}, MISSING)
"""Values of other types, which replace each value of a file in turn, or none."""
LINES = ("journal", "metrics")
STRUCTURED = ("json", "tokenizer", "run", "settings", "model", "labels", "config", "sweep", "explorer", "plan", *LINES)
"""Kinds of files of JSON lines, and all of JSON or YAML."""


@pytest.mark.trust
@pytest.mark.parametrize("name", READERS)
def test_random_bytes_guided_by_coverage(name: str, tmp_path: Path) -> None:
    program = [sys.executable, str(Path(__file__).with_name("fuzz.py")), name, str(SECONDS), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True)
    crashes = [file.read_bytes() for file in tmp_path.glob("crash-*")]
    assert done.returncode == 0, f"{crashes}\n{done.stderr[-3000:]}"
    executed = next(line for line in done.stderr.splitlines() if "number_of_executed_units" in line)
    assert int(executed.split()[-1]) > SECONDS
    print(name, executed)


@pytest.mark.trust
@pytest.mark.parametrize("name", STRUCTURED)
def test_each_value_of_a_file_may_have_another_type(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    good, is_yaml = reader.good().decode(), reader.name.endswith("yaml")
    value = [json.loads(line) for line in good.splitlines()] if name in LINES else yaml.safe_load(good)
    found = []
    for place, part in places(value):
        others = [*OTHERS] if place else [*OTHERS[:-1]]
        if part and isinstance(part, dict):
            others += [{**part, key: 1} for key in (1, None, f"{next(iter(part))}.a")]
        for other in others:
            changed = replaced(value, place, other)
            if name in LINES:
                content = "".join(json.dumps(line) + "\n" for line in changed) if isinstance(changed, list) else ""
            else:
                content = yaml.safe_dump(changed) if is_yaml else json.dumps(changed)
            try:
                read(reader, content.encode(), tmp_path)
            except Exception as error:
                found.append((place, other, error))
    assert found == []


def places(value: object, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], object]]:
    """Yields each value within a value, after the keys and indices that lead to it."""
    yield place, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*place, key))


def replaced(value: Any, place: tuple[Any, ...], other: object) -> Any:
    """Returns a value in which another one stands at a place."""
    if not place:
        return other
    key, rest = place[0], place[1:]
    parts = dict(value) if isinstance(value, dict) else [*value]
    parts[key] = replaced(parts[key], rest, other)
    if parts[key] is MISSING:
        del parts[key]
    return parts
