"""Settings to Lightning's Trainer and its callbacks."""

from __future__ import annotations

import itertools
import shutil
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback, Checkpoint
from pytorch_lightning.strategies import DDPStrategy

from sentattn.build import instantiate
from sentattn.config.groups import nodes
from sentattn.config.schema import Settings
from sentattn.config.targets import TARGET_KEY
from sentattn.config.types import Node
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, Interruption, RunError, SettingError, TrainingError, first_line
from sentattn.run import CONFIG_FILE, Run
from sentattn.training.callbacks import FiniteLoss, StepPoints, averaging
from sentattn.training.recorder import FileInPlace, Recorder
from sentattn.training.resume import advice
from sentattn.training.signals import Signals

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

    from sentattn.loggers.guard import Guard

EARLY_STOPPING = "callbacks.early_stopping"


def build_trainer(settings: Node, *, callbacks: Sequence[Callback] = (), loggers: Sequence[Logger] = ()) -> Trainer:
    """Returns Lightning's trainer of `trainer` settings, which writes only what its callbacks and its loggers write.

    It is that of one rank where several train together, and one of a single device otherwise.

    Raises:
        SettingError: If Lightning refuses the settings, such as a GPU that is not there.
    """
    # Buffers are the same everywhere, and ranks measure different numbers of batches.
    strategy = DDPStrategy(broadcast_buffers=False) if ranks.several() else "auto"
    node = {**settings, "devices": devices.of_rank(settings), "num_nodes": ranks.world(), "strategy": strategy}
    try:
        trainer: Trainer = instantiate(
            node,
            plugins=[ranks.Environment(), FileInPlace()],
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


def build_callbacks(settings: Node) -> dict[str, Callback]:
    """Returns the callbacks of the settings by path; a `SettingError` if one has no class or refuses its settings."""
    callbacks = {}
    objective = {"monitor": settings["objective"]["metric"], "mode": settings["objective"]["mode"]}
    for key, node in nodes(settings, "callbacks").items():
        try:
            callbacks[key] = instantiate(node, Callback, **(objective if key == EARLY_STOPPING else {}))
        except Exception as error:
            message = f"{key}: {node[TARGET_KEY]} cannot be built: {first_line(error)}."
            raise SettingError(Fault(key, "invalid", message)) from error
    return callbacks


def training_callbacks(
    settings: Settings, own: Sequence[Callback], recorder: Recorder, loggers: Sequence[Guard]
) -> list[Callback]:
    """Returns the callbacks of a training, `own` among them, in the order in which Lightning calls them.

    They see a loss that is not finite before all others; the average of the weights is updated after these.
    """
    points = [StepPoints(loggers, every=settings.trainer.get("log_every_n_steps") or 0)] if loggers else []
    return [FiniteLoss(), *own, *points, *averaging(settings.ema_decay), recorder]


@contextmanager
def explained_errors(callbacks: Mapping[str, Callback], run: Run) -> Iterator[None]:
    """Raises a `TrainingError` for an error inside a callback of the settings, by path in them, with its hook."""
    try:
        yield
    except Exception as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        for frame, (key, callback) in itertools.product(frames, callbacks.items()):
            if frame.f_locals.get("self") is callback:
                place = f"{Path(frames[-1].f_code.co_filename).name}, line {frames[-1].f_lineno}"
                reason = f"{frame.f_code.co_qualname} raised {type(error).__name__}: {first_line(error)} ({place})"
                raise TrainingError(Fault(key, "failed", f"{key}: {reason}; {advice(run)}")) from error
        raise


@contextmanager
def explained_end(run: Run, signals: Signals) -> Iterator[None]:
    """Adds what to type to continue after an interruption, or where files cannot be written.

    Raises:
        Interruption: If a signal has ended this rank, or all.
        RunError: If the run cannot be written.
    """
    try:
        yield
    except Interruption as interruption:
        is_run = (run.path / CONFIG_FILE).is_file()
        if is_run and not run.last_checkpoint.is_file() and ranks.is_rank_zero():
            shutil.rmtree(run.path, ignore_errors=True)  # nothing was trained yet
        raise Interruption(interruption.number, advice(run)) from None
    except RunError as error:
        if error.faults[0].kind != "unwritable" or not run.last_checkpoint.is_file():
            raise
        raise RunError(*(replace(fault, message=f"{fault} {advice(run)}") for fault in error.faults)) from error
    except RuntimeError as error:
        if ranks.several() and signals.received:  # another rank has ended first
            raise Interruption(signals.received, advice(run)) from None
        if run.last_checkpoint.is_file():
            error.add_note(advice(run))
        raise
