"""Where a dimension of a sweep is searched at all: only with certain values of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentattn.config import types
from sentattn.config.arguments import Faults
from sentattn.config.types import given
from sentattn.errors import suggestion
from sentattn.sweep.search_space import Dimension
from sentattn.sweep.sweep_file import Draft


def conditions(
    key: str, asked: Draft, read: Mapping[str, Dimension], faults: Faults
) -> dict[str, tuple[Any, ...]] | None:
    """Returns a dimension's conditions; None where one can no more hold, since a single value was typed for its key.

    Args:
        key: The dimension's.
        asked: What was typed and what the file says.
        read: The ranges that could be read, by key.
        faults: Gathers conditions on what is not searched, and on values that its range never takes.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for other, wanted in asked.ranges[key][1].items():
        legal = tuple(wanted) if isinstance(wanted, list) else (wanted,)
        position, shown = asked.positions[key], f"{key}: when {other}={' or '.join(map(given, legal))}"
        if other in asked.overrides and asked.positions[other] >= 0:  # typed over the file's range
            if types.spelled(asked.overrides[other]) not in legal:
                return None
        elif other not in asked.ranges:
            close = suggestion(other, asked.ranges)
            faults.add(f"{shown}: {other} is not in the space.{close} A condition is on what is searched.", position)
        elif other in read and (wrong := [value for value in legal if not read[other].contains(value)]):
            takes = asked.ranges[other][0]
            faults.add(f"{shown}: {other} never is {given(wrong[0])}; its range is {takes}.", position)
        else:
            found[other] = legal
    return found
