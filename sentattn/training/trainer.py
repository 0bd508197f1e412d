"""Settings to Lightning's Trainer and its callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytorch_lightning import Trainer
from pytorch_lightning import callbacks as library
from pytorch_lightning.callbacks import Callback, Checkpoint, EarlyStopping
from pytorch_lightning.strategies import DDPStrategy

from sentattn.build import instantiate
from sentattn.config.groups import nodes
from sentattn.config.targets import TARGET
from sentattn.config.types import Node
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, SettingError, UserError, first_line
from sentattn.training.callbacks import explain_errors
from sentattn.training.checkpoint import FileInPlace

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

EARLY_STOPPING = "callbacks.early_stopping"
REFUSED = (library.LearningRateFinder, library.BatchSizeFinder, library.ProgressBar)
"""Callbacks that train steps of their own, which would be recorded, or that Lightning's Trainer refuses here."""


def build_trainer(settings: Node, *, callbacks: Sequence[Callback] = (), loggers: Sequence[Logger] = ()) -> Trainer:
    """Returns Lightning's trainer of `trainer` settings, which writes only what its callbacks and its loggers write.

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
            logger=list(loggers),
            enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except Exception as error:  # Lightning has no common class for what it refuses
        message = f"Lightning's Trainer refuses trainer.*: {' '.join(str(error).split())}"
        raise SettingError(Fault("trainer", "invalid", message)) from error
    return trainer


def build_callbacks(settings: Node) -> list[Callback]:
    """Returns the callbacks of the settings, whose errors have their names.

    Raises:
        SettingError: If there is no such class, or it refuses its settings.
    """
    callbacks: list[Callback] = []
    objective = {"monitor": settings["objective"]["metric"], "mode": settings["objective"]["mode"]}
    for key, node in nodes(settings, "callbacks").items():
        try:
            callback: Callback = instantiate(node, Callback, **(objective if key == EARLY_STOPPING else {}))
        except UserError as error:
            raise SettingError(Fault(key, error.faults[0].kind, f"{key}: {error}")) from error
        except Exception as error:
            message = f"{key}: {node[TARGET]} raised {type(error).__name__}: {first_line(error)}."
            raise SettingError(Fault(key, "failed", message)) from error
        if isinstance(callback, REFUSED):
            message = f"{key}: {node[TARGET]} would break the record of the run: leave it out."
            raise SettingError(Fault(key, "unsupported", message))
        if type(callback).state_dict is not Callback.state_dict and callback.state_key in {
            c.state_key for c in callbacks
        }:
            message = f"{key}: another callback has the state_key {callback.state_key}; leave one of them out."
            raise SettingError(Fault(key, "conflict", message))
        if isinstance(callback, EarlyStopping) and callback.patience + 1 >= settings["trainer"]["max_epochs"]:
            print(f"{key}: with patience={callback.patience} no training of so few epochs ends early.")
        explain_errors(callback, key)
        callbacks.append(callback)
    return callbacks
