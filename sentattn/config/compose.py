"""Settings: composed by Hydra from `conf/` and the command line, checked before anything heavy is imported."""

from __future__ import annotations

import copy
import functools
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import cast

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.version import VersionBase
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sentattn.config import types
from sentattn.config.arguments import Argument, read, split_folders
from sentattn.config.checks import STATE_DATA, Composition, check_settings, conflicts, flat
from sentattn.config.groups import LIST_GROUPS, MISSING_VALUE, Choices, conf_dir, defaults, get_path, load
from sentattn.config.hashing import WORD_TOKENIZERS, counted, default, reads_states
from sentattn.config.parameters import known, source_hash, type_of
from sentattn.config.schema import CHOICES_KEY, CODE_KEY, KEPT_BY_TRAINED_MODEL, RAW, REFERENCE, TOP, TRAIN
from sentattn.config.targets import TARGET_KEY, check_targets, is_own, targets_in
from sentattn.config.types import Node, Tree
from sentattn.errors import DataError, Fault, SettingError, closest, first_line, suggestion

VECTORS, SIZE = "data.vectors", "model.embedding.size"
ENCODER_KEY, REVISION_KEY, TOKENIZER_KEY = "model.embedding.name", "model.embedding.revision", "data.tokenizer"
PRETRAINED = "sentattn.models.pretrained.Pretrained"
LENGTH_OF_WORDS, LENGTH_OF_PIECES = 600, 256
"""What `data.max_length=null` stands for, with a tokenizer of words and with one of subwords."""
IN_LABEL = ("_target_", "_code_", "name", "freeze_attention", "attend")
"""Settings of a model that its label says."""
HYDRA = threading.Lock()
"""Held while Hydra composes, whose state belongs to the process."""


def compose(args: Sequence[str], *, trust: bool = False) -> Tree:
    """Composes settings from `conf/` and typed arguments; with `trust` these may name the classes of callbacks.

    Raises:
        SettingError: With all faults.
    """
    c = _read(args, trust)
    picks, values = _pick(c, c.typed)
    c.written, c.chosen = _composed(picks, c.choices)
    return _checked(c, values)


def override(settings: Node, args: Sequence[str], *, only: Sequence[str] | None = None, trust: bool = False) -> Tree:
    """Applies typed settings to saved ones; a choice such as `data=imdb` replaces the whole node.

    Args:
        settings: Resolved settings, such as a run's `config.yaml`.
        args: What was typed, as for `compose`.
        only: Top-level keys that may be changed, for a model that is trained already; None for all.
        trust: Whether the saved settings may name any class; see `sentattn.config.targets`.

    Raises:
        SettingError: With all faults.
    """
    c = _read(args, trust)
    c.saved = check_targets(settings, c.choices, trust=trust)
    if reference := REFERENCE.search(str(c.saved)):  # such as ${oc.env:NAME}, which would read the environment
        message = f"the settings hold {reference[0]}, and a file's references are not resolved: write the value."
        raise SettingError(Fault("from", "unsafe", message))
    c.written = copy.deepcopy(c.saved)
    c.chosen, c.code = (_record(c, key) for key in (CHOICES_KEY, CODE_KEY))
    legal = []
    for argument in c.typed:
        top = argument.key.replace("/", ".").partition(".")[0]
        if only is not None and (top not in only or argument.key in KEPT_BY_TRAINED_MODEL):
            message = f"{argument}: {argument.key} is no setting of data, or is fixed after training; leave it out."
        elif argument.key == "experiment":
            message = f"{argument} cannot be applied to saved settings: type the settings of the experiment."
        else:
            legal.append(argument)
            continue
        c.refuse(argument, "unsupported", message)
    standard = load(conf_dir() / "train.yaml")
    for path in TOP.keys() - dict(flat(c.written, "")).keys():  # of before this setting, or written by hand
        parent, _, key = path.rpartition(".")
        node = c.written.setdefault(parent, {}) if parent else c.written
        if isinstance(node, dict):
            node.setdefault(key, get_path(standard, path))
    picks, values = _pick(c, legal)
    fresh, chosen = _composed(picks, c.choices) if picks else ({}, {})
    for group in sorted(picks, key=lambda name: name.count("/")):
        parent, _, key = group.replace("/", ".").rpartition(".")
        (get_path(c.written, parent) if parent else c.written)[key] = get_path(fresh, group.replace("/", "."))
        others = {name: choice for name, choice in c.chosen.items() if not f"{name}/".startswith(f"{group}/")}
        c.chosen = others | {name: chosen[name] for name in chosen if f"{name}/".startswith(f"{group}/")}
    return _checked(c, values, is_trained=only is not None)


