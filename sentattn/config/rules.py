"""Settings that are sound by themselves, but not together, or of which one would have no effect with another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sentattn.config.checks import Composition
from sentattn.config.groups import QUIRKS, at
from sentattn.config.parameters import constants, type_of
from sentattn.config.schema import BETTER
from sentattn.config.targets import TARGET
from sentattn.config.types import as_typed
from sentattn.errors import Fault

ATTENTION = "model/attention"
LENGTH = "data.max_length"
POSITIONS = ("model.embedding.positions", "model.attention.position_bias")
"""Settings that say how many tokens of a text have a place of their own."""
NEEDS = {"loss.penalty_form": "loss.penalty", "loss.class_weight_reduction": "loss.class_weights"}
"""Settings without effect while another one is off."""
OFF = (None, 0, "none")


def check_combinations(composition: Composition) -> None:
    """Checks settings that depend on one another; faults are added to the composition's."""
    _penalty(composition)
    _class_weights(composition)
    for path in POSITIONS:
        _positions(composition, path)
    _idle_arguments(composition)
    _fused(composition)
    _weight_decay(composition)
    _download_mirror(composition)
    _vectors(composition)
    _objective(composition)
    _quirks(composition)


def _without_effect(composition: Composition, path: str, cause: str, instead: str = "leave it out") -> None:
    """Refuses a setting that was typed and has no effect."""
    if composition.is_typed(path):
        composition.fault(path, "no_effect", f"it does nothing with {cause}: {instead}.")


def _penalty(composition: Composition) -> None:
    path = "loss.penalty"
    penalty, node = at(composition.settings, path), at(composition.settings, "model.attention")
    if not isinstance(penalty, int | float) or not penalty > 0 or _learns(node) is not False:
        return
    chosen = composition.chosen.get(ATTENTION, node[TARGET])
    others = [name for name in composition.choices.names(ATTENTION) if name != chosen]
    able = [name for name in others if _learns(composition.choices.node(ATTENTION, name))]
    composition.fault(
        path,
        "no_effect",
        f"{path}={penalty} does nothing: {ATTENTION}={chosen}{_because(node)} has no weights to learn;"
        f" leave it at 0, or choose {ATTENTION}={' or '.join(able)}.",
    )


def _learns(node: Any) -> bool | None:
    """Whether an attention has weights to learn; None where that is not known."""
    learns = constants(node).get("learns")
    return None if learns is None else bool(learns) and not _because(node)


def _because(node: Mapping[str, Any]) -> str:
    """The setting that leaves an attention without weights to learn, which has them otherwise."""
    unless = constants(node).get("learns_unless", {})
    return "".join(f" with model.attention.{key}={value}" for key, value in unless.items() if node.get(key) == value)


def _class_weights(composition: Composition) -> None:
    settings, path = composition.settings, "loss.class_weights"
    if type_of(settings, path) is None:
        return
    weights = "none" if at(settings, path) is None else at(settings, path)
    named = at(settings, "data.classes")
    classes = len(named) if isinstance(named, list) else constants(at(settings, "data")).get("classes")
    if isinstance(weights, list) and classes and len(weights) != classes:
        example = as_typed(list(range(1, classes + 1)))
        data = composition.chosen.get("data", at(settings, "data.name"))
        composition.fault(
            path,
            "conflict",
            f"{path}={as_typed(weights)} does not fit the {classes} classes of data={data}: "
            f"type one number for each, such as {path}={example}.",
        )
    cause, instead = f"{path}={as_typed(weights)}", f"type {path}=balanced, or leave it out"
    if weights != "balanced":
        _without_effect(composition, "loss.class_weight_power", cause, instead)
    if weights == "none":
        _without_effect(composition, "loss.class_weight_reduction", cause, instead)


