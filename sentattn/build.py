"""Settings to objects. Only this module calls what a `_target_` names; `config.targets` says what it may name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sentattn.config.parameters import load, read
from sentattn.config.targets import TARGET_KEY
from sentattn.config.types import Node
from sentattn.distributed import ranks
from sentattn.errors import Fault, SettingError, UserError
from sentattn.models.attention.base import Attention
from sentattn.models.classifier import TextClassifier
from sentattn.models.embedding import Embedding
from sentattn.models.encoders.base import Encoder
from sentattn.models.head import Head
from sentattn.models.pooling import Pooling

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

NO_WIDE = "sentattn.models.wide.NoWide"


def instantiate(node: Node, base: type | None = None, /, **filled: Any) -> Any:
    """Calls the `_target_` of a slot, a class derived from `base`, with its settings and what is filled in.

    Loaded settings went through `config.targets.check_targets`.

    Raises:
        SettingError: If there is no such class, or it is no `base`.
    """
    arguments = {key: value for key, value in node.items() if key != TARGET_KEY}
    return find(node[TARGET_KEY], base)(**arguments, **filled)


def find(target: str, base: type | None = None) -> Any:
    """Returns the class or function at a dotted path.

    Raises:
        SettingError: If there is none, or it is no `base`.
    """
    try:
        target_class = load(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(
            Fault(TARGET_KEY, "not_found", f"{TARGET_KEY} {target} cannot be imported: {error}.")
        ) from error
    if base is not None and not (isinstance(target_class, type) and issubclass(target_class, base)):
        message = f"{TARGET_KEY} {target} must be a class derived from {base.__module__}.{base.__qualname__}."
        raise SettingError(Fault(TARGET_KEY, "type", message))
    return target_class


def build_data(settings: Node) -> TextData:
    """Returns the data module; nothing is read yet."""
    from sentattn.data.datamodule import TextData

    embedding = settings.get("model", {}).get("embedding", {})  # settings of a data set alone have no model
    filled = {"seed": settings["seed"], "rank": ranks.rank(), "world_size": ranks.world()}
    filled |= {"vector_size": embedding["size"]} if "size" in embedding else {}
    data: TextData = instantiate(settings["data"], TextData, **filled)
    return data


def build_model(node: Node, *, num_embeddings: int, num_special: int = 2, classes: int) -> TextClassifier:
    """Returns a variant, its slots fitted to one another; `num_embeddings` counts the special ids too.

    Raises:
        SettingError: If a slot refuses its settings.
    """
    ids = {"num_embeddings": num_embeddings, "num_special": num_special}
    embedding = build_part("embedding", Embedding, node["embedding"], **ids)
    encoder = build_part("encoder", Encoder, node["encoder"], dim=embedding.out_dim)
    states = {"dim": encoder.out_dim, "bidirectional": encoder.bidirectional}
    attention = build_part("attention", Attention, node["attention"], **states)
    pooling = build_part("pooling", Pooling, node["pooling"], dim=attention.out_dim, hops=attention.hops)
    head = build_part("head", Head, node["head"], dim=pooling.out_dim, classes=classes)
    if has_wide := "wide" in node and node["wide"][TARGET_KEY] != NO_WIDE:
        from sentattn.models.wide import WideAndDeep, WideNGrams

        wide = build_part("wide", WideNGrams, node["wide"], **ids, classes=classes, dim=encoder.out_dim)
    options = {key: node[key] for key in ("init_std", "freeze_attention") if key in node}
    slots = {"embedding": embedding, "encoder": encoder, "attention": attention, "pooling": pooling, "head": head}
    with explained("model"):
        deep: TextClassifier = find(node[TARGET_KEY], TextClassifier)(name=node["name"], **options, **slots)
    return WideAndDeep(deep, wide) if has_wide else deep


def build_part(slot: str, base: type, node: Node, **offered: Any) -> Any:
    """Returns a part of a model, such as its `attention`: of what is `offered`, such as `dim`, it gets what it takes.

    Raises:
        SettingError: If it refuses its settings.
    """
    with explained(f"model.{slot}"):
        takes = read(node[TARGET_KEY])
        taken = {name: value for name, value in offered.items() if takes.open or name in takes.parameters}
        return instantiate(node, base, **taken)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Names the settings whose class refuses its arguments with a plain `ValueError` in the block.

    Raises:
        SettingError: Of kind `conflict`.
    """
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise SettingError(Fault(path, "conflict", f"{path}: {error}.")) from error
