"""Labels of tables: names and order of the classes, and checks that a column holds labels."""

from __future__ import annotations

import math
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from sentattn.errors import DataError, Fault

NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?")
"""A number as a label; 007 and 1e3 are words."""
STEP = re.compile(rf"({NUMBER.pattern})\s+\w+")
"""A step of a scale with its unit, such as `5 stars`."""
MISSING = frozenset({"", "nan", "NaN", "NAN", "None", "null", "NULL", "<NA>"})
"""Words that programs write for a missing label. `none` and `NA` are labels."""
MAX_CLASSES = 1000
MAX_COUNTED = 100_000
FEW_CLASSES = 20
"""More classes than this need two rows each, on average."""


def label_name(value: object) -> str | None:
    """Returns the name of the class of a label, or None for a missing label.

    1, 1.0 and "1" are the same class, and so are true, "True" and "TRUE". Spaces around a word are ignored. `MISSING`
    are missing labels in every format.

    Raises:
        TypeError: If the value is neither a string, a number nor a boolean.
    """
    if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return _shortest(format(Decimal(repr(value)) if isinstance(value, float) else value, "f"))
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no label")
    word = value.strip()
    if word in MISSING:
        return None
    if word.lower() in ("true", "false"):
        return word.lower()
    return _shortest(word) if NUMBER.fullmatch(word) else word


def _shortest(number: str) -> str:
    """Returns the shortest form of a number: 1 for +1.0, 2.5 for 2.50."""
    short = number.removeprefix("+")
    if "." in short:
        short = short.rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Returns class names sorted, as numbers if all of them are numbers."""
    names = list(names)
    return tuple(sorted(names, key=Decimal) if all(map(NUMBER.fullmatch, names)) else sorted(names))


def is_scale(names: Sequence[str], *, typed: bool) -> bool:
    """Returns whether more than two classes are steps of a scale: numbers, or in an order that the user typed."""
    return len(names) > 2 and (typed or all(map(NUMBER.fullmatch, names)))


def steps(names: Sequence[str]) -> dict[str, int]:
    """Returns the class of each number of a scale such as `1 star`, `2 stars`; empty for other classes."""
    matches = [STEP.fullmatch(name) for name in names]
    numbers = [_shortest(match[1]) for match in matches if match]
    is_unique = len(numbers) == len(names) == len(set(numbers))
    return {number: index for index, number in enumerate(numbers)} if is_unique else {}


def require_labels(counts: Counter[str], column: str, where: str) -> None:
    """Refuses a column whose values, by their numbers of rows, are no labels or only one label.

    Raises:
        DataError: With the number of different values and examples; key `data.label`.
    """
    rows = counts.total()
    if 1 < len(counts) <= MAX_CLASSES and (len(counts) <= FEW_CLASSES or rows >= 2 * len(counts)):
        return
    examples = ", ".join(reprlib.repr(name) for name in list(counts)[:3])
    message = (
        f"{where}: {column!r} must hold 2 to {MAX_CLASSES} labels, most of them in more than one row, got "
        f"{len(counts):,} different values in {rows:,} rows, such as {examples}. Name the column of labels "
        "with data.label=COLUMN, or the labels with data.classes=[...]."
    )
    raise DataError(Fault("data.label", "range" if len(counts) == 1 else "type", message))
