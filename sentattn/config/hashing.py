"""Which settings make a result, and the hash of these: runs with one hash are seeds of one setting.

A setting is left out where it does nothing: always (`WITHOUT_EFFECT_ON_RESULT`) or with what others are (`NO_EFFECT`),
and where it is at its default. So a new setting changes no hash. What a default is, or what a setting does, must not
change without another `sentattn.run.FORMAT`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sentattn.config.groups import conf_dir, get_path, group_of, load
from sentattn.config.parameters import Signature, known
from sentattn.config.schema import (
    CODE_KEY,
    FOLDS,
    LOGS_ALONE,
    TOP,
    WITHOUT_EFFECT_ON_RESULT,
    is_in_memory,
)
from sentattn.config.targets import TARGET_KEY, is_own
from sentattn.config.types import Node, Tree

WORD_TOKENIZERS = ("words", "basic_english", "spacy")
OF_WORDS = ("data.lowercase", "data.normalize", "data.vocab_size", "data.min_count", "data.vectors")
"""Settings of the word vocabulary."""
ENCODER = "model.embedding.name"
STATES = "sentattn.models.states.States"
"""The embedding that reads states from files."""
OF_TUNING = tuple(f"model.embedding.{key}" for key in ("lr", "layer_decay", "tuned_layers", "attention_dropout"))
"""Settings of a pretrained encoder that is tuned."""
Condition: TypeAlias = Callable[[Node], bool]


def reads_states(settings: Node) -> bool:
    """Whether the model of these settings reads states from files."""
    return bool(get_path(settings, f"model.embedding.{TARGET_KEY}") == STATES)


def _has(path: str, *values: object) -> Condition:
    return lambda settings: get_path(settings, path) in values


def _has_other(path: str, *values: object) -> Condition:
    return lambda settings: get_path(settings, path) not in (None, *values)


def _in_ours(slot: str, condition: Condition) -> Condition:
    """Returns a condition that holds for parts of this package alone: one of your own means what it likes."""
    return lambda settings: not is_own(get_path(settings, f"model.{slot}.{TARGET_KEY}")) and condition(settings)


def _has_no_hidden_layer(settings: Node) -> bool:
    attention = get_path(settings, "model.attention") or {}
    return attention.get("score") in ("linear", "none") or attention.get("weights") == "uniform"


def _draws_no_test_rows(settings: Node) -> bool:
    has_rows = get_path(settings, "data.test") is not None and get_path(settings, "data.test_size") is None
    return has_rows or get_path(settings, FOLDS) is not None


def _reads_nothing(settings: Node) -> bool:
    return _signature(get_path(settings, "model.embedding")).constants.get("reads") is False


def _takes_all_batches(settings: Node) -> bool:
    return repr(get_path(settings, "trainer.limit_train_batches")) == "1.0"  # a share; the integer 1 is one batch


NO_EFFECT: dict[str, Condition] = {
    "weight_decay_on": _has("optimizer.weight_decay", 0),
    "loss.penalty_form": _has("loss.penalty", 0),
    "loss.class_weight_power": _has_other("loss.class_weights", "balanced"),
    "loss.class_weight_reduction": _has("loss.class_weights", "none"),
    "loss.label_smoothing": lambda s: _reads_nothing(s) and get_path(s, "model.wide.share") is not None,
    "model.wide.share": _reads_nothing,
    "model.wide.attend": _reads_nothing,
    "model.embedding.word_dropout": lambda s: _reads_nothing(s) or get_path(s, ENCODER) is not None,
    "model.embedding.init_std": _has_other("data.vectors"),
    **dict.fromkeys(OF_TUNING, _has("model.embedding.frozen", True)),
    "model.embedding.dtype": _has("model.embedding.frozen", False),
    "model.embedding.cache": _has("model.embedding.frozen", False),
    "model.attention.hops": _in_ours("attention", _has_other("model.attention.query_from", "learned")),
    "model.attention.hidden": _in_ours("attention", _has_no_hidden_layer),
    "model.attention.normalizer": _in_ours("attention", _has("model.attention.weights", "uniform")),
    "model.head.activation": _in_ours("head", _has("model.head.width", None)),
    "data.num_buckets": _has("data.batching", "sorted", "random"),
    "data.bucket_ratio": _has("data.batching", "sorted", "random"),
    "data.train_seed": _has("data.train_size", None),
    "data.test_seed": _draws_no_test_rows,
    "trainer.gradient_clip_algorithm": _has("trainer.gradient_clip_val", None),
    "trainer.limit_train_batches": _takes_all_batches,
    "data.val_by": lambda s: all(get_path(s, f"data.{split}") for split in ("val", "test")),
    **dict.fromkeys(OF_WORDS, _has_other("data.tokenizer", *WORD_TOKENIZERS)),
}
"""Settings, and where they do nothing."""


def setting_hash(settings: Node, **files: str | None) -> str:
    """Returns the hash by which runs are seeds of one setting: without seed, paths, logger and devices.

    `files` are hashes of the files that `vectors`, `encoder`, `tokenizer` and `init_from` are read from, which may have
    any name on another machine; None where there is none.
    """
    kept = hashed(settings) | {name: value for name, value in files.items() if value is not None}
    if files.get("tokenizer") is not None:
        kept.pop("data.tokenizer", None)
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


def hashed(settings: Node) -> Tree:
    """Returns the settings that can change a result and are not at their default, by dotted key."""
    values = {path: _number(value) for path, value in counted(settings).items()}
    return {path: value for path, value in values.items() if value not in map(_number, default(settings, path))}


def counted(settings: Node) -> Tree:
    """Returns the settings that can change a result by dotted key, those at their default among them.

    The source of a class of one's own is a setting of its part, such as `model.attention._code_`. Rows in memory have
    no path, and are distinguished by the fingerprint of the data.
    """
    idle = {path for path, has_no_effect in NO_EFFECT.items() if has_no_effect(settings)}
    code = settings.get(CODE_KEY, {}).items()
    sources = {f"{path}._code_": source for path, source in code if group_of(path) not in WITHOUT_EFFECT_ON_RESULT}
    values = {path: Path(value).name if is_in_memory(value) else value for path, value in _counted(settings, "", idle)}
    return values | sources


def _counted(node: Node, parent: str, idle: set[str]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        path = f"{parent}.{key}" if parent else key
        if path in WITHOUT_EFFECT_ON_RESULT or path in idle or get_path(value, TARGET_KEY) == LOGS_ALONE:
            continue
        if not isinstance(value, Mapping):
            yield path, value
            continue
        inner = dict(_counted(value, path, idle))
        if path == "callbacks" and inner:  # settings without callbacks have none of theirs
            yield path, sorted({name.split(".")[1] for name in inner})
        yield from inner.items()


def default(settings: Node, path: str) -> tuple[Any, ...]:
    """Returns the default of a setting, if it has one: of its constructor, or of `conf/train.yaml` at the top.

    Classes of one's own are not imported for it: all that is given of them counts.
    """
    if path in TOP:
        return (get_path(load(conf_dir() / "train.yaml"), path),)
    parent, _, name = path.rpartition(".")
    parameter = _signature(get_path(settings, parent)).parameters.get(name)
    return () if parameter is None or parameter.required else (parameter.default,)


def _signature(node: object) -> Signature:
    return known(node) if isinstance(node, dict) and node and not is_own(node.get(TARGET_KEY)) else Signature()


def _number(value: object) -> object:
    """Returns a value with integers as floats, also in lists, so that 1 and 1.0 have one hash; true remains true."""
    if isinstance(value, list | tuple):
        return [_number(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
