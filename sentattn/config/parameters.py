"""Parameters of the class or function that a `_target_` names; those that `conf/` names are not imported for it.

`parameters.json` is written by `make docs` and held against the constructors by a test. Importing Lightning takes
seconds, and a misspelt setting is reported before that. Other classes, such as a user's own, are imported.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentattn.config import types
from sentattn.config.groups import get_path
from sentattn.config.schema import FIXED_IN_TRAINING, TOP, stricter
from sentattn.config.targets import TARGET_KEY, is_own
from sentattn.config.types import Kind, Node, Tree
from sentattn.errors import Fault, SettingError

TABLE = Path(__file__).with_name("parameters.json")
CONSTANTS = ("learns", "reads")
"""Attributes of classes that the rules look at."""
CLOSED = "torch.nn.modules.module"
"""Its `**kwargs` take nothing."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type, whether it has no default, and the default."""

    type: Kind
    required: bool = False
    default: object = None


@dataclass(frozen=True)
class Signature:
    """What a target takes: parameters by name, `CONSTANTS` of its class, and whether it takes any other name too."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    constants: Tree = field(default_factory=dict)
    open: bool = False


@functools.cache
def read(target: str) -> Signature:
    """Returns what a class or function takes.

    Raises:
        SettingError: If there is none at this dotted path.
    """
    entry = _table().get(target)
    if entry is None or any(digest(file) != known for file, known in entry["sources"].items()):
        return imported(target)
    parameters = {
        name: Parameter(types.resolve(kind), not default, *default) for name, (kind, *default) in entry["takes"].items()
    }
    return Signature(parameters, entry["constants"], entry["open"])


@functools.cache
def _table() -> Tree:
    table: Tree = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.is_file() else {}
    return table


@functools.cache
def digest(file: str) -> int:
    """Returns a checksum of the constructors in a file of the package: another one than in the table is newer."""
    path = TABLE.parents[1] / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return zlib.crc32("".join(re.findall(r"def \w+\(.*?\) ->", text, flags=re.DOTALL)).encode())


def imported(target: str) -> Signature:
    """Returns what a class or function takes, by importing it.

    Raises:
        SettingError: If there is none at this dotted path.
    """
    parameters: dict[str, Parameter] = {}
    try:
        taker = load(target)
        functions = constructors(taker)
        for function in reversed(functions):
            kinds = types.hints(function)
            takes = list(inspect.signature(function).parameters.items())
            for name, parameter in takes[function is not taker :]:  # without self
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    required = parameter.default is parameter.empty
                    parameters[name] = Parameter(kinds[name], required, None if required else parameter.default)
    except Exception as error:  # a module of the user's own may fail in any way
        raise SettingError(
            Fault(TARGET_KEY, "not_found", f"{TARGET_KEY} {target} cannot be found: {error}.")
        ) from error
    constants = {name: getattr(taker, name) for name in CONSTANTS if hasattr(taker, name)}
    return Signature(parameters, constants, open=bool(functions) and _passes_on(functions[-1]))


def source(target: str) -> bytes:
    """Returns the file that a class or function is defined in, as it is on the disk; empty where there is none."""
    with suppress(OSError, TypeError):  # a class that was typed into an interpreter has no file
        return Path(str(inspect.getsourcefile(load(target)))).read_bytes()
    return b""


def source_hash(target: str) -> str:
    """Returns the hash of the files of a function, or of a class and of those of its bases that are one's own.

    It is empty where there is no file.
    """
    bases = [f"{base.__module__}.{base.__qualname__}" for base in getattr(load(target), "__mro__", ())[1:]]
    own = [base for base in bases if is_own(base) and base.partition(".")[0] not in sys.stdlib_module_names]
    texts = [text for text in dict.fromkeys(map(source, [target, *own])) if text]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12] if texts else ""


def load(target: str) -> Any:
    """Imports what is at a dotted path."""
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)


def constructors(taker: Callable[..., object]) -> list[Callable[..., object]]:
    """Returns a class's constructor and those that it passes other arguments on to, or the function itself."""
    if not isinstance(taker, type):
        return [taker]
    inits = [vars(base)["__init__"] for base in taker.__mro__[:-1] if "__init__" in vars(base)]
    last = next((place for place, init in enumerate(inits) if not _passes_on(init)), len(inits))
    return inits[: last + 1]


def _passes_on(function: Callable[..., object]) -> bool:
    last = list(inspect.signature(function).parameters.values())[-1:]
    closed = inspect.unwrap(function).__module__ == CLOSED
    return bool(last) and last[0].kind is last[0].VAR_KEYWORD and not closed


def settable(path: str, target: str, declared: Node) -> dict[str, Kind]:
    """Returns the parameters that are settings, with their types: those with a default or a line in the YAML.

    Raises:
        SettingError: If there is no such target.
    """
    return {
        name: stricter(target, name) or parameter.type
        for name, parameter in read(target).parameters.items()
        if (not parameter.required or name in declared) and f"{path}.{name}" not in FIXED_IN_TRAINING
    }


def known(node: object) -> Signature:
    """Returns what a node's class takes; an empty signature where it has no class that can be found."""
    target = node.get(TARGET_KEY) if isinstance(node, Mapping) else None
    try:
        return read(target) if isinstance(target, str) else Signature()
    except SettingError:
        return Signature()


def leaves(settings: Node, path: str = "") -> Iterator[str]:
    """Yields the dotted paths of all settings."""
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and (TARGET_KEY in value or not path):
            defaults = (name for name, parameter in known(value).parameters.items() if not parameter.required)
            absent = (f"{inner}.{name}" for name in defaults if name not in value)
            yield from (path for path in absent if path not in FIXED_IN_TRAINING)
            yield from leaves(value, inner)
        elif path and key != TARGET_KEY:
            yield inner


def type_of(settings: Node, path: str) -> Kind:
    """Returns the type of the setting at a dotted path, or None where nothing is known of it."""
    if path in TOP:
        return TOP[path]
    parent, _, key = path.rpartition(".")
    node = get_path(settings, parent)
    parameter = known(node).parameters.get(key)
    return (stricter(node[TARGET_KEY], key) or parameter.type) if parameter else None