def changes(settings: Node) -> Tree:
    """Returns the experiment, and the values in the parts of a model that its choices do not have, by key.

    Together with the label they say how a run differs from its variant: `structured` and `{"model.attention.hops": 8}`.
    """
    choices, chosen = Choices.of(), settings.get(CHOICES_KEY) or {"model": settings["model"]["name"]}
    usual, _ = _composed({group: name for group, name in chosen.items() if name in choices.names(group)}, choices)
    values = {"experiment": chosen.get("experiment"), ENCODER_KEY: Path(get_path(settings, ENCODER_KEY) or "").name}
    if reads_states(settings):
        values["data.train"] = Path(get_path(settings, "data.train") or "").name
    changed = {path: value for path, value in values.items() if value}
    for path, value in counted(settings).items():
        expected = get_path(usual, path)
        legal = (expected,) if expected is not None else (None, *default(settings, path))
        in_model = path.startswith("model.") and path.rpartition(".")[2] not in IN_LABEL
        if in_model and value not in legal and not str(expected).startswith("${"):
            changed[path] = value
    return changed


def _record(c: Composition, key: str) -> dict[str, str]:
    """Takes one of the records from the settings."""
    saved = c.written.pop(key, {})
    if isinstance(saved, Mapping) and all(isinstance(text, str) for text in (*saved, *saved.values())):
        return dict(saved)
    c.fault(key, "type", f"{key} must hold a text for each name, got {saved}.")
    return {}


def _read(args: Sequence[str], trust: bool) -> Composition:
    """Reads what was typed; nothing is composed yet."""
    for word in args:
        if (shown := word.encode(errors="replace").decode()) != word:
            message = f"{shown} is not UTF-8, in which a run stores its settings: type another name."
            raise SettingError(Fault(shown.partition("=")[0], "unreadable", message))
    words, folders = split_folders(args)
    choices = Choices.of(*folders)
    return Composition(choices, *read(words, choices), trust=trust)


def _checked(c: Composition, values: Sequence[Argument], *, is_trained: bool = False) -> Tree:
    """Returns the settings with the values applied, once they pass the checks.

    The size, length and classes of a trained model go before those that its data would have.
    """
    _apply_overrides(c, values)
    if not is_trained:
        _fill_size(c)
        _fill_tokenizer(c)
    _fill_length(c)
    _resolve(c)
    _fill_val_by(c)
    _fill_name(c)
    check_settings(c)
    if not is_trained:
        c.faults += conflicts(c)
    c.raise_faults()
    if not is_trained:
        c.code = {path: source_hash(target) for path, target in targets_in(c.settings) if is_own(target)}
    c.settings["output_dir"] = os.path.expanduser(c.settings["output_dir"])
    return c.settings | {key: record for key, record in ((CHOICES_KEY, c.chosen), (CODE_KEY, c.code)) if record}


def _pick(c: Composition, arguments: Sequence[Argument]) -> tuple[dict[str, str], list[Argument]]:
    """Splits choices of groups from values; values below a misspelt choice cannot be checked and are left out.

    A setting inside a group is a value, even one that is spelled as a choice: `model.attention.query_from=first`.
    """
    picks: dict[str, str] = {}
    values: list[Argument] = []
    misspelt: list[str] = []
    groups, optional = c.choices.groups(), defaults(load(c.choices.folders[0] / "train.yaml"))
    for argument in arguments:
        group = closest(argument.key, groups)
        name = argument.value if isinstance(argument.value, str) else argument.text
        names = c.choices.names(group) if group else []
        is_inside = argument.key.startswith(f"{group.replace('/', '.')}.")
        several = argument.value if group in LIST_GROUPS and isinstance(argument.value, list) else []
        is_none = group == "callbacks" and not argument.value
        listed = [] if is_none else list(dict.fromkeys(map(types.as_typed, several))) or [name]
        wrong = [choice for choice in listed if choice not in names]
        if argument.key == group and not wrong:
            picks[group] = listed[0] if len(listed) == 1 else types.as_typed(listed)
        elif argument.key in groups and argument.value is None and optional.get(group, "") is None:
            continue
        elif argument.key in groups:
            hint = f"{suggestion(wrong[0], names)} There are {', '.join(names)}."
            hint += f" A table is data=table data.train={wrong[0]}." if PurePath(wrong[0]).suffix else ""
            c.refuse(argument, "unknown", f"{argument}: {group} has no choice {wrong[0]!r}.{hint}")
            misspelt.append(f"{group.replace('/', '.')}.")
        elif argument.key not in RAW and ((name in names and not is_inside) or "/" in argument.key):
            hint = f"Did you mean {group!r}?" if group else f"There are {', '.join(groups)}."
            c.refuse(argument, "unknown", f"{argument}: there is no group {argument.key!r}. {hint}")
            misspelt += [f"{group.replace('/', '.')}."] if group else []
        else:
            values.append(argument)
    return picks, [argument for argument in values if not argument.key.startswith(tuple(misspelt))]


