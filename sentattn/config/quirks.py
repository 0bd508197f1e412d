"""The quirks of a source that `faithful=true` repeats: `conf/quirks/<variant or experiment>.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sentattn.config.arguments import LAST, Faults, Typed
from sentattn.config.composition import Composition
from sentattn.config.groups import QUIRKS, Choices, at, defaults, load
from sentattn.config.types import given

NEEDS = {"loss.penalty_form": "loss.penalty", "loss.class_weight_reduction": "loss.class_weights"}
"""Settings that do nothing while another one is off."""
OFF = (None, 0, "none")


def pick_quirks(picks: Mapping[str, str], values: Sequence[Typed], choices: Choices, faults: Faults) -> dict[str, str]:
    """Returns the choice that `faithful=true` stands for: the quirks of the experiment, or else of the variant."""
    experiment = picks.get("experiment")
    listed = choices.node("experiment", experiment) if experiment else {}
    typed = next((one for one in values if one.key == "faithful"), None)
    if (typed.value if typed else listed.get("faithful")) is not True:
        return {}
    group = "experiment" if experiment else "model"
    name = experiment or picks.get("model") or str(defaults(load(choices.folders[0] / "train.yaml"))["model"])
    if name in choices.names(QUIRKS):
        return {QUIRKS: name}
    experiments = choices.names("experiment")
    known = [f"{'experiment' if one in experiments else 'model'}={one}" for one in choices.names(QUIRKS)]
    faults.add(
        f"faithful=true: {group}={name} has no quirks to repeat; there are some for {', '.join(known)}.",
        typed.position if typed else LAST,
    )
    return {}


def check_quirks(composition: Composition) -> None:
    """Refuses quirks that all do nothing beside the other settings.

    Where what they need was typed, it is off on purpose: a sweep's range may reach 0.
    """
    name, settings = composition.chosen.get(QUIRKS), composition.settings
    if name is None:
        return
    paths = list(_paths(composition.choices.node(QUIRKS, name)))
    idle = {path: need for path in paths if (need := NEEDS.get(path)) and at(settings, need) in OFF}
    if len(idle) < len(paths) or any(map(composition.is_typed, idle.values())):
        return
    told = " and ".join(f"{path}={given(at(settings, path))} needs {need}" for path, need in idle.items())
    typed = " or ".join(f"{need}=VALUE" for need in idle.values())
    composition.fault("faithful", f"faithful=true would do nothing: {told}; type {typed}, or leave it out.")


def _paths(node: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in node.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _paths(value, inner)
        else:
            yield inner
