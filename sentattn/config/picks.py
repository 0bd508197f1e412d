"""Choices of groups among what was typed."""

from __future__ import annotations

from collections.abc import Sequence

from sentattn.config.arguments import Faults, Typed, closest
from sentattn.config.groups import QUIRKS, Choices, defaults, load
from sentattn.errors import suggestion


def pick(typed: Sequence[Typed], choices: Choices, faults: Faults) -> tuple[dict[str, str], list[Typed]]:
    """Parts the choices of groups from the values; a misspelt choice stands for the closest, to go on checking."""
    picks: dict[str, str] = {}
    values: list[Typed] = []
    unsure: list[str] = []
    for one in typed:
        group, name = one.key, one.value if isinstance(one.value, str) else one.text
        if group.replace("/", ".").partition(".")[0] == QUIRKS:
            faults.add(f"{one}: quirks are not chosen by name; type faithful=true.", one.position)
            continue
        if group not in choices.groups():
            close = closest(group, choices.groups())
            if "/" not in group and not (close and name in choices.names(close)):
                values.append(one)
                continue
            faults.add(_no_group(one, close, choices), one.position)
            group = close
        elif name not in choices.names(group) and not (one.value is None and _optional(group, choices)):
            faults.add(_no_choice(one, choices), one.position)
        if group and (near := closest(name, choices.names(group))):
            picks[group] = near
        elif group and one.value is not None:
            unsure.append(group.replace("/", "."))
    return picks, [t for t in values if not any(t.key.startswith(f"{path}.") for path in unsure)]


def _optional(group: str, choices: Choices) -> bool:
    listed = defaults(load(choices.folders[0] / "train.yaml"))
    return group in listed and listed[group] is None


def _no_group(one: Typed, close: str, choices: Choices) -> str:
    if one.key.replace(".", "/") == close:
        return f"{one}: a choice is written with slashes; type {close}={one.text}."
    hint = f"Did you mean {close!r}?" if close else f"There are {', '.join(choices.groups())}."
    return f"{one}: there is no group {one.key!r}. {hint}"


def _no_choice(one: Typed, choices: Choices) -> str:
    names = choices.names(one.key)
    there = f"There {'is' if len(names) == 1 else 'are'} {', '.join(names)}." if names else "There are none yet."
    if not one.text:
        return f"{one} has no value: type {one.key}=NAME. {there}"
    return f"{one}: {one.key} has no choice {one.text!r}.{suggestion(one.text, names)} {there}"
