"""What docstrings say of arguments, read from the source text without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from sentattn.config.signatures import Callee, definition

ARGS = "Args:"


class Documented(NamedTuple):
    """One argument: its meaning, or an empty text, and its default as source text, or None where it has none."""

    meaning: str
    default: str | None


def read(target: str) -> dict[str, Documented]:
    """Returns what is written of the arguments of a class or function.

    A class's own words go before those of the classes it is derived from; of a function that returns an object of
    ours, the class of that object speaks where the function does not.
    """
    meanings: dict[str, str] = {}
    defaults: dict[str, str] = {}
    names: dict[str, None] = {}
    for node in _speakers(target):
        for name, meaning in arguments(ast.get_docstring(node) or "").items():
            meanings.setdefault(name, meaning)
        for name, default in _defaults(node):
            names.setdefault(name)
            if default is not None:
                defaults.setdefault(name, default)
    return {name: Documented(meanings.get(name, ""), defaults.get(name)) for name in names}


def arguments(docstring: str) -> dict[str, str]:
    """Returns the entries under `Args:` of a Google-style docstring, each as one line."""
    found: dict[str, str] = {}
    name = ""
    _, _, rest = docstring.partition(f"{ARGS}\n")
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        entry = re.fullmatch(r" {4}(\w+): (.*)", line)
        if entry:
            name = entry[1]
            found[name] = entry[2]
        elif name and line.strip():
            found[name] += f" {line.strip()}"
    return found


def _speakers(target: str) -> Iterator[Callee]:
    """The class and those it is derived from, the nearest first, or a function and the class of what it returns."""
    found = definition(target)
    if found is None:
        return
    module, node = found
    yield node
    others = node.bases if isinstance(node, ast.ClassDef) else [node.returns] if node.returns else []
    for other in others:
        if isinstance(other, ast.Name):
            yield from _speakers(f"{module}.{other.id}")


def _defaults(node: Callee) -> Iterator[tuple[str, str | None]]:
    functions = [node] if isinstance(node, ast.FunctionDef) else node.body
    for function in functions:
        if not isinstance(function, ast.FunctionDef) or (function is not node and function.name != "__init__"):
            continue
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults, *given.kw_defaults]
        for argument, default in zip([*positional, *given.kwonlyargs], defaults, strict=True):
            yield argument.arg, None if default is None else ast.unparse(default)
