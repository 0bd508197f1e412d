"""Settings to what trains a model: Lightning's Trainer, the LightningModule and the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback, Checkpoint
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.optim import Optimizer

from sentattn.build import explained, instantiate
from sentattn.config.parameters import known
from sentattn.config.types import Node
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.training.checkpoint import FileInPlace
from sentattn.training.lit_module import LitClassifier

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

    from sentattn.data.datamodule import TextData


def build_trainer(settings: Node, *, callbacks: Sequence[Callback] = (), logger: Logger | None = None) -> Trainer:
    """Returns Lightning's trainer of `trainer` settings, which writes only what its callbacks and its logger write.

    It is that of one rank where several train together, and one of a single device otherwise.

    Raises:
        SettingError: If Lightning refuses the settings, such as a GPU that is not there.
    """
    node, has_own_gpu = dict(settings), False
    if ranks.several():
        # Buffers are the same everywhere, and ranks measure different numbers of batches.
        node["strategy"] = DDPStrategy(broadcast_buffers=False)
        if has_own_gpu := node["accelerator"] in devices.ON_GPU and ranks.have_own_gpus():
            node |= {"devices": 1, "num_nodes": ranks.world()}
    else:
        node |= {"devices": devices.first(node["devices"]), "num_nodes": 1, "strategy": "auto"}
    try:
        trainer: Trainer = instantiate(
            node,
            plugins=[ranks.Environment(has_own_gpu=has_own_gpu), FileInPlace()],
            use_distributed_sampler=False,
            callbacks=list(callbacks),
            logger=logger or False,
            enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except Exception as error:  # Lightning has no common class for what it refuses
        message = f"Lightning's Trainer refuses trainer.*: {' '.join(str(error).split())}"
        raise SettingError(Fault("trainer", "invalid", message)) from error
    return trainer


def build_lit(
    settings: Node, data: TextData, model: TextClassifier, *, class_counts: Mapping[str, int]
) -> LitClassifier:
    """Returns the LightningModule that trains and measures a model on data.

    `class_counts` are the rows of each class that the model is, or was, trained on.

    Raises:
        SettingError: If the schedule or the loss refuses its settings.
    """
    with explained("loss"):
        loss = instantiate(settings["loss"], nn.Module, class_counts=class_counts)
    return LitClassifier(
        model=model,
        loss=loss,
        optimizer=partial(build_optimizer, settings),
        scheduler=instantiate(settings["scheduler"]),
        classes=len(data.labels),
        ordered=data.ordered,
    )


def build_optimizer(settings: Node, model: TextClassifier) -> Optimizer:
    """Returns the optimizer of a model's parameters.

    Raises:
        SettingError: If it refuses its settings or the model.
    """
    node = settings["optimizer"]
    try:
        groups = model.parameter_groups(settings.get("weight_decay_on", "all"), known(node).parameters)
        if any(parameter.is_meta for parameter in model.parameters()):  # which some optimizers refuse
            groups = [{**group, "params": [nn.Parameter(torch.zeros(1))]} for group in groups]
        optimizer: Optimizer = instantiate(node, Optimizer, params=groups)
    except SettingError:
        raise
    except ValueError as error:
        raise SettingError(Fault("optimizer", "invalid", f"The optimizer refuses optimizer.*: {error}.")) from error
    return optimizer
