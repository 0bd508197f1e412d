"""Settings to what trains a model: Lightning's Trainer, the LightningModule and the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback, Checkpoint
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.optim import Optimizer

from sentattn.build import instantiate
from sentattn.config.parameters import known
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.training.checkpoint import FileInPlace
from sentattn.training.lit_module import LitClassifier

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

    from sentattn.data.datamodule import TextData

Settings = Mapping[str, Any]


def build_trainer(settings: Settings, *, callbacks: Sequence[Callback] = (), logger: Logger | None = None) -> Trainer:
    """Returns Lightning's trainer, which writes only what its callbacks and its logger write.

    It is that of one rank where several train together, and one of a single device otherwise.

    Raises:
        SettingError: If Lightning refuses the settings, such as a GPU that is not there.
    """
    node, has_own_gpu = dict(settings["trainer"]), False
    if ranks.several():
        # Buffers are the same everywhere, and ranks measure different numbers of batches.
        node["strategy"] = DDPStrategy(broadcast_buffers=False)
        if has_own_gpu := node["accelerator"] in ("auto", "gpu", "cuda") and ranks.have_own_gpus():
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
    settings: Settings, data: TextData, model: TextClassifier, *, class_counts: Mapping[str, int]
) -> LitClassifier:
    """Returns the LightningModule that trains and measures a model on data.

    `class_counts` are the rows of each class that the model is, or was, trained on.

    Raises:
        SettingError: If the schedule or the loss refuses its settings.
    """
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
    groups = parameter_groups(model, settings.get("weight_decay_on", "all"))
    groups += wide_group(model, settings["optimizer"])
    return _instantiate_optimizer(settings, groups)


def require_optimizer(settings: Settings) -> None:
    """Refuses what the optimizer itself refuses, without a model.

    Raises:
        SettingError: If it refuses its settings.
    """
    _instantiate_optimizer(settings, [{"params": [nn.Parameter(torch.zeros(1))]}])


def _instantiate_optimizer(settings: Settings, groups: list[dict[str, Any]]) -> Optimizer:
    try:
        optimizer: Optimizer = instantiate(settings["optimizer"], Optimizer, params=groups)
    except ValueError as error:
        raise SettingError(Fault("optimizer", "invalid", f"The optimizer refuses optimizer.*: {error}.")) from error
    return optimizer


def parameter_groups(
    model: TextClassifier, weight_decay_on: Literal["all", "attention_and_head"]
) -> list[dict[str, Any]]:
    """Returns a model's trainable parameters, save the weights of its wide part, as PyTorch's optimizers take them.

    Lin et al. (2017) add 1e-4 times the sum of squared weights of attention and head to the loss, in their released
    code: a weight decay of twice as much on these alone, without biases.
    """
    wide = {id(parameter) for parameter in model.wide.weights}
    trainable = [one for one in model.parameters() if one.requires_grad and id(one) not in wide]
    if weight_decay_on == "all":
        return [{"params": trainable}]
    decayed = {id(w) for part in (model.attention, model.head) for w in part.parameters() if w.dim() > 1}
    return [
        {"params": [parameter for parameter in trainable if id(parameter) in decayed]},
        {"params": [parameter for parameter in trainable if id(parameter) not in decayed], "weight_decay": 0.0},
    ]


def wide_group(model: TextClassifier, node: Settings) -> list[dict[str, Any]]:
    """Returns the weights of a model's wide part for the optimizer: with their own rate, and plain gradient descent.

    Adam and its like divide by root mean squares of gradients plus `eps`. With eps=1, far above these, which
    stay below 0.1, nothing is divided.

    Raises:
        SettingError: If the optimizer cannot do so.
    """
    if not (parameters := model.wide.weights):
        return []
    takes = known(node).parameters
    if "eps" in takes:
        plain = {"eps": 1.0}
    elif "momentum" in takes:
        plain = {"momentum": 0.0}
    else:
        message = "model/wide=ngrams needs an optimizer with eps or momentum, such as optimizer=adam or optimizer=sgd."
        raise SettingError(Fault("optimizer", "conflict", message))
    return [{"params": parameters, "lr": model.wide.lr, "weight_decay": model.wide.weight_decay, **plain}]
