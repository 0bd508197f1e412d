"""Training: settings in, a finished run directory out.

As a program, `python -m sentattn.training.fit TASK.json`, this module is one of the processes that `launch` starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn import run as runs
from sentattn.config.groups import get_path
from sentattn.config.request import AUTO_RESUME, Request
from sentattn.config.schema import FOLD, Settings
from sentattn.console import Progress
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, Interruption, TrainingError
from sentattn.training.environment import copy_sources
from sentattn.training.evaluate import evaluate_best, initial_result, print_metrics, recorded
from sentattn.training.launch import launch, run_rank
from sentattn.training.prepare import build_data, build_module, choose_precision, identify, set_up
from sentattn.training.recorder import Recorder
from sentattn.training.resume import (
    find_finished,
    find_interrupted,
    open_interrupted,
    require_encoder,
    require_same,
)
from sentattn.training.signals import Signals, explained_end
from sentattn.training.states import use_cached_states
from sentattn.training.trainer import build_trainer, explained_errors, with_standard_callbacks

if TYPE_CHECKING:
    from pytorch_lightning import Callback


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
        callbacks: Further callbacks. One that raises `Pruned` when an epoch starts ends the run with the metrics of the
            epochs before; it finds them with `Recorder.of(trainer)`.

    Raises:
        UserError: If the settings, the data or the training prevent it. The `result.json` of a run that fails while it
            trains says so.
        Interruption: If a signal ended it; the message says how to continue.
    """
    if not ranks.several() and (processes := devices.count_here(settings.trainer)) > 1:
        assert not callbacks, "callbacks cannot be passed to other processes"
        return launch(settings, processes, resume=resume, directory=directory, study=study)
    trainer_settings = choose_precision(devices.as_launched(settings.trainer, ranks.launched()))
    settings = replace(settings, trainer=trainer_settings)
    with Signals() as signals, Progress(shown=ranks.is_rank_zero()) as progress, ExitStack() as stack:
        new = runs.Run(directory or runs.new_directory(settings), trust=True)  # its classes are those of this process
        run = open_interrupted(resume) if resume else ranks.broadcast(new)
        stack.enter_context(explained_end(run, signals))
        if ranks.is_rank_zero():
            runs.require_writable(settings.output_dir)
            if resume:
                stack.enter_context(runs.lock(run.path))
        evaluator, own = set_up(settings, progress)
        data = build_data(settings, progress)
        module = build_module(settings, data, resumed=resume is not None)
        identity = identify(settings, data, module, run if resume else None)
        if resume:
            require_same(run, identity)
        use_cached_states(data, module.model, evaluator.device, progress, test=settings.test)
        progress.close()
        if ranks.is_rank_zero() and not resume:
            runs.create(settings, run.path)
            copy_sources(settings, run.path)
            stack.enter_context(runs.lock(run.path))
        result = initial_result(settings, module, identity, study)
        print(f"{result['model']}: {result['parameters']['total']:,} parameters. Run: {run.path}")
        minutes, objective = settings.checkpoint_minutes, settings.objective
        recorder = Recorder(run, minutes, objective, identity=identity, signals=signals, progress=progress)
        with explained_errors(own, run), recorded(run, result, recorder, resumed=resume is not None) as loggers:
            log_every, ema_decay = settings.trainer.get("log_every_n_steps"), settings.ema_decay
            callbacks = with_standard_callbacks(
                [*own.values(), *callbacks], loggers, log_every=log_every, ema_decay=ema_decay
            )
            trainer = build_trainer(settings.trainer, callbacks=[*callbacks, recorder], loggers=loggers)
            start = run.last_checkpoint if resume else None
            trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
            if ranks.is_rank_zero():
                result |= evaluate_best(run, settings, module, data, evaluator, recorder, loggers)
        if result["status"] == "finished":
            print_metrics(result)
        ranks.wait_for_rank_zero()
    return run


def fit_seeds(request: Request) -> Iterator[runs.Run]:
    """Trains the runs of a request one after another, and yields each when it has ended.

    With `resume=auto` an interrupted run is continued; among several seeds or folds finished runs are not trained
    again. A training that fails, such as one whose loss became NaN, does not prevent the others.

    Raises:
        TrainingError: After the last run, with the errors of all.
    """
    if request.origin is not None:
        require_encoder(runs.Run(request.origin), request.settings)
    if request.resume not in (None, AUTO_RESUME):
        yield fit(request.settings, resume=Path(str(request.resume)))
        return
    faults: list[Fault] = []
    several = request.runs()
    for number, settings in enumerate(several, start=1):
        fold = get_path(settings, FOLD)
        name = f"seed={settings.seed}" if fold is None else f"seed={settings.seed} {FOLD}={fold}"
        if len(several) > 1:
            words = f"Seed {settings.seed}" if fold is None else f"Seed {settings.seed}, fold {fold}"
            print(f"{words}, run {number} of {len(several)}.", flush=True)
        try:
            yield _fit(settings, request)
        except TrainingError as error:
            if len(several) == 1:
                raise
            faults += (replace(fault, message=f"{name}: {fault}") for fault in error.faults)
        except Interruption as interruption:
            if len(several) == 1:
                raise
            advice = "to continue with all runs, type the same command with resume=auto."
            raise Interruption(interruption.number, advice) from None
    if faults:
        raise TrainingError(*faults)


def _fit(settings: Settings, request: Request) -> runs.Run:
    if request.resume is None:
        return fit(settings)
    if len(request.runs()) > 1 and (finished := ranks.broadcast(find_finished(settings))):
        print(f"{finished} is finished.")
        return runs.load(finished)
    # The search locks runs, so that several ranks would find one another's locks.
    interrupted = ranks.broadcast(find_interrupted(settings) if ranks.is_rank_zero() else None)
    print(f"Continuing {interrupted}." if interrupted else "No interrupted run of these settings: a new one begins.")
    return fit(settings, resume=interrupted)


def main(arguments: Sequence[str]) -> int:
    """Trains as one of several ranks; returns the exit code."""
    task = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    resume, directory = (Path(task[key]) if task[key] else None for key in ("resume", "directory"))
    return run_rank(lambda: fit(Settings.of(task["settings"]), study=task["study"], resume=resume, directory=directory))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
