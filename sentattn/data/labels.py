"""Labels as people write them: their names, their order, and whether a column holds labels at all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from statistics import mean
from typing import Any, NamedTuple

from sentattn.config.types import as_typed
from sentattn.errors import DataError, Fault, suggestion

NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?")
"""A number as a label; 007 and 1e3 are words."""
STEP = re.compile(rf"({NUMBER.pattern})\s+\w+")
"""A step of a scale with its unit, such as `5 stars`."""
MAX_CLASSES = 1000
MAX_COUNTED = 100_000
FEW_CLASSES = 20
"""Up to this number of classes any number of rows is plausible; more need two rows each, on average."""
LONG = 40
MAX_SHOWN = 20


class LabelCount(NamedTuple):
    """A label in a column: how many rows have it, and where the first of them is."""

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
        return _shortest(format(Decimal(repr(value)) if isinstance(value, float) else value, "f"))
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no label")
    word = value.strip()
    if word.lower() in ("true", "false"):
        return word.lower()
    return (_shortest(word) if NUMBER.fullmatch(word) else word) or None


def _shortest(number: str) -> str:
    """Returns a number's shortest form: 1 for +1.0, 2.5 for 2.50."""
    short = number.removeprefix("+")
    if "." in short:
        short = short.rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def are_numbers(names: Iterable[str]) -> bool:
    """Returns whether all classes are numbers."""
    return all(NUMBER.fullmatch(name) for name in names)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Returns class names sorted, as numbers where all of them are numbers."""
    names = list(names)
    return tuple(sorted(names, key=Decimal) if are_numbers(names) else sorted(names))


def is_scale(names: Sequence[str], *, typed: bool) -> bool:
    """Returns whether classes are steps of a scale: numbers or an order that the user typed, and more than two."""
    return len(names) > 2 and (typed or are_numbers(names))


def steps(names: Sequence[str]) -> dict[str, int]:
    """Returns the class of each plain number of a scale such as `1 star`, `2 stars`; empty for other classes."""
    matches = [STEP.fullmatch(name) for name in names]
    numbers = [_shortest(match[1]) for match in matches if match]
    is_unique = len(numbers) == len(names) == len(set(numbers))
    return {number: index for index, number in enumerate(numbers)} if is_unique else {}


def class_faults(classes: Sequence[Any]) -> list[Fault]:
    """Returns what is wrong with `data.classes`: a name twice, an empty one, or only one."""
    names = [label_name(value) or "" for value in classes]
    shown, faults = f"data.classes={as_typed(classes)}", []
    if "" in names:
        faults.append(Fault("data.classes", "missing", f"{shown} holds an empty name; leave it out."))
    if repeated := sorted({name for name in names if names.count(name) > 1 and name}):
        faults.append(Fault("data.classes", "conflict", f"{shown} names {', '.join(repeated)} more than once."))
    if len(names) == 1:
        faults.append(Fault("data.classes", "range", f"{shown} names one class; at least two are needed."))
    return faults


def unknown_label(name: str, classes: Sequence[str], owner: str, where: str) -> DataError:
    """Returns the error for a label that is none of the classes of `owner`, such as `data.train`."""
    more = f" and {len(classes) - MAX_SHOWN} more" if len(classes) > MAX_SHOWN else ""
    legal = f"{', '.join(classes[:MAX_SHOWN])}{more}"
    message = f"the label {_cut(name)!r} is none of the classes of {owner}: {legal}.{suggestion(name, classes)}"
    return DataError(Fault("data.label", "unknown", f"{where}: {message}"))


def require_labels(counts: Mapping[str, LabelCount], column: str, where: str) -> None:
    """Refuses a column that holds something other than labels, or one label only.

    Args:
        counts: The labels of the column, the first `MAX_COUNTED` and one of them.
        column: Its name.
        where: The file.

    Raises:
        DataError: With what the column looks like; key `data.label`.
    """
    rows = sum(one.rows for one in counts.values())
    if len(counts) == 1:
        label = _cut(next(iter(counts)))
        message = f"all {rows:,} rows have the label {label!r} in {column!r}; at least two classes are needed."
        raise DataError(Fault("data.label", "range", f"{where}: {message}"))
    if len(counts) > MAX_CLASSES or (len(counts) > FEW_CLASSES and rows < 2 * len(counts)):
        first = "the first " if len(counts) > MAX_COUNTED else ""
        examples = ", ".join(repr(_cut(name)) for name in list(counts)[:3])
        message = (
            f"{column!r} has {len(counts):,} different values in {first}{rows:,} rows, such as {examples}; "
            f"{_impression(counts, rows)}. Name the column of labels with data.label=COLUMN, "
            "or the labels with data.classes=[...]."
        )
        raise DataError(Fault("data.label", "type", f"{where}: {message}"))


def _impression(counts: Mapping[str, LabelCount], rows: int) -> str:
    if are_numbers(counts):
        if any("." in name for name in counts):
            return "that looks like measurements, and this is classification, not regression"
        return "that looks like a number or a counter, not like classes"
    if mean(map(len, counts)) > LONG:
        return "that looks like texts, not like labels"
    return "that looks like names of single rows" if rows < 2 * len(counts) else "that is too many for classes"


def _cut(name: str) -> str:
    return name if len(name) <= LONG else f"{name[:LONG]}..."
