"""Settings to objects. Only this module calls what a `_target_` names; `config.targets` says what it may name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sentattn.config.parameters import load
from sentattn.config.targets import TARGET
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, SettingError
from sentattn.models.attention.base import Attention
from sentattn.models.classifier import TextClassifier
from sentattn.models.embedding import Embedding
from sentattn.models.encoders.base import Encoder
from sentattn.models.head import Head
from sentattn.models.pooling import Pooling
from sentattn.optimizers import parameter_groups

if TYPE_CHECKING:
    from pathlib import Path

    from pytorch_lightning import Trainer
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.loggers import Logger
    from torch.optim import Optimizer

    from sentattn.data.datamodule import TextData
    from sentattn.loggers.guard import Guard
    from sentattn.training.lit_module import LitClassifier

Settings = Mapping[str, Any]


def instantiate(node: Settings, base: type | None = None, /, **filled: Any) -> Any:
    """Calls a node's `_target_` with the node's other settings and what is filled in.

    Args:
        node: The settings of one slot. Loaded ones went through `config.targets.admit`.
        base: The class of which the target has to be one; None for any callable.
        filled: Further arguments.

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
        found = load(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(Fault(TARGET, "not_found", f"{TARGET} {target} cannot be imported: {error}.")) from error
    if base is not None and not (isinstance(found, type) and issubclass(found, base)):
        message = f"{TARGET} {target} must be a class derived from {base.__module__}.{base.__qualname__}."
        raise SettingError(Fault(TARGET, "type", message))
    return found


def build_data(settings: Settings) -> TextData:
    """Returns the data module; nothing is read yet."""
    from sentattn.data.datamodule import TextData

    data: TextData = instantiate(settings["data"], TextData)
    data.seed = settings["seed"]
    data.rank, data.world_size = ranks.rank(), ranks.world()
    return data


def build_model(node: Settings, *, num_embeddings: int, classes: int) -> TextClassifier:
    """Returns a variant, its slots fitted to one another.

    Args:
        node: The `model` settings.
        num_embeddings: Number of ids of the vocabulary, the specials included.
        classes: Number of classes.

    Raises:
        SettingError: If a slot refuses its settings.
    """
    embedding = instantiate(node["embedding"], Embedding, num_embeddings=num_embeddings)
    encoder = instantiate(node["encoder"], Encoder, dim=embedding.out_dim)
    attention = build_attention(node["attention"], dim=encoder.out_dim, bidirectional=encoder.bidirectional)
    pooling = instantiate(node["pooling"], Pooling, dim=attention.out_dim, hops=attention.hops)
    head = instantiate(node["head"], Head, dim=pooling.out_dim, classes=classes)
    slots = {"embedding": embedding, "encoder": encoder, "attention": attention, "pooling": pooling, "head": head}
    model: TextClassifier = find(node[TARGET], TextClassifier)(
        name=node["name"], init_std=node.get("init_std"), **slots
    )
    return model


def build_attention(node: Settings, **offered: Any) -> Attention:
    """Returns an attention for the states that an encoder gives.

    Args:
        node: The `model.attention` settings.
        offered: What is known of the states, such as `dim`; an attention takes what its constructor names.

    Raises:
        SettingError: If the attention refuses its settings.
    """
    takes = inspect.signature(find(node[TARGET], Attention)).parameters
    attention: Attention = instantiate(
        node, Attention, **{name: value for name, value in offered.items() if name in takes}
    )
    return attention


def build_logger(
    settings: Settings, directory: Path, *, setting: str, resumed: bool = False, study: str | None = None
) -> Guard | None:
    """Returns the logger of a run, opened, or None where the run directory alone is the record.

    No error of a logger reaches the training: the first one switches it off and costs one line.

    Args:
        settings: The resolved settings.
        directory: The run directory.
        setting: Hash of the settings without the seed.
        resumed: Whether the run continues after an interruption.
        study: The study that the run is a trial of.
    """
    filled = {"directory": directory, "settings": settings, "setting": setting, "resumed": resumed, "study": study}
    logger: Guard | None = instantiate(settings["logger"], **filled)
    if logger is not None:
        logger.start()
    return logger


def build_trainer(settings: Settings, *, callbacks: Sequence[Callback] = (), logger: Logger | None = None) -> Trainer:
    """Returns Lightning's trainer with the callbacks and the logger given; it writes only what they write.

    It is that of one rank where several train together, and one of a single device otherwise.

    Raises:
        SettingError: If Lightning refuses the settings, such as a GPU that is not there.
    """
    from pytorch_lightning.callbacks import Checkpoint
    from pytorch_lightning.strategies import DDPStrategy

    from sentattn.training.checkpoint import FileInPlace

    node = dict(settings["trainer"])
    if ranks.several():
        # Buffers are the same everywhere, and ranks measure different numbers of batches.
        node["strategy"] = DDPStrategy(broadcast_buffers=False)
    else:
        node |= {"devices": devices.first(node["devices"]), "num_nodes": 1, "strategy": "auto"}
    try:
        trainer: Trainer = instantiate(
            node,
            plugins=[ranks.Environment(), FileInPlace()],
            use_distributed_sampler=False,
            callbacks=list(callbacks),
            logger=logger or False,
            enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except Exception as error:  # Lightning has no common class for what it refuses
        raise SettingError(f"Lightning's Trainer refuses trainer.*: {' '.join(str(error).split())}") from error
    return trainer


def build_lit(
    settings: Settings, data: TextData, model: TextClassifier, *, class_counts: Mapping[str, int]
) -> LitClassifier:
    """Returns the LightningModule that trains and measures a model.

    Args:
        settings: All settings.
        data: What it is trained or measured on.
        model: The model.
        class_counts: Number of rows of each class that the model is, or was, trained on.

    Raises:
        SettingError: If the schedule or the loss refuses its settings.
    """
    from torch import nn

    from sentattn.training.lit_module import LitClassifier

    return LitClassifier(
        model=model,
        loss=instantiate(settings["loss"], nn.Module, class_counts=class_counts),
        optimizer=partial(build_optimizer, settings),
        scheduler=instantiate(settings["scheduler"]),
        classes=len(data.labels),
        ordered=data.ordered,
    )


def build_optimizer(settings: Settings, model: TextClassifier) -> Optimizer:
    """Returns the optimizer of a model's parameters.

    Raises:
        SettingError: If it refuses its settings.
    """
    from torch.optim import Optimizer

    groups = parameter_groups(model, settings.get("weight_decay_on", "all"))
    try:
        optimizer: Optimizer = instantiate(settings["optimizer"], Optimizer, params=groups)
    except ValueError as error:
        raise SettingError(f"The optimizer refuses optimizer.*: {error}.") from error
    return optimizer
