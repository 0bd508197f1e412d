"""What a `_target_` takes, read from its source text: nothing is imported, so a misspelt setting is told at once."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from sentattn.config.types import KINDS
from sentattn.errors import SettingError

Callee: TypeAlias = ast.ClassDef | ast.FunctionDef
CLOSED = {"torch.nn.modules.module.Module"}
"""Classes whose `**kwargs` take nothing in the end."""
FILLED = "filled"
"""`**filled` in a signature stands for what the code fills in; no setting is among it."""


@dataclass(frozen=True)
class Argument:
    """One argument: its annotation as source text, and whether it has no default."""

    annotation: str
    required: bool


@dataclass(frozen=True)
class Signature:
    """What a target takes.

    Attributes:
        arguments: By name, `self` left out.
        constants: A class's constants with literal values, inherited ones included.
        open: Whether it takes arguments by any name.
    """

    arguments: dict[str, Argument]
    constants: dict[str, Any]
    open: bool = False


@functools.cache
def read(target: str) -> Signature:
    """Returns the signature of a class or function given by its dotted path.

    Raises:
        SettingError: If there is no such class or function.
    """
    module, _, name = target.rpartition(".")
    try:
        found = _lookup(module, name) if module else None
        if found is not None and isinstance(found[1], Callee):
            return _signature(found[0], found[1])
    except (SyntaxError, ValueError, RecursionError):
        pass
    return _imported(target, module, name)


def definition(target: str) -> tuple[str, Callee] | None:
    """Returns the module that defines a class or function, and its syntax tree; None without source text."""
    module, _, name = target.rpartition(".")
    found = _lookup(module, name) if module else None
    return (found[0], found[1]) if found is not None and isinstance(found[1], Callee) else None


@functools.cache
def source(module: str) -> tuple[Path, ast.Module] | None:
    """Returns a module's file and syntax tree without importing it or the packages around it."""
    top, *inner = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    folders = [Path(folder) for folder in spec.submodule_search_locations or []]
    candidates = [folder.joinpath(*inner) for folder in folders]
    files = [file for path in candidates for file in (path / "__init__.py", path.with_suffix(".py"))]
    if not inner and spec.origin:
        files = [Path(spec.origin)]
    file = next((file for file in files if file.is_file() and file.suffix == ".py"), None)
    return (file, ast.parse(file.read_text(encoding="utf-8"))) if file else None


