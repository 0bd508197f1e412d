"""How a run is called: its variant, and each part in which it differs from that variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentattn.config.groups import Choices, defaults
from sentattn.config.targets import current

SLOTS = ("embedding", "encoder", "attention", "pooling")
"""The parts of a variant that can be exchanged."""
UNKNOWN = "?"
"""The label of settings without a readable model."""


def label(settings: Mapping[str, Any]) -> str:
    """Returns the name of a run's variant and every part that is not the variant's own.

    Examples are `structured`, `structured, attention=query` and `feedforward, encoder=cnn`. Values inside a part, such
    as `hops`, are left out. Settings without a readable model are called `?`.

    Args:
        settings: The resolved settings of a run; only `settings["model"]` is looked at.
    """
    model = settings.get("model")
    if not isinstance(model, Mapping) or "name" not in model:
        return UNKNOWN
    preset = _preset(str(model["name"]))
    parts = [f"{slot}={name}" for slot, name in slots(settings).items() if preset.get(slot, name) != name]
    return ", ".join([str(model["name"]), *parts])


def slots(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns the choice that each part of a run's model is, such as `{"encoder": "bilstm", "attention": "max", ...}`.

    A part that no file in `conf/` describes is called by its class.

    Args:
        settings: The resolved settings of a run; only `settings["model"]` is looked at.
    """
    model = current(settings["model"])
    chosen = Choices.of().chosen({"model": model})
    nodes = {slot: model[slot] for slot in SLOTS if isinstance(model.get(slot), Mapping)}
    return {
        slot: chosen.get(f"model/{slot}", str(node.get("_target_")).rpartition(".")[2]) for slot, node in nodes.items()
    }


def _preset(name: str) -> dict[str, str | None]:
    """The choices of a variant's file; none are known of a variant from another folder."""
    choices = Choices.of()
    return defaults(choices.node("model", name)) if name in choices.names("model") else {}
