"""Kinds of values: the annotations of a constructor are the schema of its settings.

A constructor writes `hops: Count = 4`. The command line reads that annotation from the source text
without importing the module, and `@checked` holds every other caller to the same rule.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeAlias, TypeVar

from sentattn.errors import SettingError

Count: TypeAlias = int
"""A whole number, 1 or more."""
Whole: TypeAlias = int
"""A whole number, 0 or more."""
Positive: TypeAlias = float
"""A finite number above 0."""
NonNegative: TypeAlias = float
"""A finite number, 0 or more."""
Fraction: TypeAlias = float
"""A number from 0 to below 1."""
Seed: TypeAlias = int
"""A whole number that every library's random generator takes."""

LARGEST_SEED = 2**32 - 1
Rule: TypeAlias = tuple[str, Callable[[Any], bool]]
"""What is legal, in words and as a test."""

Init = TypeVar("Init", bound=Callable[..., None])


def spelled(text: str) -> Any:
    """Returns the number, truth value or null that a text spells, or the text."""
    words: dict[str, Any] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


KINDS: dict[str, Rule] = {
    "Count": ("a whole number, 1 or more", lambda v: _is_int(v) and v >= 1),
    "Whole": ("a whole number, 0 or more", lambda v: _is_int(v) and v >= 0),
    "Positive": ("a number above 0", lambda v: _is_number(v) and v > 0),
    "NonNegative": ("a number, 0 or more", lambda v: _is_number(v) and v >= 0),
    "Fraction": ("a number from 0 to below 1", lambda v: _is_number(v) and 0 <= v < 1),
    "Seed": (f"a whole number from 0 to {LARGEST_SEED}", lambda v: _is_int(v) and 0 <= v <= LARGEST_SEED),
    "int": ("a whole number", _is_int),
    "float": ("a number", _is_number),
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "str": ("text", lambda v: isinstance(v, str)),
    "Path": ("a path", lambda v: isinstance(v, str | PurePath)),
    "None": ("null", lambda v: v is None),
}
ANYTHING: Rule = ("anything", lambda _: True)


@functools.cache
def legal(annotation: str) -> Rule:
    """Returns what an annotation allows: in words, and as a test.

    Args:
        annotation: Source text such as `Count | None` or `Literal["head", "tail"]`. What is not
            understood (another library's types) allows everything.
    """
    return _legal(ast.parse(annotation, mode="eval").body)


def _legal(node: ast.expr) -> Rule:
    match node:
        case ast.Constant(value=None):
            return KINDS["None"]
        case ast.Constant(value=str() as quoted):
            return legal(quoted)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in KINDS:
            return KINDS[name]
        case ast.BinOp(op=ast.BitOr()):
            return _any_of([_legal(node.left), _legal(node.right)])
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return _generic(name, parts)
        case _:
            return ANYTHING


def _generic(name: str, parts: list[ast.expr]) -> Rule:
    match name:
        case "Optional":
            return _any_of([*map(_legal, parts), KINDS["None"]])
        case "Union":
            return _any_of([_legal(part) for part in parts])
        case "Literal":
            options = [ast.literal_eval(part) for part in parts]
            return _words([given(o) for o in options]), lambda v: any(type(v) is type(o) and v == o for o in options)
        case "list" | "List" | "Sequence":
            words, fits = _legal(parts[0])
            return f"a list such as [a,b], each {words}", lambda v: _is_list(v) and all(map(fits, v))
        case "tuple" | "Tuple" if not any(isinstance(p, ast.Constant) and p.value is ... for p in parts):
            rules = [_legal(part) for part in parts]
            words = f"a list of {len(rules)}: {', '.join(words for words, _ in rules)}"
            return (
                words,
                lambda v: _is_list(v) and len(v) == len(rules) and all(r[1](x) for r, x in zip(rules, v, strict=True)),
            )
        case _:
            return ANYTHING


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _any_of(rules: list[Rule]) -> Rule:
    if any(rule is ANYTHING for rule in rules):
        return ANYTHING
    return _words(list(dict.fromkeys(words for words, _ in rules))), lambda v: any(fits(v) for _, fits in rules)


def _words(options: list[str]) -> str:
    if len(options) == 1:
        return options[0]
    comma = "," if any("," in option for option in options) else ""
    return f"{', '.join(options[:-1])}{comma} or {options[-1]}"


def given(value: object) -> str:
    """Returns a value as one types it on the command line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return f"[{','.join(map(given, value))}]"
        case _:
            return str(value)


def fault(name: str, annotation: str, value: object) -> str | None:
    """Returns the sentence that refuses `value` for a setting, or None where it is legal."""
    words, fits = legal(annotation)
    return None if fits(value) else f"{name}={given(value)} is not legal: it takes {words}."


def checked(init: Init) -> Init:
    """Makes a constructor refuse values that its annotations do not allow.

    Raises:
        SettingError: From the constructor, all faulty arguments at once, by name.
    """
    parameters = inspect.signature(init).parameters

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        assert not args, "settings are keyword arguments"
        annotations = {name: p.annotation for name, p in parameters.items() if isinstance(p.annotation, str)}
        faults = [fault(n, annotations[n], v) for n, v in kwargs.items() if n in annotations]
        if found := [f"{type(self).__name__}: {f}" for f in faults if f]:
            raise SettingError(*found)
        init(self, **kwargs)

    return wrapper  # type: ignore[return-value]
