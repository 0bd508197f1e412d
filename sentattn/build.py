"""Settings to objects. Only this module calls what a `_target_` names; `config.targets` says what it may name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sentattn.config.parameters import load
from sentattn.config.targets import TARGET
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
    arguments = {key: value for key, value in node.items() if key != TARGET}
    return find(node[TARGET], base)(**arguments, **filled)


def find(target: str, base: type | None = None) -> Any:
    """Returns the class or function at a dotted path.

    Raises:
        SettingError: If there is none, or it is no `base`.
    """
    try:
        target_class = load(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(Fault(TARGET, "not_found", f"{TARGET} {target} cannot be imported: {error}.")) from error
    if base is not None and not (isinstance(target_class, type) and issubclass(target_class, base)):
        message = f"{TARGET} {target} must be a class derived from {base.__module__}.{base.__qualname__}."
        raise SettingError(Fault(TARGET, "type", message))
    return target_class


def build_data(settings: Node) -> TextData:
    """Returns the data module; nothing is read yet."""
    from sentattn.data.datamodule import TextData

    embedding = settings.get("model", {}).get("embedding", {})  # settings of a data set alone have no model
    filled = {"seed": settings["seed"], "rank": ranks.rank(), "world_size": ranks.world()}
    filled |= {"vector_size": embedding["size"]} if "size" in embedding else {}
    data: TextData = instantiate(settings["data"], TextData, **filled)
    return data


def build_model(node: Node, *, num_embeddings: int, classes: int) -> TextClassifier:
    """Returns a variant, its slots fitted to one another; `num_embeddings` counts the special ids too.

    Raises:
        SettingError: If a slot refuses its settings.
    """
    embedding = _part(node, "embedding", Embedding, num_embeddings=num_embeddings)
    encoder = _part(node, "encoder", Encoder, dim=embedding.out_dim)
    attention = build_attention(node["attention"], dim=encoder.out_dim, bidirectional=encoder.bidirectional)
    pooling = _part(node, "pooling", Pooling, dim=attention.out_dim, hops=attention.hops)
    head = _part(node, "head", Head, dim=pooling.out_dim, classes=classes)
    if has_wide := "wide" in node and node["wide"][TARGET] != NO_WIDE:
        from sentattn.models.wide import Wide, WideAndDeep

        offered = {"num_embeddings": num_embeddings, "classes": classes, "dim": encoder.out_dim}
        wide = _part(node, "wide", Wide, **_taken(node["wide"], Wide, offered))
    options = {key: node[key] for key in ("init_std", "freeze_attention") if key in node}
    slots = {"embedding": embedding, "encoder": encoder, "attention": attention, "pooling": pooling, "head": head}
    with explained("model"):
        deep: TextClassifier = find(node[TARGET], TextClassifier)(name=node["name"], **options, **slots)
    return WideAndDeep(deep, wide) if has_wide else deep


def _part(node: Node, slot: str, base: type, **filled: Any) -> Any:
    with explained(f"model.{slot}"):
        return instantiate(node[slot], base, **filled)


def build_attention(node: Node, **offered: Any) -> Attention:
    """Returns an attention for the states of an encoder: of what is `offered`, such as `dim`, it gets what it takes.

    Raises:
        SettingError: If the attention refuses its settings.
    """
    attention: Attention = _part({"attention": node}, "attention", Attention, **_taken(node, Attention, offered))
    return attention


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


def _taken(node: Node, base: type, offered: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the class of a slot takes of what is offered."""
    takes = inspect.signature(find(node[TARGET], base)).parameters
    return {name: value for name, value in offered.items() if name in takes}
