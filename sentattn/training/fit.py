"""Training one run: settings in, a finished run directory out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn import run as runs
from sentattn.console import Progress
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, Interruption, Pruned, RunError, UserError
from sentattn.loggers import build_logger, require_package
from sentattn.loggers.guard import summarize
from sentattn.training import environment, evaluate
from sentattn.training.callbacks import EpochLines, EpochRecorder, FiniteLoss, StepPoints, averaging
from sentattn.training.checkpoint import Checkpoints
from sentattn.training.launch import announce, launch
from sentattn.training.prepare import Prepared, choose_precision, prepare
from sentattn.training.resume import open_interrupted, require_same
from sentattn.training.signals import Signals
from sentattn.training.trainer import build_trainer

if TYPE_CHECKING:
    from pytorch_lightning import Callback

    from sentattn.loggers.guard import Guard

Settings = Mapping[str, Any]


def fit(
    settings: Settings,
    *,
    resume: Path | None = None,
    directory: Path | None = None,
    study: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> runs.Run:
    """Trains one run: reads the data, fits, evaluates the best epoch, writes the run directory.

    Args:
        settings: The resolved settings.
        resume: Directory of an interrupted run with these settings; it is continued to the same end.
        directory: Where the run is written; None for a new directory under `output_dir`.
        study: The study that the run is a trial of.
        callbacks: Further callbacks; one that raises `Pruned` ends the run, with the metrics it has so far.

    Raises:
        UserError: If the settings, the data or the training prevent it. The `result.json` of a run that fails while it
            trains says so.
        Interruption: If a signal ended it; the message says how to continue.
    """
    with ranks.connected():
        if not ranks.several() and (processes := devices.count_here(settings["trainer"])) > 1:
            assert not callbacks, "callbacks cannot be passed to other processes"
            return launch(settings, processes, resume=resume, directory=directory, study=study)
        environment.reset_peak_memory()
        settings = choose_precision(devices.as_launched(settings, devices.rank_info()))
        with Signals() as signals, Progress(shown=ranks.is_rank_zero()) as progress, ExitStack() as locks:
            with ranks.raise_on_all_ranks():
                run = open_interrupted(resume) if resume else None
            with _explained_end(run, signals), ranks.raise_on_all_ranks():
                if ranks.is_rank_zero():
                    runs.require_writable(settings["output_dir"])
                    require_package(settings["logger"])
                    if run:
                        locks.enter_context(runs.lock(run.path))
                prepared = prepare(settings, progress)
                if run:
                    require_same(run, prepared.identity)
                elif ranks.is_rank_zero():
                    run = runs.create(settings, directory)
                    locks.enter_context(runs.lock(run.path))
            run = ranks.from_rank_zero(run)
            assert run is not None, "rank 0 has created it"
            with _explained_end(run, signals):
                _train(settings, prepared, run, study, callbacks, signals, progress, resumed=resume is not None)
                ranks.wait_for_rank_zero()
    return run


def _train(
    settings: Settings,
    prepared: Prepared,
    run: runs.Run,
    study: str | None,
    callbacks: Sequence[Callback],
    signals: Signals,
    progress: Progress,
    *,
    resumed: bool,
) -> None:
    """Fits the module, evaluates the best epoch and writes the result."""
    data, module, evaluator, identity = prepared
    announce(run.path)
    result = evaluate.initial_result(settings, module, identity, study)
    print(f"{result['model']}: {result['parameters']['total']:,} parameters. Run: {run.path}")
    recorder = EpochRecorder(run.path / runs.METRICS, **settings["objective"])
    minutes, folder = settings["checkpoint_minutes"], run.path / runs.CHECKPOINTS
    checkpoints = Checkpoints(folder, recorder, signals, minutes=minutes, identity=identity)
    logger = None
    if ranks.is_rank_zero():
        logger = build_logger(settings, run.path, setting=identity["setting"], resumed=resumed, study=study)
    steps = [] if logger is None else [StepPoints(logger, every=settings["trainer"].get("log_every_n_steps") or 0)]
    callbacks = [
        *(FiniteLoss(), recorder, EpochLines(recorder, progress), *steps),
        *(*callbacks, checkpoints, *averaging(settings)),
    ]
    with _recorded(run, result, recorder, logger), environment.explained_out_of_memory():
        trainer = build_trainer(settings, callbacks=callbacks, logger=logger)
        trainer.fit(module, datamodule=data, ckpt_path=checkpoints.last if resumed else None, weights_only=True)
        if ranks.is_rank_zero():
            module.load_state_dict(checkpoints.best_weights())
            result |= evaluate.evaluate_best(run, settings, module, data, evaluator, recorder, logger)
    if result["status"] == "finished":
        evaluate.print_metrics(result)


@contextmanager
def _recorded(run: runs.Run, result: dict[str, Any], recorder: EpochRecorder, logger: Guard | None) -> Iterator[None]:
    """Writes the result of a run that is finished, pruned or failed; an interrupted one has none, and is resumed."""
    try:
        yield
    except Pruned:
        result |= evaluate.result_of(recorder, {})
    except UserError as error:
        result |= {"status": "failed", "error": str(error)}
        raise
    finally:
        result["seconds"]["total"] = recorder.seconds
        if result["status"] is not None and ranks.is_rank_zero():
            run.write_result(result)
        if logger is not None:
            logger.finish(summarize(result), failed=result["status"] not in ("finished", "pruned"))


@contextmanager
def _explained_end(run: runs.Run | None, signals: Signals) -> Iterator[None]:
    """Adds to an interruption, and to the end of another rank, what to type to continue.

    Raises:
        Interruption: If a signal has ended this rank, or all.
        RunError: If another rank has ended.
    """
    try:
        yield
    except Interruption as interruption:
        if run is not None and not run.last_checkpoint.is_file() and ranks.is_rank_zero():
            shutil.rmtree(run.path, ignore_errors=True)  # nothing was trained yet
        raise Interruption(interruption.number, runs.advice(run)) from None
    except RuntimeError as error:
        if ranks.several() and signals.received:
            raise Interruption(signals.received, runs.advice(run)) from None
        if not ranks.is_peer_failure(error):
            raise
        message = f"Another process of this training has ended, and so this one ends; {runs.advice(run)}"
        raise RunError(Fault("trainer.devices", "interrupted", message)) from None