def _positions(composition: Composition, path: str) -> None:
    """Refuses texts longer than the positions of a part, and positions that are lost but not given up."""
    positions, length = at(composition.settings, path), at(composition.settings, LENGTH)
    without = f"{path}=null to go without on purpose"
    if positions is None and length is None and LENGTH in str(at(composition.written, path)):
        message = f"{LENGTH}=null leaves no length for {path}, which follows it: type {LENGTH}=600, or {without}."
    elif not isinstance(positions, int) or (isinstance(length, int) and length <= positions):
        return
    elif length is None:
        message = (
            f"{path}={positions} is too few for texts of any length ({LENGTH}=null): "
            f"type {LENGTH}={positions}, or {without}."
        )
    else:
        message = (
            f"{path}={positions} is too few for texts of {LENGTH}={length} tokens: "
            f"type {path}={length} or {LENGTH}={positions}."
        )
    position = min(composition.position(path), composition.position(LENGTH))
    composition.faults.add(Fault(path, "conflict", message), position)


def _idle_arguments(composition: Composition) -> None:
    """Refuses typed arguments without effect, as the class constant `idle` says."""
    for group in composition.choices.groups():
        prefix = group.replace("/", ".")
        node = at(composition.settings, prefix)
        for argument, (key, values) in constants(node).get("idle", {}).items():
            if node.get(key) in values:
                cause = f"{prefix}.{key}={as_typed(node[key])}"
                _without_effect(composition, f"{prefix}.{argument}", cause, "leave one of them out")


def _fused(composition: Composition) -> None:
    """Refuses what Lightning would refuse at the first step: a fused optimizer scales float16 gradients back itself."""
    settings, clip = composition.settings, "trainer.gradient_clip_val"
    if at(settings, "optimizer.fused") is not True or at(settings, "trainer.precision") != "16-mixed":
        return
    if at(settings, clip) is not None:
        message = "gradients cannot be clipped with optimizer.fused=true: type optimizer.fused=false"
        composition.fault("trainer.precision", "conflict", f"{message}, or {clip}=null to go without clipping.")


def _weight_decay(composition: Composition) -> None:
    decay = "optimizer.weight_decay"
    if at(composition.settings, decay) == 0:
        _without_effect(composition, "weight_decay_on", f"{decay}=0", f"leave it out, or type {decay}=0.01")


def _download_mirror(composition: Composition) -> None:
    """Refuses a download mirror where nothing is downloaded, such as for the demo and for tables."""
    node = at(composition.settings, "data")
    if node.get("vectors") is None and node.get("path", "") is not None:
        cause = f"data.path={node['path']}" if "path" in node else f"data={node.get('name')}"
        _without_effect(composition, "data.mirror", f"{cause}, where nothing is downloaded")


def _vectors(composition: Composition) -> None:
    vectors = at(composition.settings, "data.vectors")
    if vectors is not None:
        cause = f"data.vectors={vectors}, which all words start from"
        _without_effect(composition, "model.embedding.init_std", cause)


def _objective(composition: Composition) -> None:
    metric, mode = at(composition.settings, "objective.metric"), at(composition.settings, "objective.mode")
    better = BETTER.get(str(metric).removeprefix("val/"))
    if mode in ("min", "max") and better not in (None, mode):
        message = f"objective.mode={mode} would keep the worst epoch by {metric}: type objective.mode={better}."
        position = min(composition.position("objective.metric"), composition.position("objective.mode"))
        composition.faults.add(Fault("objective.mode", "conflict", message), position)


def _quirks(composition: Composition) -> None:
    """Refuses quirks that all have no effect with the other settings.

    Where what they need was typed, it is off on purpose: a sweep's range may reach 0.
    """
    name, settings = composition.chosen.get(QUIRKS), composition.settings
    if name is None:
        return
    paths = list(_paths(composition.choices.node(QUIRKS, name)))
    idle = {path: need for path in paths if (need := NEEDS.get(path)) and at(settings, need) in OFF}
    if len(idle) < len(paths) or any(map(composition.is_typed, idle.values())):
        return
    reason = " and ".join(f"{path}={as_typed(at(settings, path))} needs {need}" for path, need in idle.items())
    instead = " or ".join(f"{need}=VALUE" for need in idle.values())
    message = f"faithful=true would do nothing: {reason}; type {instead}, or leave it out."
    composition.fault("faithful", "no_effect", message)


def _paths(node: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in node.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _paths(value, inner)
        else:
            yield inner
