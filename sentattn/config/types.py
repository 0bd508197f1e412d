"""Types of settings: a constructor's annotations say what its settings may be.

A constructor writes `hops: Count = 4`. The same annotation checks what is typed, what a file holds and, with
`@checked`, what Python code passes. It checks strictly: "3" is not a number, true is not an integer, and numbers are
finite.
"""

from __future__ import annotations

import csv
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from sentattn.errors import Fault, SettingError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

Kind: TypeAlias = object
"""A type of settings as an annotation has it, such as `Count`, `int | None` or `Literal["a", "b"]`."""
ANYTHING: Kind = Any
"""The type of settings about which no more is known."""
Node: TypeAlias = Mapping[str, Any]
"""Settings by name: of all, or a `_target_` and its arguments, as its constructor declares them."""
Tree: TypeAlias = dict[str, Any]
"""Settings as nested dictionaries, which may be changed."""
Json: TypeAlias = dict[str, Any]
"""A JSON object, such as the content of `result.json`."""

LARGEST_SEED, LARGEST = 2**32 - 1, 2**63 - 1
Count: TypeAlias = Annotated[int, Ge(1)]
Whole: TypeAlias = Annotated[int, Ge(0)]
Positive: TypeAlias = Annotated[float, Gt(0)]
NonNegative: TypeAlias = Annotated[float, Ge(0)]
Fraction: TypeAlias = Annotated[float, Ge(0), Lt(1)]
ClosedFraction: TypeAlias = Annotated[float, Ge(0), Le(1)]
Share: TypeAlias = Annotated[float, Gt(0), Le(1)]
Seed: TypeAlias = Annotated[int, Ge(0), Le(LARGEST_SEED)]

WORDS: dict[Kind, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    types.NoneType: "null",
    ANYTHING: "anything",
}
SIGNS = {Ge: ">=", Gt: ">", Le: "<=", Lt: "<"}
OUT_OF_RANGE = {"greater_than_equal", "greater_than", "less_than_equal", "less_than", "finite_number", "literal_error"}
"""Errors of pydantic about a value whose type is right."""

CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
"""What these words are, in small or capital letters."""
BRACKETS = ("[", "{", "'", '"')
"""What lists, mappings and quoted texts begin with."""

Init = TypeVar("Init", bound=Callable[..., None])


def resolve(annotation: Kind, names: Node | None = None) -> Kind:
    """Returns the type of an annotation, or of its source text with names that it refers to, by default those above.

    Other types, such as tensors, become `ANYTHING`.
    """
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = dict(globals() if names is None else names)
    try:
        return _plain(typing.get_type_hints(holder, globalns=scope, include_extras=True)["it"])
    except (NameError, AttributeError, TypeError, SyntaxError):  # a name that only type checkers import
        return ANYTHING


def _plain(kind: Kind) -> Kind:
    origin: object = get_origin(kind)
    arguments = get_args(kind)
    if kind in WORDS or origin is Literal:
        return kind
    if origin is Annotated and arguments[0] in (int, float) and all(type(limit) in SIGNS for limit in arguments[1:]):
        return kind
    if origin in (Union, types.UnionType):
        members = tuple(map(_plain, arguments))
        return ANYTHING if ANYTHING in members else Union[members]  # noqa: UP007
    if origin is tuple and ... not in arguments:
        return tuple[tuple(map(_plain, arguments))]  # type: ignore[misc]  # as many as there are
    return list[_plain(arguments[0])] if origin in (list, Sequence) else ANYTHING  # type: ignore[misc]


def describe_type(kind: Kind) -> str:
    """Returns what a type allows, in words: `an integer >= 1 or null`."""
    kind = resolve(kind)
    origin: object = get_origin(kind)
    arguments = get_args(kind)
    if kind in WORDS:
        return WORDS[kind]
    if origin is Annotated:
        bounds = (f"{SIGNS[type(bound)]} {limit(bound)}" for bound in arguments[1:])
        return f"{WORDS[arguments[0]]} {' and '.join(bounds)}"
    if origin is list:
        return f"a list such as [a,b], each {describe_type(arguments[0])}"
    if origin is tuple:
        return f"a list of {len(arguments)}: {', '.join(map(describe_type, arguments))}"
    *first, last = dict.fromkeys(map(as_typed if origin is Literal else describe_type, arguments))
    comma = "," if any("," in option for option in (*first, last)) else ""
    return f"{', '.join(first)}{comma} or {last}" if first else last


def limit(constraint: object) -> int | float:
    """Returns the number of a constraint such as `Ge(1)`."""
    number: int | float = getattr(constraint, type(constraint).__name__.lower())
    return number


@functools.cache
def _validate(kind: Kind) -> Callable[[bytes], object]:
    from pydantic import ConfigDict, TypeAdapter  # not at the top: `--help` checks nothing

    return TypeAdapter(
        typing.cast(type[object], kind), config=ConfigDict(strict=True, allow_inf_nan=False)
    ).validate_json