def _lookup(module: str, name: str, seen: frozenset[str] = frozenset()) -> tuple[str, ast.AST] | None:
    """Finds a name in a module or where the module imports it from: the module of its definition, and that."""
    found = source(module)
    if found is None or module in seen:
        return None
    file, tree = found
    seen |= {module}
    result: tuple[str, ast.AST] | None = None
    stars: list[str] = []
    for statement in _statements(tree.body):
        match statement:
            case ast.ClassDef(name=defined) | ast.FunctionDef(name=defined) if defined == name:
                result = (module, statement)
            case ast.Assign(targets=[ast.Name(id=defined)], value=value) if defined == name:
                result = (module, value)
            case ast.AnnAssign(target=ast.Name(id=defined), value=ast.expr() as value) if defined == name:
                result = (module, value)
            case ast.ImportFrom(names=names):
                origin = _origin(statement, module, is_package=file.name == "__init__.py")
                stars += [origin for alias in names if alias.name == "*"]
                for alias in names:
                    if (alias.asname or alias.name) == name:
                        result = _lookup(origin, alias.name, seen) or result
    return result or next(filter(None, (_lookup(origin, name, seen) for origin in stars)), None)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if` and `try` too."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)
        else:
            yield statement


def _origin(statement: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    if not statement.level:
        return statement.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - statement.level + is_package]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def _signature(module: str, node: Callee) -> Signature:
    if isinstance(node, ast.FunctionDef):
        return _arguments(module, node)
    inits = [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"]
    own = _arguments(module, inits[-1], method=True) if inits else Signature({}, {}, open=True)
    constants = dict(_constants(node.body))
    for base in node.bases:
        inherited = _base(module, base)
        if inherited is None and own.open:
            raise ValueError(f"{ast.unparse(base)} has no source text to be found")
        inherited = inherited or Signature({}, {})
        constants = inherited.constants | constants
        if own.open:
            own = Signature(inherited.arguments | own.arguments, {}, open=inherited.open)
    if not node.bases or f"{module}.{node.name}" in CLOSED:
        own = replace(own, open=bool(inits) and own.open and f"{module}.{node.name}" not in CLOSED)
    return replace(own, constants=constants)


def _base(module: str, base: ast.expr) -> Signature | None:
    """The signature of a base class; a built-in one takes nothing; None where it cannot be found."""
    match base:
        case ast.Name(id=name) if hasattr(builtins, name):
            return Signature({}, {})
        case ast.Subscript(value=inner):
            return _base(module, inner)
        case ast.Name(id=name):
            found = _lookup(module, name)
        case ast.Attribute(value=ast.Name(id=package), attr=name):
            found = _lookup(_imported_module(module, package), name)
        case _:
            found = None
    return _signature(found[0], found[1]) if found and isinstance(found[1], ast.ClassDef) else None


def _imported_module(module: str, name: str) -> str:
    """What `name` stands for in a module that imports it, such as `nn` for `torch.nn`."""
    found = source(module)
    if found is None:
        return name
    file, tree = found
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == name and isinstance(statement, ast.ImportFrom):
                    return f"{_origin(statement, module, is_package=file.name == '__init__.py')}.{alias.name}"
                if (alias.asname or alias.name) == name:
                    return alias.name
    return name


def _arguments(module: str, function: ast.FunctionDef, *, method: bool = False) -> Signature:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults, *given.kw_defaults]
    both = zip([*positional, *given.kwonlyargs], defaults, strict=True)
    arguments = {a.arg: Argument(_annotation(module, a.annotation), default is None) for a, default in both}
    if method:
        del arguments[next(iter(arguments))]
    return Signature(arguments, {}, open=given.kwarg is not None and given.kwarg.arg != FILLED)


def _annotation(module: str, annotation: ast.expr | None) -> str:
    return ast.unparse(_Aliases(module).visit(annotation)) if annotation is not None else "Any"


class _Aliases(ast.NodeTransformer):
    """Puts a type alias's definition in its place: `Clip` becomes `Literal["head", "tail", "both"]`."""

    def __init__(self, module: str) -> None:
        self.module = module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = _lookup(self.module, node.id) if node.id not in KINDS else None
        if found is None or not isinstance(found[1], ast.Subscript | ast.BinOp | ast.Name):
            return node
        expanded: ast.expr = _Aliases(found[0]).visit(ast.parse(ast.unparse(found[1]), mode="eval").body)
        return expanded

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        is_literal = ast.unparse(node.value).endswith("Literal")
        inner = node.slice if is_literal else self.visit(node.slice)
        return ast.Subscript(value=node.value, slice=inner, ctx=node.ctx)


def _constants(body: list[ast.stmt]) -> Iterator[tuple[str, Any]]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        try:
            yield name, ast.literal_eval(value)
        except ValueError:
            continue


def _imported(target: str, module: str, name: str) -> Signature:
    """The way by a real import, for what its source text does not tell (C code, decorated or generated classes)."""
    try:
        found = getattr(importlib.import_module(module), name)
        parameters = dict(inspect.signature(found).parameters)
    except Exception as error:  # a module of the user's own may fail in any way
        raise SettingError(f"_target_ {target} cannot be found: {error}.") from error
    kinds = {kind: [p for p in parameters.values() if p.kind is kind] for kind in inspect._ParameterKind}
    named = kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD] + kinds[inspect.Parameter.KEYWORD_ONLY]
    arguments = {
        p.name: Argument(p.annotation if isinstance(p.annotation, str) else "Any", p.default is p.empty) for p in named
    }
    constants = {key: value for key, value in vars(found).items() if isinstance(value, bool | int | tuple)}
    return Signature(arguments, constants, open=bool(kinds[inspect.Parameter.VAR_KEYWORD]))
