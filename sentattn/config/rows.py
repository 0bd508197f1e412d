"""The settings that the configuration holds, with what is written of each in YAML files and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentattn.config import docstrings, signatures, types
from sentattn.config.groups import Choices, at, conf_dir, defaults, load
from sentattn.config.library import LIBRARY
from sentattn.config.request import ABOUT, OWN
from sentattn.config.schema import TOP
from sentattn.config.settable import TARGET, settable

ORDER = ("data", "model", "loss", "optimizer", "scheduler", "trainer", "logger", "experiment")
"""Groups in the order in which a newcomer asks for them; others follow."""
TYPED = "???"
ENTRY = re.compile(r"""( *)([\w/]+):(?: +(?:"[^"]*"|'[^']*')|(?:(?! #).)*)(?: +# *(.*))?""")
"""A line of a YAML file: indentation, key, and the comment behind its value."""


@dataclass
class Row:
    """One setting: what it takes and means, and its default in each choice that has it."""

    key: str
    takes: str
    meaning: str
    defaults: dict[str, str] = field(default_factory=dict)


def request_rows() -> list[Row]:
    """Returns the keys that belong to the command and are no settings."""
    return [
        Row(key, types.legal(annotation)[0], ABOUT[key][1], {"": _shown(ABOUT[key][0])})
        for key, annotation in OWN.items()
    ]


def top_rows() -> list[Row]:
    """Returns the settings that belong to no constructor."""
    file = conf_dir() / "train.yaml"
    told = comments(file)
    return [
        Row(
            key,
            types.legal(annotation)[0],
            _sentence(told.get(key) or told.get(key.rpartition(".")[0], "")),
            {"": _shown(at(load(file), key))},
        )
        for key, annotation in TOP.items()
    ]


def paths(choices: Choices) -> list[str]:
    """The dotted paths of all nodes, groups or not, each behind the one that it is in."""
    groups = [group.replace("/", ".") for group in choices.groups()]
    nodes = [*groups, *(path for path in _nodes(load(conf_dir() / "train.yaml"), "") if path not in groups)]
    place = {name: position for position, name in enumerate(ORDER)}
    top = list(dict.fromkeys(path.partition(".")[0] for path in nodes))
    top.sort(key=lambda name: place.get(name, len(place)))
    return [path for name in top for path in nodes if path.partition(".")[0] == name]


def _nodes(settings: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            if TARGET in value:
                yield inner
            yield from _nodes(value, inner)


def rows_of(path: str, choices: Choices) -> list[Row]:
    """The settings of a node: one row for those that mean the same in several choices."""
    rows: dict[tuple[str, str, str], Row] = {}
    for name, node in alternatives(path, choices):
        if TARGET not in node:
            continue
        signature = signatures.read(node[TARGET])
        known = docstrings.read(node[TARGET])
        told = comments(choices.file(path.replace(".", "/"), name)) if name else comments(conf_dir() / "train.yaml")
        ours = node[TARGET].startswith("sentattn.")
        for key, annotation in settable(path, node[TARGET], signature, node).items():
            if f"{path.replace('.', '/')}/{key}" in choices.groups() or isinstance(node.get(key), Mapping):
                continue
            meaning = LIBRARY.get(path, {}).get(key, "")
            if ours:
                meaning = _meaning(known[key].meaning if key in known else "", told, f"{path}.{key}")
            elif not meaning and key not in node:
                continue  # one of many that are the library's own
            takes = types.legal(annotation)[0]
            default = _shown(node[key] if key in node else _literal(known[key].default))
            row = rows.setdefault((key, takes, meaning), Row(f"{path}.{key}", takes, meaning))
            row.defaults[name] = default
    order = list(dict.fromkeys(key for key, _, _ in rows))
    return [row for key in order for (own, _, _), row in rows.items() if own == key]


def _meaning(written: str, told: Mapping[str, str], path: str) -> str:
    """What a docstring says, or else the comment in the YAML; a mere reference to the code is for its readers."""
    if written and not written.startswith("See `"):
        return re.sub(r"\bNone\b", "null", written)
    return _sentence(told.get(path) or told.get(path.rpartition(".")[2], ""))


def _literal(default: str | None) -> Any:
    """The value of a constructor's default; of one that is no literal, its source text."""
    try:
        return ast.literal_eval(default or "None")
    except ValueError:
        return default


def alternatives(path: str, choices: Choices) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A node as each choice of its group has it, by name; one that is no group, without a name."""
    group = path.replace(".", "/")
    base = at(load(conf_dir() / "train.yaml"), path) or {}
    if group not in choices.groups():
        yield "", base
    elif group != "experiment":
        for name in choices.names(group):
            yield name, {**base, **_inherited(group, name, choices)}


def _inherited(group: str, name: str, choices: Choices) -> Mapping[str, Any]:
    """A choice's node on top of those that its defaults list names in its own group."""
    listed = load(choices.file(group, name)).get("defaults", ())
    below = [entry for entry in listed if isinstance(entry, str) and entry in choices.names(group)]
    merged: dict[str, Any] = {}
    for other in below:
        merged |= _inherited(group, other, choices)
    return {key: value for key, value in (merged | dict(choices.node(group, name))).items() if key != "defaults"}


def brought(group: str, name: str, choices: Choices) -> Iterator[str]:
    """What a choice sets beside the defaults of its own class: its parts, and settings of others."""
    whole = load(choices.file(group, name))
    for part, choice in defaults(whole).items():
        yield f"{group}/{part}={choice}"
    own = group.replace("/", ".")
    is_package = own in whole
    for key, value in _leaves(whole, ""):
        parent = key if is_package else f"{own}.{key}"
        beside = parent.removeprefix(f"{own}.")
        if key.partition(".")[0] == "defaults" or (parent.startswith(f"{own}.") and "." not in beside):
            continue
        yield f"{parent}={_bare(value)}"


def _leaves(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _leaves(value, inner)
        else:
            yield inner, value


def comments(file: Path) -> dict[str, str]:
    """Returns the comments behind the lines of a YAML file, by dotted key."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        entry = ENTRY.fullmatch(line)
        if entry is None:
            continue
        indent, key, told = len(entry[1]), entry[2], entry[3]
        above = [(depth, name) for depth, name in above if depth < indent]
        above.append((indent, key))
        if told:
            found[".".join(name for _, name in above)] = told.strip()
    return found


def _bare(value: Any) -> str:
    reference = re.fullmatch(r"\$\{(.*)\}", str(value))
    return reference[1] if reference else types.given(value)


def _shown(value: Any) -> str:
    if value == TYPED:
        return "must be given"
    shown = _bare(value)
    return f"`{shown}`" if shown else ""


def _sentence(told: str) -> str:
    return f"{told[:1].upper()}{told[1:].rstrip('.')}." if told else ""
