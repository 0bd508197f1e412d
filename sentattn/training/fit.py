"""Training: settings in, a finished run directory out.

As a program, `python -m sentattn.training.fit TASK.json`, this module is one of the processes that `launch` starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pytorch_lightning import Callback

from sentattn import run as runs
from sentattn.config.schema import Settings
from sentattn.console import Progress
from sentattn.distributed import devices, ranks
from sentattn.training.evaluate import evaluate_best, initial_result, print_metrics, recorded
from sentattn.training.launch import launch, run_rank
from sentattn.training.prepare import build_data, build_module, choose_precision, identify, set_up
from sentattn.training.recorder import Recorder
from sentattn.training.resume import open_interrupted, require_same
from sentattn.training.signals import Signals
from sentattn.training.states import use_cached_states
from sentattn.training.trainer import build_trainer, explained_end, explained_errors, training_callbacks


def fit(
    settings: Settings,
    *,
    resume: Path | None = None,
    directory: Path | None = None,
    study: str | None = None,
    callbacks: Sequence[Callback] = (),
    time_forward: bool = True,
) -> runs.Run:
    """Trains one run: reads the data, fits, evaluates the best epoch, writes the run directory.

    Args:
        settings: The resolved settings.
        resume: Directory of an interrupted run with these settings; it is continued to the same end.
        directory: Where the run is written; None for a new directory under `output_dir`.
        study: The study that the run is a trial of.
        callbacks: Further callbacks. One that raises `Pruned` when an epoch starts ends the run with the metrics of the
            epochs before; it finds them with `Recorder.of(trainer)`.
        time_forward: Whether `latency_ms` is measured, which may take longer than to train over cached states.

    Raises:
        UserError: If the settings, the data or the training prevent it. The `result.json` of a run that fails while it
            trains says so.
        Interruption: If a signal ended it; the message says how to continue.
    """
    if not ranks.several() and (processes := devices.count_here(settings.trainer)) > 1:
        assert not callbacks, "callbacks cannot be passed to other processes"
        return launch(settings, processes, resume=resume, directory=directory, study=study)
    here = devices.rank_info() if ranks.several() else None
    settings = replace(settings, trainer=choose_precision(devices.as_launched(settings.trainer, here)))
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
        use_cached_states(data, module.model, evaluator.strategy.root_device, progress, test=settings.test)
        progress.close()
        if ranks.is_rank_zero() and not resume:
            runs.create(settings, run.path)
            stack.enter_context(runs.lock(run.path))
        result = initial_result(settings, module, identity, study)
        print(f"{result['model']}: {result['parameters']['total']:,} parameters. Run: {run.path}")
        minutes, objective = settings.checkpoint_minutes, settings.objective
        recorder = Recorder(run, minutes, objective, identity=identity, signals=signals, progress=progress)
        with explained_errors(own, run), recorded(run, result, recorder, resumed=resume is not None) as loggers:
            all_callbacks = training_callbacks(settings, [*own.values(), *callbacks], recorder, loggers)
            trainer = build_trainer(settings.trainer, callbacks=all_callbacks, loggers=loggers)
            start = run.last_checkpoint if resume else None
            # Lightning does so only after it has read the checkpoint, whose float64 weights would be rounded.
            trainer.precision_plugin.convert_module(module)
            trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
            if ranks.is_rank_zero():
                result |= evaluate_best(
                    run, settings, module, data, evaluator, recorder, loggers, time_forward=time_forward
                )
        if result["status"] == "finished":
            print_metrics(result)
        ranks.wait_for_rank_zero()
    return run


def main(arguments: Sequence[str]) -> int:
    """Trains as one of several ranks; returns the exit code."""
    task = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    settings, path = Settings.of(task["settings"]), Path(task["path"])
    resume = path if task["resumed"] else None
    return run_rank(lambda: fit(settings, resume=resume, directory=path, study=task["study"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
