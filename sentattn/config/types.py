"""Types of settings: a constructor's annotations say what its settings may be.

A constructor writes `hops: Count = 4`. The same annotation checks what is typed, what a file holds and, with
`@checked`, what Python code passes. It checks strictly: a text is no number, true is no integer, numbers are finite.
"""

from __future__ import annotations

import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from sentattn.errors import Fault, SettingError

LARGEST_SEED = 2**32 - 1
Count: TypeAlias = Annotated[int, Ge(1)]
Whole: TypeAlias = Annotated[int, Ge(0)]
Positive: TypeAlias = Annotated[float, Gt(0)]
NonNegative: TypeAlias = Annotated[float, Ge(0)]
Fraction: TypeAlias = Annotated[float, Ge(0), Lt(1)]
Seed: TypeAlias = Annotated[int, Ge(0), Le(LARGEST_SEED)]

NAMES: dict[str, Any] = {
    "Count": Count,
    "Whole": Whole,
    "Positive": Positive,
    "NonNegative": NonNegative,
    "Fraction": Fraction,
    "Seed": Seed,
    "Any": Any,
    "Annotated": Annotated,
    "Literal": Literal,
    **{kind.__name__: kind for kind in (Ge, Gt, Le, Lt)},
}
"""What a type that is written as text may consist of."""
WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    types.NoneType: "null",
    Any: "anything",
}
SIGNS = {Ge: ">=", Gt: ">", Le: "<=", Lt: "<"}
OUT_OF_RANGE = {"greater_than_equal", "greater_than", "less_than_equal", "less_than", "finite_number", "literal_error"}
"""Errors of pydantic about a value whose type is right."""

Init = TypeVar("Init", bound=Callable[..., None])


def resolve(annotation: Any, names: Mapping[str, Any] | None = None) -> Any:
    """Returns the type of an annotation; what is no type of settings, such as a tensor, becomes `Any`.

    Args:
        annotation: A type, or its source text.
        names: What the text may refer to, such as a module's globals; None for the types of this module.
    """
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = dict(NAMES if names is None else names)
    try:
        return _plain(typing.get_type_hints(holder, globalns=scope, include_extras=True)["it"])
    except (NameError, AttributeError, TypeError, SyntaxError):  # a name that only type checkers import
        return Any


def _plain(kind: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in WORDS or origin is Literal:
        return kind
    if origin is Annotated and arguments[0] in (int, float) and all(type(one) in SIGNS for one in arguments[1:]):
        return kind
    if origin in (Union, types.UnionType):
        members = [_plain(one) for one in arguments]
        return Any if Any in members else Union[tuple(members)]  # noqa: UP007
    if origin is tuple and ... not in arguments:
        return tuple[tuple(_plain(one) for one in arguments)]  # type: ignore[misc]  # as many as there are
    if origin in (list, Sequence):
        return list[_plain(arguments[0])]  # type: ignore[misc]
    return Any


def spell(kind: Any) -> str:
    """Returns a type's source text, which `resolve` reads."""
    name = next((name for name, known in NAMES.items() if known == kind and name[0].isupper()), None)
    if name is not None or kind in WORDS:
        return name or ("None" if kind is types.NoneType else str(kind.__name__))
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Union:
        return " | ".join(map(spell, arguments))
    if origin is Annotated:
        limits = [f"{type(one).__name__}({_limit(one)})" for one in arguments[1:]]
        return f"Annotated[{', '.join([spell(arguments[0]), *limits])}]"
    inner = ", ".join(map(repr if origin is Literal else spell, arguments))
    return f"{'Literal' if origin is Literal else origin.__name__}[{inner}]"


def words(kind: Any) -> str:
    """Returns what a type allows, in words: `an integer >= 1 or null`."""
    kind = resolve(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in WORDS:
        return WORDS[kind]
    if origin is Annotated:
        limits = [f"{SIGNS[type(one)]} {_limit(one)}" for one in arguments[1:]]
        return f"{WORDS[arguments[0]]} {' and '.join(limits)}"
    if origin is Literal:
        return _either([as_typed(one) for one in arguments])
    if origin is list:
        return f"a list such as [a,b], each {words(arguments[0])}"
    if origin is tuple:
        return f"a list of {len(arguments)}: {', '.join(map(words, arguments))}"
    return _either(list(dict.fromkeys(map(words, arguments))))


def _limit(constraint: Any) -> Any:
    return getattr(constraint, type(constraint).__name__.lower())


def _either(options: list[str]) -> str:
    if len(options) == 1:
        return options[0]
    comma = "," if any("," in option for option in options) else ""
    return f"{', '.join(options[:-1])}{comma} or {options[-1]}"


@functools.cache
def _validate(kind: Any) -> Callable[[bytes], Any]:
    from pydantic import ConfigDict, TypeAdapter  # not at the top: `--help` checks nothing

    return TypeAdapter(kind, config=ConfigDict(strict=True, allow_inf_nan=False)).validate_json


def mismatch(kind: Any, value: object) -> str | None:
    """Returns `type` or `range` where a value is not legal, or None where it is."""
    from pydantic import ValidationError

    kind = resolve(kind)
    if kind is Any:
        return None
    try:
        # As JSON, a tuple is a list; in a path that is no UTF-8, any letter will do for the rest.
        _validate(kind)(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except ValidationError as error:
        return "range" if OUT_OF_RANGE & {one["type"] for one in error.errors()} else "type"
    except (TypeError, ValueError, RecursionError):  # nothing that JSON has
        return "type"
    return None


def fault(key: str, kind: Any, value: object) -> Fault | None:
    """Returns why a value is not legal for a setting, or None where it is."""
    found = mismatch(kind, value)
    return Fault(key, found, f"{key} must be {words(kind)}, got {as_typed(value)}.") if found else None


def as_typed(value: object) -> str:
    """Returns a value as one types it on the command line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return f"[{','.join(map(as_typed, value))}]"
        case _:
            return str(value)


def parse(text: str) -> Any:
    """Returns the number, truth value or null that a text spells, or the text."""
    constants: dict[str, Any] = {"true": True, "false": False, "null": None}
    if text in constants:
        return constants[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the types of a function's parameters by name, `self` included."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    return {name: resolve(one.annotation, scope) for name, one in inspect.signature(function).parameters.items()}


def checked(init: Init) -> Init:
    """Makes a constructor refuse values that its annotations do not allow.

    Raises:
        SettingError: From the constructor, all faulty arguments at once, by name.
    """
    signature = inspect.signature(init)
    kinds = functools.cache(lambda: hints(init))  # not before the first call: names may be defined later

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind_partial(self, *args, **kwargs).arguments if args else kwargs
        faults = [fault(key, kinds()[key], value) for key, value in given.items() if key in kinds()]
        if found := [Fault(one.key, one.kind, f"{type(self).__name__}: {one}") for one in faults if one]:
            raise SettingError(*found)
        init(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]  # it takes what `init` takes
