"""Saved settings: the classes they may name with `_target_`, and the name of their model.

A run directory or a file of settings may come from anybody. Loading one must not run code that it names, so a loaded
`_target_` has to be one that the package's own `conf/` names for the same slot, an optimizer of PyTorch, or one from a
folder that the user typed (`--config-dir`). `trust=true` lifts that. Nothing is imported here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sentattn.config.groups import Choices, get_path, group_of, load
from sentattn.config.schema import CHOICES_KEY
from sentattn.config.types import Node, Tree, as_typed
from sentattn.errors import Fault, SettingError
from sentattn.run import MODEL_SLOTS

TARGET_KEY = "_target_"

LIBRARIES = ("sentattn.", "torch.", "pytorch_lightning.")
"""Where classes are that are nobody's own."""
OPTIMIZERS = re.compile(r"torch\.optim\.(\w+\.)?[A-Z]\w*")
"""Optimizers of PyTorch that `conf/` does not name are as safe as those that it names."""

UNKNOWN = "?"
"""The label of settings without a readable model."""


def check_targets(saved: Node, choices: Choices, *, trust: bool = False) -> Tree:
    """Returns a copy of saved settings, if each class in them fits its slot.

    `choices` are those of the package and of the folders that the user typed; with `trust` any class may be named.

    Raises:
        SettingError: With every class that may not be named, kind `unsafe`.
    """
    faults = [
        Fault(
            path,
            "unsafe",
            f"{path} names {target}, which is not among its choices. Loading runs no code that a file names; "
            "if it is a class of your own, and you trust where the file comes from, type trust=true.",
        )
        for path, target in targets_in(saved)
        if not trust
        and target not in named(path, choices)
        and not (path == "optimizer" and OPTIMIZERS.fullmatch(str(target)))
    ]
    if faults:
        raise SettingError(*faults)
    return copy.deepcopy(dict(saved))


def needed_trust(saved: Node) -> str:
    """Returns ` trust=true`, which a command that loads saved settings needs where these name a class of one's own."""
    try:
        check_targets(saved, Choices.of())
    except SettingError:
        return " trust=true"
    return ""


def targets_in(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the path and the `_target_` of every mapping in settings that has one."""
    if isinstance(value, Mapping):
        if TARGET_KEY in value:
            yield path, value[TARGET_KEY]
        for key, inner in value.items():
            yield from targets_in(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from targets_in(inner, f"{path}[{number}]")


def is_own(target: object) -> bool:
    """Whether a `_target_` is a class of the user's own."""
    return isinstance(target, str) and not target.startswith(LIBRARIES)


def named(path: str, choices: Choices) -> list[object]:
    """Returns the targets that configuration folders name for a slot, such as `model.attention`."""
    group = group_of(path)
    nodes = [get_path(load(choices.folders[0] / "train.yaml"), path)]
    if group in choices.groups() and group != "experiment":
        nodes += [choices.node(group, name) for name in choices.names(group)]
    return [node[TARGET_KEY] for node in nodes if isinstance(node, Mapping) and TARGET_KEY in node]


def label(settings: Node) -> str:
    """Returns the name of a run's variant and every part that is not the variant's own, or `?` where it has none.

    Examples are `structured`, `structured, attention=query` and `feedforward, encoder=cnn`. Values inside a part, such
    as `hops`, are left out, save that an attention is frozen, or that n-grams are attended to otherwise than the name
    of the wide part says. A name of the user's own (`model.name=`) is the label.
    """
    model, choices = settings.get("model"), Choices.of()
    if not isinstance(model, Mapping) or "name" not in model:
        return UNKNOWN
    variant = str(model["name"])
    if (settings.get(CHOICES_KEY) or {}).get("model", variant) != variant:
        return variant  # the user's own name
    preset, chosen = choices.parts(variant), slots(settings)
    parts = [f"{slot}={name}" for slot, name in chosen.items() if preset.get(slot, name) != name]
    wide = choices.node("model/wide", chosen.get("wide"))
    if "attend" in wide and (attend := model["wide"].get("attend", False)) != wide["attend"]:
        parts.append(f"wide.attend={as_typed(attend)}")
    parts += ["frozen attention"] if model.get("freeze_attention") else []
    return ", ".join([variant, *parts])


def slots(settings: Node) -> dict[str, str]:
    """Returns the choice that each part of a run's model is, such as `{"encoder": "bilstm", "attention": "max", ...}`.

    A part whose choice is not recorded has the name of its class.
    """
    model, recorded = settings["model"], settings.get(CHOICES_KEY) or {}
    parts = {slot: model[slot] for slot in MODEL_SLOTS if isinstance(model.get(slot), Mapping)}
    classes = {slot: str(node.get(TARGET_KEY)).rpartition(".")[2] for slot, node in parts.items()}
    return {slot: recorded.get(f"model/{slot}") or name for slot, name in classes.items()}
