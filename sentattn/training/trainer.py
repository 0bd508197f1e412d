"""Settings to Lightning's Trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback, Checkpoint
from pytorch_lightning.strategies import DDPStrategy

from sentattn.build import instantiate
from sentattn.config.types import Node
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, SettingError
from sentattn.training.checkpoint import FileInPlace

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger


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
