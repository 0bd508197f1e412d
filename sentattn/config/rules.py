"""Checks combinations: settings that conflict, and settings without effect because of another setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from sentattn.config.checks import Composition
from sentattn.config.groups import get_path
from sentattn.config.parameters import known
from sentattn.config.schema import BETTER, TRAIN
from sentattn.config.targets import TARGET
from sentattn.config.types import Count, as_typed, mismatch
from sentattn.errors import Fault

ATTENTION, PENALTY, WEIGHTS, LENGTH = "model/attention", "loss.penalty", "loss.class_weights", "data.max_length"
CLIP, PRECISION, METRIC, MODE = "trainer.gradient_clip_val", "trainer.precision", "objective.metric", "objective.mode"
FROZEN, VAL_BY = "model.freeze_attention", "data.val_by"
ATTEND, WORD_DROPOUT = "model.wide.attend", "model.embedding.word_dropout"
HEADS, SIZE = "model.encoder.heads", "model.embedding.size"
TRANSFORMER = "sentattn.models.encoders.transformer.Transformer"
POSITIONS = ("model.embedding.positions", "model.attention.position_bias")
"""Numbers of positions; texts may not be longer."""
IsCause: TypeAlias = Callable[[Any], bool]
IDLE: tuple[tuple[str, str, IsCause], ...] = (
    ("weight_decay_on", "optimizer.weight_decay", lambda decay: bool(decay == 0)),
    ("loss.class_weight_power", WEIGHTS, lambda weights: bool(weights != "balanced")),
    ("loss.class_weight_reduction", WEIGHTS, lambda weights: weights == "none"),
    ("model.embedding.init_std", "data.vectors", lambda vectors: vectors is not None),
)
"""A setting that has no effect, the setting that is the cause, and its values with which it is so."""


def check_combinations(composition: Composition) -> None:
    """Adds the faults of combinations to a composition."""
    for key, cause, is_cause in _idle(composition):
        value = composition.value(cause)
        if composition.is_typed(key) and is_cause(value):
            without, reason = f"{key}={as_typed(composition.value(key))}", f"{cause}={as_typed(value)}"
            composition.fault(key, "no_effect", f"{without} has no effect with {reason}: leave one of them out.")
    for keys, kind, message in _conflicts(composition):
        composition.faults.add(Fault(keys[0], kind, message), composition.position(*keys))


def _idle(c: Composition) -> Iterator[tuple[str, str, IsCause]]:
    """Yields `IDLE`, what the class constants `idle` add, and a download mirror where nothing is downloaded."""
    yield from IDLE
    for path in (group.replace("/", ".") for group in c.choices.groups()):
        for argument, (key, values) in known(c.value(path)).constants.get("idle", {}).items():
            yield f"{path}.{argument}", f"{path}.{key}", values.__contains__
    if c.value("data.vectors") in (None, TRAIN):
        has_path = "path" in known(c.value("data")).parameters
        yield "data.mirror", "data.path" if has_path else "data.name", lambda value: value is not None


def _conflicts(c: Composition) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yields the settings of each conflict, the kind of fault, and the message."""
    yield from _nothing_learned(c)
    yield from _without_words(c)
    yield from _heads(c)
    weights, classes = c.value(WEIGHTS), c.value("data.classes")
    number = len(classes) if isinstance(classes, list) else known(c.value("data")).constants.get("classes")
    if isinstance(weights, list) and number and len(weights) != number:
        data = c.chosen.get("data", c.value("data.name"))
        message = f"{WEIGHTS}={as_typed(weights)} does not fit data={data}, which has {number} classes."
        yield (WEIGHTS,), "conflict", message
    if c.is_typed(VAL_BY) and c.value(VAL_BY) is not None and c.value("data.val") and c.value("data.test"):
        reason = f"data.val={c.value('data.val')} and data.test={c.value('data.test')}, since no rows are set aside"
        yield (VAL_BY,), "no_effect", f"{VAL_BY}={c.value(VAL_BY)} has no effect with {reason}: leave it out."
    for path in POSITIONS:
        positions, length = c.value(path), c.value(LENGTH)
        follows = positions is None and LENGTH in str(get_path(c.written, path))
        too_few = isinstance(positions, int) and (length is None or positions < length)
        if too_few or (follows and length is None):
            message = (
                f"{path}={as_typed(positions)} is too few for texts of {LENGTH}={as_typed(length)} tokens: "
                f"change one of them, or type {path}=null for a model without positions."
            )
            yield (path, LENGTH), "conflict", message
    # Lightning would refuse it at the first step: a fused optimizer scales float16 gradients back itself.
    if c.value("optimizer.fused") is True and c.value(PRECISION) == "16-mixed" and c.value(CLIP) is not None:
        message = f"{PRECISION}=16-mixed cannot clip gradients with optimizer.fused=true: type optimizer.fused=false."
        yield (PRECISION,), "conflict", message
    metric, better = c.value(METRIC), BETTER.get(str(c.value(METRIC)).removeprefix("val/"))
    if c.value(MODE) in ("min", "max") and better not in (None, c.value(MODE)):
        message = f"{MODE}={c.value(MODE)} would keep the worst epoch by {metric}: type {MODE}={better}."
        yield (MODE, METRIC), "conflict", message


def _nothing_learned(c: Composition) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Refuses a penalty and a freeze where the attention has no weights to learn, or a setting leaves it none."""
    node, penalty = c.value("model.attention"), c.value(PENALTY)
    constants = known(node).constants
    causes = [f"{key}={value}" for key, value in constants.get("learns_unless", {}).items() if node.get(key) == value]
    if not causes and constants.get("learns", True):
        return
    attention = " with model.attention.".join([f"{ATTENTION}={c.chosen.get(ATTENTION, node[TARGET])}", *causes])
    if isinstance(penalty, int | float) and penalty > 0:
        message = f"{PENALTY}={penalty} has no effect: {attention} has no weights to learn; leave it at 0."
        yield (PENALTY,), "no_effect", message
    if c.value(FROZEN) is True:
        yield (FROZEN,), "no_effect", f"{FROZEN}=true has no effect: {attention} has no weights to learn; leave it out."


def _without_words(c: Composition) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Refuses what needs words where the embedding reads none."""
    if known(c.value("model.embedding")).constants.get("reads", True):
        return
    reason = f"has no effect: model/embedding={c.chosen.get('model/embedding', 'none')} reads no words"
    if attend := c.value(ATTEND):
        yield (ATTEND,), "no_effect", f"{ATTEND}={as_typed(attend)} {reason}; type {ATTEND}=false."
    if c.is_typed(WORD_DROPOUT):  # a data set may bring it for other embeddings
        yield (WORD_DROPOUT,), "no_effect", f"{WORD_DROPOUT}={as_typed(c.value(WORD_DROPOUT))} {reason}; leave it out."


def _heads(c: Composition) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Refuses heads of a transformer that do not divide the width of the embedding."""
    heads, size, ngram_size = c.value(HEADS), c.value(SIZE), c.value("model.embedding.ngram_size") or 0
    if c.value(f"model.encoder.{TARGET}") != TRANSFORMER or mismatch(Count, heads) or mismatch(Count, size):
        return
    if (width := size + ngram_size) % heads:
        legal = ", ".join(str(number) for number in range(1, width + 1) if width % number == 0)
        message = (
            f"{HEADS} must divide the width {width} of the embedding, got {heads}: type {HEADS}=N with N one of "
            f"{legal}, or another {SIZE}."
        )
        yield (HEADS, SIZE), "conflict", message
