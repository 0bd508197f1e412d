"""Checks settings, each by itself against its constructor and then in combination, and reports all faults at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sentattn.config import types
from sentattn.config.arguments import Argument
from sentattn.config.groups import LIST_GROUPS, MISSING_VALUE, Choices, get_path, group_of, load, nodes
from sentattn.config.hashing import OF_WORDS, WORD_TOKENIZERS, reads_states
from sentattn.config.parameters import known, leaves, read, settable
from sentattn.config.schema import BETTER, COMMAND_KEYS, FIXED_IN_TRAINING, FOLD, FOLDS, TOP
from sentattn.config.targets import TARGET_KEY
from sentattn.config.types import Kind, Node, Tree, as_typed
from sentattn.errors import Fault, SettingError, closest

OPTIONAL = ("experiment", "model/wide", "callbacks")
"""Groups that need no choice."""

ATTENTION, PENALTY, LENGTH = "model/attention", "loss.penalty", "data.max_length"
CLIP, PRECISION, METRIC, MODE = "trainer.gradient_clip_val", "trainer.precision", "objective.metric", "objective.mode"
STATE_DATA = "sentattn.data.datasets.states.States"
POSITIONS = ("model.embedding.positions", "model.attention.position_bias")
"""Numbers of positions; texts may not be longer."""


@dataclass
class Composition:
    """Settings under check, and where they came from, so that a message can begin with the argument or the file.

    Attributes:
        choices: The configuration folders.
        typed: The arguments.
        trust: Whether they may name classes.
        faults: Faults so far.
        chosen: The choice of each group.
        code: The hash of the source of each class of one's own.
        saved: Saved settings, before arguments are applied.
        written: The settings with unresolved references.
        settings: The settings with resolved references.
    """

    choices: Choices
    typed: Sequence[Argument]
    faults: list[Fault]
    chosen: dict[str, str] = field(default_factory=dict)
    saved: Tree = field(default_factory=dict)
    written: Tree = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    settings: Tree = field(default_factory=dict)
    trust: bool = False

    def value(self, path: str) -> Any:
        """Returns the value of a setting, or None."""
        return get_path(self.settings, path)

    def fault(self, key: str, kind: str, message: str) -> None:
        """Adds a fault of a setting; its message begins with the argument or the choice that the setting came from."""
        typed = next((str(argument) for argument in self.typed if f"{argument.key}.".startswith(f"{key}.")), "")
        message = message if message.startswith(key) else f"{typed or key}: {message}"
        origin = "" if typed else self._origin(key)
        self.faults.append(Fault(key, kind, f"{origin}: {message}" if origin else message))

    def refuse(self, argument: Argument, kind: str, message: str) -> None:
        """Adds a fault of an argument."""
        self.faults.append(Fault(argument.key, kind, message))

    def raise_faults(self) -> None:
        """Raises the faults, if there are any, as `SettingError`, none twice."""
        if by_message := {fault.message: fault for fault in self.faults}:
            raise SettingError(*by_message.values())

    def is_typed(self, key: str) -> bool:
        """Returns whether a setting was typed."""
        return any(argument.key == key for argument in self.typed)

    def _origin(self, key: str) -> str:
        """Returns the experiment or the choice that sets a setting, or an empty string."""
        parent, _, last = key.rpartition(".")
        for group, path in (("experiment", key), (parent.replace(".", "/"), last)):
            name = self.chosen.get(group)
            if name and get_path(self.choices.node(group, name), path) is not None:
                return f"{group}={name}"
        return ""


def check_settings(composition: Composition) -> None:
    """Checks each setting of a composition by itself."""
    for key, value in composition.settings.items():
        if key in composition.choices.groups():
            for path, node in nodes(composition.settings, key).items():
                _node(composition, path, node)
            continue
        for path, leaf in flat(value, key):
            if path in TOP:
                _value(composition, path, TOP[path], leaf)
            else:
                composition.fault(path, "unknown", f"there is no setting {path!r}.{_closest_key(composition, path)}")
    _require_choices(composition, "")
    for path in ("data.name", "model.name"):  # folders of a run have these names
        if wrong := types.name_fault(path, composition.value(path)):
            composition.fault(path, wrong.kind, wrong.message)


def flat(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yields the dotted path and the value of each leaf of nested mappings; an empty mapping is a leaf."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _node(composition: Composition, path: str, node: object) -> None:
    """Checks a node with a `_target_`, and the nodes in it."""
    if not isinstance(node, Mapping) or TARGET_KEY not in node:
        if composition.is_typed(f"{path}.{TARGET_KEY}"):  # and has been refused
            return
        group = group_of(path)
        several = f" or {group}=[NAME,NAME], and set {group}.NAME.KEY" if group in LIST_GROUPS else ""
        composition.fault(path, "missing", f"{path} has no {TARGET_KEY}: choose with {group}=NAME{several}.")
        return
    if not isinstance(node[TARGET_KEY], str):
        composition.fault(path, "type", f"{path}.{TARGET_KEY} must be the path of a class, got {node[TARGET_KEY]!r}.")
        return
    try:
        signature = read(node[TARGET_KEY])
    except SettingError as error:
        composition.fault(path, error.faults[0].kind, f"{path}: {error}")
        return
    legal = settable(path, node[TARGET_KEY], _declared(composition, path))
    for key, value in node.items():
        inner = f"{path}.{key}"
        if inner in FIXED_IN_TRAINING:
            composition.fault(inner, "unsupported", f"sentattn sets {inner} itself; {FIXED_IN_TRAINING[inner]}.")
        elif key in legal or key == TARGET_KEY or (signature.open and key not in signature.parameters):
            _argument(composition, inner, legal.get(key, types.ANYTHING), value)
        elif inner.replace(".", "/") in composition.choices.groups():
            _argument(composition, inner, types.ANYTHING, value)
        elif key in signature.parameters:
            composition.fault(inner, "unsupported", f"{inner} is filled in when the model is built; leave it out.")
        else:
            _unknown(composition, path, key, legal)
    _require_choices(composition, f"{path}/")


def _argument(composition: Composition, path: str, kind: Kind, value: object) -> None:
    if value == MISSING_VALUE:
        message = f"{path} has no value: type {path}=VALUE; it must be {types.describe_type(kind)}."
        composition.faults.append(Fault(path, "missing", message))
    elif (isinstance(value, Mapping) and TARGET_KEY in value) or (
        value is not None and path.replace(".", "/") in composition.choices.groups()
    ):
        _node(composition, path, value)
    else:
        _value(composition, path, kind, value)


def _value(composition: Composition, path: str, kind: Kind, value: object) -> None:
    if wrong := types.fault(path, kind, value):
        composition.fault(path, wrong.kind, wrong.message)


def _unknown(composition: Composition, path: str, key: str, legal: Mapping[str, Kind]) -> None:
    group, choices = group_of(path), composition.choices
    owner = f"{group}={composition.chosen[group]}" if group in composition.chosen else path
    parts = {f"{group}={name}": choices.node(group, name) for name in choices.names(group)}
    others = [choice for choice, node in parts.items() if key in known(node).parameters]
    near = closest(str(key), legal)
    if others:
        hint = f"It belongs to {' and '.join(others)}."
    else:
        hint = f"Did you mean '{path}.{near}'?" if near else f"It takes {', '.join(legal) or 'no settings'}."
    composition.fault(f"{path}.{key}", "unknown", f"{owner} has no {key!r}. {hint}")


def _declared(composition: Composition, path: str) -> Node:
    """Returns what the YAML file of a node's choice sets, or a saved node whose file is not known.

    `build` fills in the required arguments that are not among it.
    """
    group, choices = group_of(path), composition.choices
    if group in LIST_GROUPS and path != group:
        return dict(get_path(composition.settings, path))
    base = get_path(load(choices.folders[0] / "train.yaml"), path)
    own = choices.node(group, composition.chosen.get(group)) or get_path(composition.saved, path) or {}
    nested = {inner.rpartition("/")[2]: None for inner in choices.groups() if inner.startswith(f"{group}/")}
    return {**nested, **(base if isinstance(base, Mapping) else {}), **own}


def _require_choices(composition: Composition, prefix: str) -> None:
    for group in composition.choices.groups():
        inside = group.startswith(prefix) and "/" not in group.removeprefix(prefix)
        path = group.replace("/", ".")
        if inside and group not in OPTIONAL and composition.value(path) is None:
            names = ", ".join(composition.choices.names(group))
            composition.fault(path, "missing", f"{path} is not chosen: type {group}=NAME, one of {names}.")


def _closest_key(composition: Composition, word: str) -> str:
    """Returns the closest spelling of a whole key, or of its last part (`hops` for `model.attention.hops`)."""
    top = [group for group in composition.choices.groups() if "/" not in group] + [*TOP, *COMMAND_KEYS]
    paths = [path for path in leaves(composition.settings) if path != word]
    names = {path.rpartition(".")[2]: path for path in reversed([*paths, *TOP])}
    names |= {path: path for path in [*paths, *top]}
    used = [name for name, path in names.items() if composition.value(path) is not None]  # before those at a default
    near = names.get(closest(word, used, cutoff=0.75) or closest(word, names, cutoff=0.75))
    return f" Did you mean {near!r}?" if near else f" At the top there are {', '.join(top)}."


def conflicts(c: Composition) -> Iterator[Fault]:
    """Yields the faults of combinations."""
    yield from _nothing_learned(c)
    yield from _words_alone(c)
    yield from _states_alone(c)
    yield from _folds_alone(c)
    if c.value("data.test_size") == 0 and c.value("test") is True:
        yield Fault(
            "data.test_size", "conflict", "data.test_size=0 leaves no rows to test on: type test=false with it."
        )
    for path in POSITIONS:
        positions, length = c.value(path), c.value(LENGTH)
        if isinstance(positions, int) and (length is None or positions < length):
            message = (
                f"{path}={as_typed(positions)} is too few for texts of {LENGTH}={as_typed(length)} tokens: "
                f"change one of them, or type {path}=null for a model without positions."
            )
            yield Fault(path, "conflict", message)
    least, most = c.value("trainer.min_epochs"), c.value("trainer.max_epochs")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        message = f"trainer.min_epochs={least} is above trainer.max_epochs={most}: type trainer.max_epochs={least} too."
        yield Fault("trainer.min_epochs", "conflict", message)
    # Lightning would refuse it at the first step: a fused optimizer scales float16 gradients back itself.
    if c.value("optimizer.fused") is True and c.value(PRECISION) == "16-mixed" and c.value(CLIP) is not None:
        mended = f"type {PRECISION}=bf16-mixed, or optimizer.fused=false."
        message = f"{PRECISION}=16-mixed cannot clip gradients with optimizer.fused=true: {mended}"
        yield Fault(PRECISION, "conflict", message)
    metric, better = c.value(METRIC), BETTER.get(str(c.value(METRIC)).removeprefix("val/"))
    if c.value(MODE) in ("min", "max") and better not in (None, c.value(MODE)):
        message = f"{MODE}={c.value(MODE)} would keep the worst epoch by {metric}: type {MODE}={better}."
        yield Fault(MODE, "conflict", message)


def _folds_alone(c: Composition) -> Iterator[Fault]:
    """Refuses folds with other test or validation rows, and a fold that there is not."""
    folds, fold = c.value(FOLDS), c.value(FOLD)
    if folds is None:
        if fold is not None:
            yield Fault(
                FOLD, "no_effect", f"{FOLD}={as_typed(fold)} has no effect without {FOLDS}=NUMBER: leave it out."
            )
        return
    if isinstance(fold, int) and isinstance(folds, int) and fold >= folds:
        yield Fault(FOLD, "range", f"{FOLD} must be 0 to {folds - 1} with {FOLDS}={folds}, got {fold}.")
    for key in ("data.val", "data.test", "data.test_size"):
        if (value := c.value(key)) is not None:
            message = f"{FOLDS}={folds} tests each row of data.train once: leave {key}={as_typed(value)} out."
            yield Fault(key, "conflict", message)
    if c.value("test") is False:
        yield Fault("test", "conflict", f"{FOLDS}={folds} is for testing: leave test=false out.")


def _nothing_learned(c: Composition) -> Iterator[Fault]:
    """Refuses a penalty where the attention has no weights to learn."""
    node, penalty = c.value("model.attention"), c.value(PENALTY)
    if not isinstance(node, Mapping):
        return
    is_even = node.get("score") == "none" or node.get("weights") == "uniform"
    learns = known(node).constants.get("learns", True) and not is_even
    if isinstance(penalty, int | float) and penalty > 0 and not learns:
        attention = f"{ATTENTION}={c.chosen.get(ATTENTION, node.get(TARGET_KEY))}"
        message = f"{PENALTY}={penalty} has no effect: {attention} has no weights to learn; leave it at 0."
        yield Fault(PENALTY, "no_effect", message)


def _states_alone(c: Composition) -> Iterator[Fault]:
    """Refuses states without a model of states, the reverse, and n-grams of words with them."""
    has_states = c.value(f"data.{TARGET_KEY}") == STATE_DATA
    if reads_states(c.settings) != has_states:
        message = "data=states needs a model that reads states: type model=states, or model/embedding=states."
        if not has_states:
            message = "A model with model/embedding=states reads states: type data=states data.train=FILE."
        yield Fault("data", "conflict", message)
    if not has_states:
        return
    if not any(c.value(f"data.{split}") for split in ("train", "val", "test")):
        yield Fault("data.train", "missing", "data=states has no states: type data.train=FILE.")
    if c.chosen.get("model/wide", "none") != "none":
        yield Fault("model/wide", "conflict", "model/wide reads n-grams of words, and states have none: leave it out.")


def _words_alone(c: Composition) -> Iterator[Fault]:
    """Refuses settings of words where subwords or states take the place of words."""
    tokenizer, has_states = str(c.value("data.tokenizer")), c.value(f"data.{TARGET_KEY}") == STATE_DATA
    if tokenizer in WORD_TOKENIZERS and not has_states:
        return
    near = "" if has_states else closest(tokenizer, WORD_TOKENIZERS)
    if near:
        legal = f"Did you mean {near!r}? There are {', '.join(WORD_TOKENIZERS)}, and subwords by a tokenizer.json."
        yield Fault("data.tokenizer", "unknown", f"there is no data.tokenizer={tokenizer}. {legal}")
    where = "on states" if has_states else f"with the subwords of data.tokenizer={tokenizer}"
    for key in (*OF_WORDS, "data.tokenizer") if has_states else OF_WORDS:
        if c.is_typed(key) and c.value(key) is not None:
            yield Fault(key, "no_effect", f"{key}={as_typed(c.value(key))} has no effect {where}: leave it out.")
