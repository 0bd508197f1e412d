"""Saved settings: the classes they may name with `_target_`, where these are now, and the name of their model.

A run directory or a file of settings may come from anybody. Loading one must not run code that it names, so a loaded
`_target_` has to be one that the package's own `conf/` names for the same slot, an optimizer of PyTorch, or one from a
folder that the user typed (`--config-dir`). `trust=true` lifts that. Nothing is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sentattn.config.groups import Choices, defaults, get_path, group_of, load
from sentattn.config.schema import CHOICES, REMOVED
from sentattn.config.types import Node, Tree, as_typed
from sentattn.errors import Fault, SettingError

TARGET = "_target_"

MOVED: dict[str, str] = {
    "sentattn.data.module.Demo": "sentattn.data.datasets.demo.Demo",
    "sentattn.data.module.Imdb": "sentattn.data.datasets.imdb.Imdb",
    "sentattn.data.module.Table": "sentattn.data.datasets.table.Table",
    "sentattn.data.module.Yelp": "sentattn.data.datasets.yelp.Yelp",
    "sentattn.losses.ClassifierLoss": "sentattn.training.losses.ClassifierLoss",
    "sentattn.schedulers.Constant": "sentattn.training.schedulers.Constant",
    "sentattn.schedulers.Cosine": "sentattn.training.schedulers.Cosine",
    "sentattn.schedulers.OneCycle": "sentattn.training.schedulers.OneCycle",
    "sentattn.schedulers.Step": "sentattn.training.schedulers.Step",
}
"""First path of a class -> its path now, where these differ.

`setting_hash` uses the first path, so that a moved class makes no new setting: the left side never changes. Whoever
moves a class that `conf/` names adds a line here, and changes the `_target_` in `conf/`.
"""
FIRST = {now: first for first, now in MOVED.items()}

OPTIMIZERS = re.compile(r"torch\.optim\.(\w+\.)?[A-Z]\w*")
"""Optimizers of PyTorch that `conf/` does not name are as safe as those that it names."""

SLOTS = ("embedding", "encoder", "attention", "pooling", "wide")
"""The parts of a variant that can be exchanged."""
UNKNOWN = "?"
"""The label of settings without a readable model."""


def current(saved: Node) -> Tree:
    """Returns saved settings with each class at its current path, and without settings that no longer exist."""
    settings: Tree = renamed({key: value for key, value in saved.items() if key not in REMOVED}, MOVED)
    return settings


def renamed(value: object, names: Mapping[str, str]) -> Any:
    """Returns settings with each `_target_` replaced by its name in `MOVED` or `FIRST`."""
    if isinstance(value, Mapping):
        node = {key: renamed(inner, names) for key, inner in value.items()}
        if isinstance(target := node.get(TARGET), str):
            node[TARGET] = names.get(target, target)
        return node
    return [renamed(item, names) for item in value] if isinstance(value, list) else value


def check_targets(saved: Node, choices: Choices, *, trust: bool = False) -> Tree:
    """Returns saved settings as `current` does, if each class in them fits its slot.

    `choices` are those of the package and of the folders that the user typed; with `trust` any class may be named.

    Raises:
        SettingError: With every class that may not be named, kind `unsafe`.
    """
    settings = current(saved)
    faults = [
        Fault(
            path,
            "unsafe",
            f"{path} names {target}, which is not among its choices. Loading runs no code that a file names; "
            "if it is a class of your own, and you trust where the file comes from, type trust=true.",
        )
        for path, target in _targets(settings, "")
        if not trust
        and target not in named(path, choices)
        and not (path == "optimizer" and OPTIMIZERS.fullmatch(str(target)))
    ]
    if faults:
        raise SettingError(*faults)
    return settings


def _targets(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yields the path and the `_target_` of every mapping that has one."""
    if isinstance(value, Mapping):
        if TARGET in value:
            yield path, value[TARGET]
        for key, inner in value.items():
            yield from _targets(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _targets(inner, f"{path}[{number}]")


def named(path: str, choices: Choices) -> list[object]:
    """Returns the targets that configuration folders name for a slot, such as `model.attention`."""
    group = group_of(path)
    nodes = [get_path(load(choices.folders[0] / "train.yaml"), path)]
    if group in choices.groups() and group != "experiment":
        nodes += [choices.node(group, name) for name in choices.names(group)]
    return [node[TARGET] for node in nodes if isinstance(node, Mapping) and TARGET in node]


def label(settings: Node) -> str:
    """Returns the name of a run's variant and every part that is not the variant's own, or `?` where it has none.

    Examples are `structured`, `structured, attention=query` and `feedforward, encoder=cnn`. Values inside a part, such
    as `hops`, are left out, save that an attention is frozen, or that n-grams are attended to otherwise than the name
    of the wide part says.
    """
    model, choices = settings.get("model"), Choices.of()
    if not isinstance(model, Mapping) or "name" not in model:
        return UNKNOWN
    variant = str(model["name"])
    preset = defaults(choices.node("model", variant)) if variant in choices.names("model") else {}
    chosen = slots(settings)
    parts = [f"{slot}={name}" for slot, name in chosen.items() if preset.get(slot, name) != name]
    wide = choices.node("model/wide", chosen["wide"]) if chosen.get("wide") in choices.names("model/wide") else {}
    if "attend" in wide and (attend := model["wide"].get("attend", False)) != wide["attend"]:
        parts.append(f"wide.attend={as_typed(attend)}")
    parts += ["frozen attention"] if model.get("freeze_attention") else []
    return ", ".join([variant, *parts])


def slots(settings: Node) -> dict[str, str]:
    """Returns the choice that each part of a run's model is, such as `{"encoder": "bilstm", "attention": "max", ...}`.

    A part from a user's folder has the name of its file there, or that of its class where the settings lack it.
    """
    model = current(settings)["model"]
    chosen = Choices.of().chosen({"model": model})
    names = {}
    for slot in (slot for slot in SLOTS if isinstance(model.get(slot), Mapping)):
        own = get_path(settings, f"{CHOICES}.model/{slot}")
        class_name = str(model[slot].get(TARGET)).rpartition(".")[2]
        names[slot] = own if isinstance(own, str) else chosen.get(f"model/{slot}", class_name)
    return names
