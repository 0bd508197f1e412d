"""How a run is called: its variant, and each part in which it differs from that variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentattn.config.groups import Choices, defaults
from sentattn.config.targets import MOVED, TARGET, renamed

SLOTS = ("embedding", "encoder", "attention", "pooling")
"""The parts of a variant that can be exchanged."""
UNKNOWN = "?"
"""The label of settings without a readable model."""


def label(settings: Mapping[str, Any]) -> str:
    """Returns the name of a run's variant and every part that is not the variant's own, or `?` where it has none.

    Examples are `structured`, `structured, attention=query` and `feedforward, encoder=cnn`. Values inside a part, such
    as `hops`, are left out.
    """
    model, choices = settings.get("model"), Choices.of()
    if not isinstance(model, Mapping) or "name" not in model:
        return UNKNOWN
    variant = str(model["name"])
    preset = defaults(choices.node("model", variant)) if variant in choices.names("model") else {}
    parts = [f"{slot}={name}" for slot, name in slots(settings).items() if preset.get(slot, name) != name]
    return ", ".join([variant, *parts])


def slots(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns the choice that each part of a run's model is, such as `{"encoder": "bilstm", "attention": "max", ...}`.

    A part that no file in `conf/` describes is called by its class.
    """
    model = renamed(settings["model"], MOVED)
    chosen = Choices.of().chosen({"model": model})
    nodes = {slot: model[slot] for slot in SLOTS if isinstance(model.get(slot), Mapping)}
    return {slot: chosen.get(f"model/{slot}", str(node.get(TARGET)).rpartition(".")[2]) for slot, node in nodes.items()}