def _fill_size(c: Composition) -> None:
    """Writes the size of the embedding where files of vectors or states say it."""
    vectors = get_path(c.written, VECTORS)
    if reads_states(c.written):
        c.written["model"]["embedding"]["size"] = _width_of_states(c)
    elif isinstance(vectors, str) and type_of(c.written, SIZE) is None:
        message = f"{VECTORS}={vectors} has no effect: the words of this model/embedding have no size to take it from."
        c.fault(VECTORS, "no_effect", message)
    elif isinstance(vectors, str) and vectors != TRAIN:
        from sentattn.data.word_vectors import width

        try:
            size, typed = width(vectors), get_path(c.written, SIZE)
        except DataError as error:
            c.faults += error.faults
            return
        if c.is_typed(SIZE) and typed != size:
            message = f"{SIZE}={typed} does not fit {VECTORS}={vectors}, which has {size} numbers a word: leave it out."
            c.fault(SIZE, "conflict", message)
        c.written["model"]["embedding"]["size"] = size


def _width_of_states(c: Composition) -> int:
    """Returns the width of the states that are read; 1 if there are none, or if they are refused."""
    from sentattn.data.readers.states import open_states

    size, cache = 1, get_path(c.written, "data.cache_dir")
    if get_path(c.written, f"data.{TARGET_KEY}") == STATE_DATA:
        for key in ("data.train", "data.val", "data.test"):
            try:
                if isinstance(file := get_path(c.written, key), str):
                    size = open_states(file, key, cache).states_MD.shape[1]
            except DataError as error:
                c.faults += error.faults
    return size


def _fill_tokenizer(c: Composition) -> None:
    """Writes the tokenizer of a pretrained encoder, which is its own."""
    data, encoder, revision = c.written.get("data"), get_path(c.written, ENCODER_KEY), get_path(c.written, REVISION_KEY)
    if get_path(c.written, "model.embedding._target_") != PRETRAINED or not isinstance(data, dict):
        return
    name = encoder if revision is None else f"{encoder}@{revision}"
    if c.is_typed(TOKENIZER_KEY) and data.get("tokenizer") != name:
        wrong = f"{TOKENIZER_KEY}={data.get('tokenizer')} does not fit {ENCODER_KEY}={name}"
        message = f"{wrong}, which has a tokenizer of its own: leave it out."
        c.fault(TOKENIZER_KEY, "conflict", message)
    if encoder != MISSING_VALUE:
        data["tokenizer"] = name


def _fill_length(c: Composition) -> None:
    """Writes how many tokens of a text are read where the tokenizer decides it."""
    data = c.written.get("data")
    if not isinstance(data, dict) or data.get(TARGET_KEY) == STATE_DATA:
        return
    if data.get("max_length") is None and "max_length" in known(data).parameters:
        is_of_words = data.get("tokenizer", WORD_TOKENIZERS[0]) in WORD_TOKENIZERS
        data["max_length"] = LENGTH_OF_WORDS if is_of_words else LENGTH_OF_PIECES


def _fill_val_by(c: Composition) -> None:
    """Writes out that a table with groups is divided by them, so that it counts in the hash of the setting."""
    data = c.value("data")
    is_divided = c.value("data.group") is not None and not (c.value("data.val") and c.value("data.test"))
    if is_divided and data.get("val_by", "row") is None:
        data["val_by"] = "group"


