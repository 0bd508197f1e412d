"""Labels as people write them: their names, their order, and whether they are labels at all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from statistics import mean
from typing import Any, NamedTuple

from sentattn.config.types import given
from sentattn.errors import DataError, suggestion

NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?")
"""A number as a label; 007 and 1e3 are words."""
MOST_CLASSES = 1000
MOST_COUNTED = 100_000
FEW_CLASSES = 20
"""So many classes are believed whatever the number of rows; more need at least two rows each, on average."""
LONG = 40
MOST_SHOWN = 20


class Seen(NamedTuple):
    """A label in a column: how many rows have it, and where the first of them stands."""

    rows: int
    where: str


def label_name(value: Any) -> str | None:
    """Returns the name of the class that a label stands for, or None where there is no label.

    1, 1.0 and "1" are one class, and so are true, "True" and "TRUE". Spaces around a word do not count.

    Raises:
        TypeError: If the value is no word, number or truth value.
    """
    if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return _number(format(Decimal(repr(value)) if isinstance(value, float) else value, "f"))
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no label")
    word = value.strip()
    if word.lower() in ("true", "false"):
        return word.lower()
    return (_number(word) if NUMBER.fullmatch(word) else word) or None


def _number(text: str) -> str:
    """Returns a number's shortest form: 1 for +1.0, 2.5 for 2.50."""
    short = text.removeprefix("+")
    if "." in short:
        short = short.rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def are_numbers(names: Iterable[str]) -> bool:
    """Returns whether all classes are numbers."""
    return all(NUMBER.fullmatch(name) for name in names)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Returns class names sorted, as numbers where all of them are numbers."""
    names = list(names)
    return tuple(sorted(names, key=Decimal) if are_numbers(names) else sorted(names))


def is_scale(names: Sequence[str], *, typed: bool) -> bool:
    """Returns whether classes are taken for steps of a scale: numbers or an order given, and more than two."""
    return len(names) > 2 and (typed or are_numbers(names))


def class_faults(classes: Sequence[Any]) -> list[str]:
    """Returns what is wrong with classes that were given, in sentences: a name twice, none, or only one."""
    names = [label_name(value) or "" for value in classes]
    faults = []
    if "" in names:
        faults.append(f"data.classes={given(classes)} holds an empty name; leave it out.")
    if repeated := sorted({name for name in names if names.count(name) > 1 and name}):
        faults.append(f"data.classes={given(classes)} names {', '.join(repeated)} more than once.")
    if len(names) == 1:
        faults.append(f"data.classes={given(classes)} names one class; at least two are needed to tell apart.")
    return faults


def unknown(name: str, classes: Sequence[str], whose: str) -> str:
    """Returns the sentence that refuses a label that is none of the classes of `data.train`, say."""
    more = f" and {len(classes) - MOST_SHOWN} more" if len(classes) > MOST_SHOWN else ""
    legal = f"{', '.join(classes[:MOST_SHOWN])}{more}"
    return f"the label {_cut(name)!r} is none of the classes of {whose}: {legal}.{suggestion(name, classes)}"


def require_labels(seen: Mapping[str, Seen], column: str, where: str) -> None:
    """Refuses a column that holds something other than labels, or one label only.

    Args:
        seen: The labels of the column; it may end behind `MOST_COUNTED`.
        column: Its name.
        where: The file.

    Raises:
        DataError: With what the column looks like.
    """
    rows = sum(one.rows for one in seen.values())
    if len(seen) == 1:
        raise DataError(
            f"{where}: all {rows:,} rows have the label {_cut(next(iter(seen)))!r} in {column!r}; "
            "at least two classes are needed to tell apart."
        )
    if len(seen) > MOST_CLASSES or (len(seen) > FEW_CLASSES and rows < 2 * len(seen)):
        first = "the first " if len(seen) > MOST_COUNTED else ""
        examples = ", ".join(repr(_cut(name)) for name in list(seen)[:3])
        raise DataError(
            f"{where}: {column!r} has {len(seen):,} different values in {first}{rows:,} rows, such as {examples}; "
            f"{_looks_like(seen, rows)}. Name the column of labels with data.label=COLUMN, "
            "or the labels with data.classes=[...]."
        )


def _looks_like(seen: Mapping[str, Seen], rows: int) -> str:
    if are_numbers(seen):
        if any("." in name for name in seen):
            return "that looks like measurements, and classes are told apart here, no numbers estimated"
        return "that looks like a number or a counter, not like classes"
    if mean(map(len, seen)) > LONG:
        return "that looks like texts, not like labels"
    return "that looks like names of single rows" if rows < 2 * len(seen) else "that is too many for classes"


def _cut(name: str) -> str:
    return name if len(name) <= LONG else f"{name[:LONG]}..."
