"""Settings that are sound by themselves, but not together, or of which one would do nothing beside the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentattn.config import signatures
from sentattn.config.composition import Composition
from sentattn.config.groups import at
from sentattn.config.quirks import check_quirks
from sentattn.config.schema import BETTER
from sentattn.config.settable import TARGET, annotation
from sentattn.config.types import given
from sentattn.errors import SettingError

ATTENTION = "model/attention"
LENGTH = "data.max_length"
POSITIONS = ("model.embedding.positions", "model.attention.position_bias")
"""Settings that say how many tokens of a text have a place of their own."""


def check_combinations(composition: Composition) -> None:
    """Checks settings that depend on one another; the composition takes in the faults."""
    _penalty(composition)
    _class_weights(composition)
    for path in POSITIONS:
        _positions(composition, path)
    _idle_arguments(composition)
    _fused(composition)
    _weight_decay(composition)
    _mirror(composition)
    _vectors(composition)
    _objective(composition)
    check_quirks(composition)


def _penalty(composition: Composition) -> None:
    penalty, node = at(composition.settings, "loss.penalty"), at(composition.settings, "model.attention")
    if not isinstance(penalty, int | float) or not penalty > 0 or _learns(node) is not False:
        return
    chosen = composition.chosen.get(ATTENTION, node[TARGET])
    choices = composition.choices
    others = [name for name in choices.names(ATTENTION) if name != chosen]
    able = [name for name in others if _learns(choices.node(ATTENTION, name))]
    composition.fault(
        "loss.penalty",
        f"loss.penalty={penalty} can do nothing: {ATTENTION}={chosen}{_because(node)} has no weights to learn;"
        f" leave it at 0, or choose {ATTENTION}={' or '.join(able)}.",
    )


def _learns(node: Any) -> bool | None:
    """Whether an attention has weights to learn; None where it cannot be told."""
    learns = _constants(node).get("learns")
    return None if learns is None else bool(learns) and not _because(node)


def _because(node: Mapping[str, Any]) -> str:
    """The setting that leaves an attention without weights to learn, which has them otherwise."""
    unless = _constants(node).get("learns_unless", {})
    return "".join(f" with model.attention.{key}={value}" for key, value in unless.items() if node.get(key) == value)


def _constants(node: Any) -> Mapping[str, Any]:
    """The literal constants of a node's class; none where it has no class that can be found."""
    try:
        return signatures.read(node[TARGET]).constants
    except (SettingError, KeyError, TypeError, AttributeError):
        return {}


def _class_weights(composition: Composition) -> None:
    settings, path = composition.settings, "loss.class_weights"
    if annotation(settings, path) is None:
        return
    weights = "none" if at(settings, path) is None else at(settings, path)
    named = at(settings, "data.classes")
    classes = len(named) if isinstance(named, list) else _constants(at(settings, "data")).get("classes")
    if isinstance(weights, list) and classes and len(weights) != classes:
        example = given(list(range(1, classes + 1)))
        data = composition.chosen.get("data", at(settings, "data.name"))
        composition.fault(
            path,
            f"{path}={given(weights)} does not fit the {classes} classes of data={data}: "
            f"type one number for each, such as {path}={example}.",
        )
    if composition.is_typed("loss.class_weight_power") and weights != "balanced":
        _idle(composition, "loss.class_weight_power", weights)
    if composition.is_typed("loss.class_weight_reduction") and weights == "none":
        _idle(composition, "loss.class_weight_reduction", weights)


def _idle_arguments(composition: Composition) -> None:
    """Refuses typed arguments that do nothing beside another one, as the class constant `idle` says."""
    for group in composition.choices.groups():
        node = at(composition.settings, group.replace("/", "."))
        for argument, (key, values) in _constants(node).get("idle", {}).items():
            path, other = (f"{group.replace('/', '.')}.{name}" for name in (argument, key))
            if node.get(key) in values and composition.is_typed(path):
                composition.fault(path, f"it does nothing with {other}={given(node[key])}: leave one of them out.")


def _idle(composition: Composition, path: str, weights: Any) -> None:
    value = given(at(composition.settings, path))
    composition.fault(
        path,
        f"{path}={value} does nothing with loss.class_weights={given(weights)}:"
        " type loss.class_weights=balanced, or leave it out.",
    )


def _positions(composition: Composition, path: str) -> None:
    """Refuses texts longer than the positions there are, and positions that are lost without being given up."""
    positions, length = at(composition.settings, path), at(composition.settings, LENGTH)
    without = f"{path}=null to go without on purpose"
    if positions is None and length is None and LENGTH in str(at(composition.written, path)):
        sentence = f"{LENGTH}=null leaves no length for {path}, which follows it: type {LENGTH}=600, or {without}."
    elif not isinstance(positions, int) or (isinstance(length, int) and length <= positions):
        return
    elif length is None:
        sentence = (
            f"{path}={positions} is too few for texts of any length ({LENGTH}=null): "
            f"type {LENGTH}={positions}, or {without}."
        )
    else:
        sentence = (
            f"{path}={positions} is too few for texts of {LENGTH}={length} tokens: "
            f"type {path}={length} or {LENGTH}={positions}."
        )
    composition.faults.add(sentence, min(composition.position(path), composition.position(LENGTH)))


def _fused(composition: Composition) -> None:
    """Refuses what Lightning would refuse at the first step: a fused optimizer scales float16 gradients back itself."""
    settings, clip = composition.settings, "trainer.gradient_clip_val"
    if at(settings, "optimizer.fused") is not True or at(settings, "trainer.precision") != "16-mixed":
        return
    if at(settings, clip) is not None:
        sentence = "gradients cannot be clipped with optimizer.fused=true: type optimizer.fused=false"
        composition.fault("trainer.precision", f"{sentence}, or {clip}=null to go without clipping.")


def _weight_decay(composition: Composition) -> None:
    path, decay = "weight_decay_on", "optimizer.weight_decay"
    if composition.is_typed(path) and at(composition.settings, decay) == 0:
        composition.fault(path, f"it does nothing with {decay}=0: leave it out, or type {decay}=0.01.")


def _mirror(composition: Composition) -> None:
    """Refuses a mirror where nothing is downloaded: data sets without a `path` bring their texts or are told where."""
    node, mirror = at(composition.settings, "data"), "data.mirror"
    if composition.is_typed(mirror) and node.get("vectors") is None and node.get("path", "") is not None:
        beside = f"data.path={node['path']}" if "path" in node else f"data={node.get('name')}"
        composition.fault(mirror, f"it does nothing with {beside}, where nothing is downloaded: leave it out.")


def _vectors(composition: Composition) -> None:
    path, vectors = "model.embedding.init_std", at(composition.settings, "data.vectors")
    if vectors is not None and composition.is_typed(path):
        composition.fault(path, f"it does nothing with data.vectors={vectors}, where all words start: leave it out.")


def _objective(composition: Composition) -> None:
    metric, mode = at(composition.settings, "objective.metric"), at(composition.settings, "objective.mode")
    better = BETTER.get(str(metric).removeprefix("val/"))
    if mode in ("min", "max") and better not in (None, mode):
        sentence = f"objective.mode={mode} would keep the worst epoch by {metric}: type objective.mode={better}."
        position = min(composition.position("objective.metric"), composition.position("objective.mode"))
        composition.faults.add(sentence, position)