def _fill_name(c: Composition) -> None:
    """Names a data set of the Hub by the last part of its name and its configuration, unless a name is typed."""
    data, keys = c.value("data"), ("data.dataset", "data.config")
    if data.get("dataset") and not c.is_typed("data.name") and (data["name"] == "hub" or any(map(c.is_typed, keys))):
        parts = [PurePath(str(data["dataset"])).name, str(data["config"] or "")]
        data["name"] = re.sub(r"[^\w.-]+", "_", "-".join(filter(None, parts))).strip(".-_") or "hub"


def _apply_overrides(c: Composition, values: Sequence[Argument]) -> None:
    """Applies typed values to settings; unknown keys as well, since the check names them."""
    for argument in values:
        *parents, last = argument.key.split(".")
        is_class = parents[:-1] == ["callbacks"] and last == TARGET_KEY
        if is_class and not c.trust:
            message = f"{argument} runs the code of that class: type trust=true as well, if you trust it."
            c.refuse(argument, "unsafe", message)
            continue
        node: object = c.written
        for parent in parents:
            node = node.setdefault(parent, {}) if isinstance(node, dict) else None
        kind = type_of(c.written, argument.key)
        if not isinstance(node, dict) or isinstance(node.get(last), dict) or (last.startswith("_") and not is_class):
            message = (
                f"{argument.key} is no single setting; choose a part, also of your own, as in model/attention=NAME."
            )
            c.refuse(argument, "unsupported", f"{argument}: {message}")
        elif kind is not None and not argument.text:
            message = f"{argument} has no value: {argument.key} must be {types.describe_type(kind)}."
            c.refuse(argument, "missing", message)
        else:
            parsed = None if types.parse(argument.text) is None else argument.value
            # The text itself where only a text is legal: `group=2026` is a name, not a number.
            legal = [value for value in (parsed, argument.text) if kind and types.mismatch(kind, value) is None]
            node[last] = legal[0] if legal else argument.value


def _resolve(c: Composition) -> None:
    """Resolves references, so that they follow the typed values."""
    try:
        c.settings = cast(Tree, OmegaConf.to_container(OmegaConf.create(c.written), resolve=True))
    except OmegaConfBaseException as error:
        message = f"A reference in the configuration cannot be resolved: {first_line(error)}."
        raise SettingError(Fault("", "not_found", message)) from error


def _composed(picks: Mapping[str, str], choices: Choices) -> tuple[Tree, dict[str, str]]:
    """Composes the choices: the settings, references unresolved, and which choice each group of them has."""
    # Composing takes as long as a hundred calls of stat, and a sweep composes again and again.
    changed = tuple(file.stat().st_mtime_ns for folder in choices.folders for file in sorted(folder.rglob("*.yaml")))
    settings, chosen = copy.deepcopy(_compose_once(tuple(picks.items()), tuple(map(str, choices.folders)), changed))
    chosen = {group: name for group in choices.groups() if (name := {**chosen, **picks}.get(group, "[]")) != "[]"}
    for group, name in chosen.items():
        choices.node(group, name)  # Hydra passes over a file that holds a list
    loggers = settings.get("logger", {})
    settings["logger"] = {**loggers.pop(chosen.get("logger", ""), {}), **loggers}  # of a single one logger.KEY
    return settings, chosen


@functools.lru_cache(maxsize=256)
def _compose_once(
    picks: tuple[tuple[str, str], ...], folders: tuple[str, ...], changed: tuple[int, ...]
) -> tuple[Tree, dict[str, str]]:
    paths = ",".join("'file://{}'".format(folder.replace("'", "\\'")) for folder in folders[1:])
    overrides = [f"{group}={name}" for group, name in picks]
    with HYDRA:
        # An application of Hydra's that trains has its own state.
        outer, version = GlobalHydra.instance().hydra, VersionBase.instance().version_base
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(config_dir=folders[0], version_base="1.3"):
                composed = hydra_compose("train", [f"hydra.searchpath=[{paths}]", *overrides], return_hydra_config=True)
            chosen = {str(group): str(name) for group, name in composed.hydra.runtime.choices.items() if name}
            kept = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
            settings = OmegaConf.to_container(kept, resolve=False)
        except Exception as error:  # Hydra meets some files with an assertion or an error of Python's
            reason = " ".join(str(error).split()) if isinstance(error, YAMLError) else f"{first_line(error)}."
            message = f"{' '.join(overrides) or 'train.yaml'} cannot be composed: {reason}"
            raise SettingError(Fault("", "unreadable", message)) from error
        finally:
            GlobalHydra.instance().hydra, VersionBase.instance().version_base = outer, version
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}, chosen