def mismatch(kind: Kind, value: object) -> str | None:
    """Returns `type` or `range` where a value is not legal, or None where it is."""
    from pydantic import ValidationError

    kind = resolve(kind)
    if any(isinstance(item, int) and abs(item) > LARGEST for item in (value if isinstance(value, list) else [value])):
        return "range"
    if kind is ANYTHING:
        return None
    try:
        # As JSON, a tuple is a list; in a path that is no UTF-8, any letter will do for the rest.
        _validate(kind)(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except ValidationError as error:
        return "range" if OUT_OF_RANGE & {detail["type"] for detail in error.errors()} else "type"
    except (TypeError, ValueError, RecursionError):  # nothing that JSON has
        return "type"
    return None


def fault(key: str, kind: Kind, value: object) -> Fault | None:
    """Returns why a value is not legal for a setting, or None where it is."""
    wrong = mismatch(kind, value)
    size = f" of at most {LARGEST.bit_length() + 1} bits" if wrong == "range" and mismatch(ANYTHING, value) else ""
    return Fault(key, wrong, f"{key} must be {describe_type(kind)}{size}, got {as_typed(value)}.") if wrong else None


def name_fault(key: str, value: object) -> Fault | None:
    """Returns why a text is no name of a folder, or None where it is, or where it is no text."""
    if not isinstance(value, str) or (value not in ("", ".", "..") and not set(value) & {"/", "\\", "\0"}):
        return None
    return Fault(key, "range", f"{key} must be a name, not a path: without / and \\, got {as_typed(value)!r}.")


def as_typed(value: object) -> str:
    """Returns a value as one types it on the command line."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if not isinstance(value, list | tuple):
        return str(value)
    texts = ((as_typed(part), isinstance(part, str) and "," in part) for part in value)
    return f"[{','.join(json.dumps(text, ensure_ascii=False) if has_comma else text for text, has_comma in texts)}]"


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Returns the shortest unique end of each key."""
    paths = {key: f".{key.replace('/', '.')}" for key in keys}
    names = {}
    for key, path in paths.items():
        ends = [path[place + 1 :] for place, sign in enumerate(path) if sign == "."]
        unique = (end for end in reversed(ends) if sum(other.endswith(f".{end}") for other in paths.values()) == 1)
        names[key] = next(unique, ends[0])
    return names


def format_values(values: Mapping[str, object]) -> str:
    """Returns values in short, each with the shortest unique end of its key."""
    texts = {key: f"{value:.4g}" if isinstance(value, float) else as_typed(value) for key, value in values.items()}
    return ", ".join(f"{name}={texts[key]}" for key, name in short_names(values).items())


def parse(text: str) -> Any:
    """Returns the value that a text spells: null, true or false, a number, a list, a quoted text, else the text.

    Lists, quotes and mappings are in Hydra's grammar.
    """
    if text.lower() in CONSTANTS or text == "None":
        return CONSTANTS.get(text.lower())
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    override = _override(text) if text[:1] in BRACKETS else None
    return text if override is None else override.value()


def is_several(text: str) -> bool:
    """Returns whether a text spells several values, as `1,2`, `choice(a,b)` and `range(1,3)` do."""
    override = _override(text) if "," in text or "(" in text else None
    return override is not None and override.is_sweep_override()


def _override(text: str) -> Override | None:
    """Returns a text in Hydra's grammar, if it is in it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser  # most texts need no grammar
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(f"key={text}")
    except HydraException:
        return None


def parse_names(text: str) -> str | list[str]:
    """Returns the names of a list such as `[title,body]`, or a single name, in brackets or not.

    A name may be in quotes: in a list one with a comma needs them.
    """
    is_list = text.startswith("[") and text.endswith("]")
    names = next(csv.reader([text[1:-1]], skipinitialspace=True)) or [""] if is_list else [text]
    names = [unquoted(name.strip()) if is_list else unquoted(name) for name in names]
    return names[0] if len(names) == 1 else names


def unquoted(text: str) -> str:
    """Returns a text without the quotes that enclose it, as Hydra's grammar has them."""
    is_quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


def hints(function: Callable[..., object]) -> dict[str, Kind]:
    """Returns the types of a function's parameters by name, `self` included."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    parameters = inspect.signature(function).parameters
    return {name: resolve(parameter.annotation, scope) for name, parameter in parameters.items()}


def checked(init: Init) -> Init:
    """Makes a constructor refuse values that its annotations do not allow.

    Raises:
        SettingError: From the constructor, all faulty arguments at once, by name.
    """
    signature = inspect.signature(init)
    kinds = functools.cache(lambda: hints(init))  # not before the first call: names may be defined later

    @functools.wraps(init)
    def wrapper(self: object, *args: object, **kwargs: object) -> None:
        values = signature.bind_partial(self, *args, **kwargs).arguments if args else kwargs
        faults = [fault(key, kinds()[key], value) for key, value in values.items() if key in kinds()]
        if any(faults):
            named = (Fault(fault.key, fault.kind, f"{type(self).__name__}: {fault}") for fault in faults if fault)
            raise SettingError(*named)
        init(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]  # it takes what `init` takes
