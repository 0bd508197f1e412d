"""Training: settings in, a finished run directory out.

As a program, `python -m sentattn.training.fit`, this module is one of the processes that `launch` starts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from pytorch_lightning import seed_everything
from torch.distributed import DistError

from sentattn import build
from sentattn import run as runs
from sentattn.config.compose import setting_hash
from sentattn.config.request import AUTO, Request
from sentattn.config.schema import Settings
from sentattn.config.types import Tree
from sentattn.console import Progress
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, Interruption, Pruned, RunError, SettingError, TrainingError, UserError
from sentattn.loggers import build_loggers, require_installed
from sentattn.metrics import ORDERED_ONLY
from sentattn.models.embedding import TrainingTexts
from sentattn.training import environment, evaluate
from sentattn.training.callbacks import EpochLines, EpochRecorder, FiniteLoss, StepPoints, averaging
from sentattn.training.checkpoint import Checkpoints, read_identity
from sentattn.training.launch import FOLDER, TASK, announce, launch
from sentattn.training.lit_module import build_lit, build_optimizer
from sentattn.training.resume import (
    advice,
    find_finished,
    find_interrupted,
    open_interrupted,
    require_encoder,
    require_same,
)
from sentattn.training.signals import Signals
from sentattn.training.start import start_from, weights_hash
from sentattn.training.states import require_positions, use_cached_states
from sentattn.training.trainer import build_callbacks, build_trainer, explained_errors

if TYPE_CHECKING:
    from pytorch_lightning import Callback

    from sentattn.data.datamodule import TextData
    from sentattn.loggers.guard import Guard
    from sentattn.training.lit_module import LitClassifier


class Prepared(NamedTuple):
    """The data, the module to train on it, what evaluates its best epoch, and the callbacks of the settings by path.

    `identity` holds hashes of setting, data, pretrained encoder and weights at the start (or None), which must be the
    same when a run is resumed.
    """

    data: TextData
    module: LitClassifier
    evaluator: evaluate.Evaluator
    callbacks: dict[str, Callback]
    identity: dict[str, str | None]


def fit_seeds(request: Request) -> Iterator[runs.Run]:
    """Trains the runs of a request one after another, and yields each when it has ended.

    With `resume=auto` an interrupted run of a seed is continued; among several seeds finished runs are not trained
    again. A training that fails, such as one whose loss became NaN, does not prevent those of the other seeds.

    Raises:
        TrainingError: After the last seed, with the errors of all.
    """
    if request.origin is not None:
        require_encoder(runs.Run(request.origin), request.settings)
    if request.resume not in (None, AUTO):
        yield fit(request.settings, resume=Path(str(request.resume)))
        return
    faults: list[Fault] = []
    for number, settings in enumerate(request.runs(), start=1):
        if request.seeds > 1:
            print(f"Seed {settings.seed}, run {number} of {request.seeds}.", flush=True)
        try:
            yield _fit(settings, request)
        except TrainingError as error:
            if request.seeds == 1:
                raise
            faults += (replace(fault, message=f"seed={settings.seed}: {fault}") for fault in error.faults)
        except Interruption as interruption:
            if request.seeds == 1:
                raise
            advice = "to continue with all seeds, type the same command with resume=auto."
            raise Interruption(interruption.number, advice) from None
    if faults:
        raise TrainingError(*faults)


def _fit(settings: Settings, request: Request) -> runs.Run:
    if request.resume is None:
        return fit(settings)
    if request.seeds > 1 and (finished := ranks.from_rank_zero(find_finished(settings))):
        print(f"{finished} is finished.")
        return runs.load(finished)
    # The search locks runs, so that several ranks would find one another's locks.
    interrupted = ranks.from_rank_zero(find_interrupted(settings) if ranks.is_rank_zero() else None)
    print(f"Continuing {interrupted}." if interrupted else "No interrupted run of these settings: a new one begins.")
    return fit(settings, resume=interrupted)


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
    if not ranks.several() and (processes := devices.count_here(settings.trainer)) > 1:
        assert not callbacks, "callbacks cannot be passed to other processes"
        return launch(settings, processes, resume=resume, directory=directory, study=study)
    environment.reset_peak_memory()
    trainer = devices.as_launched(settings.trainer, ranks.launched())
    settings = choose_precision(replace(settings, trainer=trainer))
    with Signals() as signals, Progress(shown=ranks.is_rank_zero()) as progress, ExitStack() as locks:
        with ranks.raise_on_all_ranks():
            run = open_interrupted(resume) if resume else None
        with _explained_end(run, signals), ranks.raise_on_all_ranks():
            if ranks.is_rank_zero():
                runs.require_writable(settings.output_dir)
                require_installed(settings)
                if run:
                    locks.enter_context(runs.lock(run.path))
            prepared = prepare(settings, progress, run)
            if run:
                require_same(run, prepared.identity)
            data, module, evaluator, *_ = prepared
            use_cached_states(settings, data, module.model, evaluator.device, progress)
            progress.close()
            if run is None and ranks.is_rank_zero():
                run = runs.create(settings, directory)
                locks.enter_context(runs.lock(run.path))
        run = ranks.from_rank_zero(run)
        assert run is not None, "rank 0 has created it"
        with _explained_end(run, signals):
            _train(settings, prepared, run, study, callbacks, signals, progress, resumed=resume is not None)
            ranks.wait_for_rank_zero()
    return run


def choose_precision(settings: Settings) -> Settings:
    """Returns settings with rank 0's precision in place of `trainer.precision=auto`, and prints it."""
    trainer = settings.trainer
    if trainer.get("precision") != devices.AUTO:
        return settings
    if devices.is_on_gpu(trainer):
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch has no types for it
    trainer = ranks.from_rank_zero(devices.resolve_precision(trainer) if ranks.is_rank_zero() else trainer)
    print(f"Precision: {trainer['precision']} (trainer.precision=auto).")
    return replace(settings, trainer=trainer)


def prepare(settings: Settings, progress: Progress, resumed: runs.Run | None = None) -> Prepared:
    """Reads the data, builds the module, and prints notes on both.

    The weights of a run that is resumed are in its checkpoint, and so not read from `init_from`.

    Raises:
        UserError: If the settings do not fit this machine or one another, or the data cannot be used. What this machine
            or a slot refuses is refused before the data is read.
    """
    environment.quiet_libraries()
    environment.set_up_torch(settings)
    evaluator = evaluate.Evaluator(settings.trainer, progress)
    # Without memory, so that no model is too large for it.
    with torch.device("meta"), environment.explained_sizes(settings.model):
        outline = build.build_model(settings.model, num_embeddings=8, classes=2)
    require_positions(settings, outline)
    environment.require_memory(settings, outline)
    environment.require_lstm(settings.trainer, evaluator.device, outline)
    build_optimizer(settings, outline)
    callbacks = build_callbacks(settings)
    data = _build_datamodule(settings, progress)
    module = _build_module(settings, data, is_new=resumed is None)
    start = settings.init_from
    if start is not None:
        start = read_identity(resumed.last_checkpoint)["init_from"] if resumed else weights_hash(start)
    encoder, vectors = module.model.embedding.fingerprint, data.word_vectors.fingerprint if data.word_vectors else None
    files = {"vectors": vectors, "encoder": encoder, "tokenizer": data.tokenizer.fingerprint, "init_from": start}
    setting = setting_hash(settings, **files)
    identity = {"setting": setting, "data_fingerprint": data.fingerprint, "encoder": encoder, "init_from": start}
    return Prepared(data, module, evaluator, callbacks, identity)


def _build_datamodule(settings: Settings, progress: Progress) -> TextData:
    """Reads, tokenizes and splits the data, or finds it in the cache, and prints its report."""
    seed_everything(settings.seed, workers=True, verbose=False)
    data = build.build_data(settings)
    with ranks.rank_zero_first():
        data.prepare(progress)
    progress.close()
    print("\n".join(data.report))
    metric = settings.objective.metric
    if metric.partition("/")[2] in ORDERED_ONLY and not data.ordered:
        message = (
            f"objective.metric={metric} needs classes that are steps of a scale; those of "
            f"data={data.name} ({', '.join(data.labels)}) are not. Choose val/accuracy or val/log_loss."
        )
        raise SettingError(Fault("objective.metric", "conflict", message))
    limit, batches = settings.trainer.get("limit_train_batches"), len(data.train_dataloader())
    if isinstance(limit, float) and not int(limit * batches):
        message = f"trainer.limit_train_batches={limit} of {batches} batches is none: type a larger share, or 1 batch."
        raise SettingError(Fault("trainer.limit_train_batches", "range", message))
    return data


def _build_module(settings: Settings, data: TextData, *, is_new: bool) -> LitClassifier:
    """Builds the model for the vocabulary and the classes of the data, with its loss, optimizer and schedule."""
    train = data.split("train")
    ids = {"num_embeddings": len(data.tokenizer), "num_special": data.tokenizer.num_special}
    model = build.build_model(settings.model, **ids, classes=len(data.labels))
    model.prepare_training(lambda: TrainingTexts(*train.flat(), train.labels))
    if data.word_vectors is not None:
        with build.explained("data.vectors"):
            model.embedding.start_from(data.word_vectors.vectors_VE, data.word_vectors.found_V)
    if settings.init_from is not None and is_new:
        print(*start_from(settings.init_from, model, data.tokenizer), sep="\n")
    if settings.compile:
        model.compile(dynamic=True)  # batches differ in length: compiled once for all of them
    module = build_lit(settings, model, class_counts=data.class_counts, ordered=data.ordered)
    loss = module.loss
    has_vectors = settings.init_from or settings.data.get("vectors") or module.model.embedding.fingerprint
    if settings.model["embedding"].get("frozen") and not has_vectors:
        print("model.embedding.frozen=true without data.vectors: the words keep the random vectors they start with.")
    if loss.class_weights:
        print(f"Class weights: {', '.join(f'{name} {weight:.4g}' for name, weight in loss.class_weights.items())}.")
    if loss.penalty and model.attention.hops == 1:
        print(f"loss.penalty={loss.penalty} with one hop only pushes the weights towards a single token.")
    return module


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
    data, module, evaluator, own, identity = prepared
    announce(run.path)
    result = evaluate.initial_result(settings, module, identity, study)
    print(f"{result['model']}: {result['parameters']['total']:,} parameters. Run: {run.path}")
    recorder = EpochRecorder(run.path / runs.METRICS, **settings.objective)
    minutes, folder = settings.checkpoint_minutes, run.path / runs.CHECKPOINTS
    checkpoints = Checkpoints(folder, recorder, signals, minutes=minutes, identity=identity)
    loggers: list[Guard] = []
    if ranks.is_rank_zero():
        loggers = build_loggers(settings, run.path, setting=result["setting"], resumed=resumed, study=study)
    steps = [StepPoints(loggers, every=settings.trainer.get("log_every_n_steps") or 0)] if loggers else []
    callbacks = [
        *(FiniteLoss(), *own.values(), recorder, EpochLines(recorder, progress), *steps),
        *(*callbacks, checkpoints, *averaging(settings)),
    ]
    recorded = _recorded(run, result, recorder, loggers)
    with explained_errors(own, run), recorded, environment.explained_out_of_memory():
        trainer = build_trainer(settings.trainer, callbacks=callbacks, loggers=loggers)
        trainer.fit(module, datamodule=data, ckpt_path=checkpoints.last if resumed else None, weights_only=True)
        if ranks.is_rank_zero():
            if (epochs := recorder.rows[-1]["epoch"]) < settings.trainer["max_epochs"]:
                print(f"stopped after epoch {epochs} of {trainer.max_epochs}, best {recorder.best['epoch']}")
            module.load_state_dict(checkpoints.best_weights())
            result |= evaluate.evaluate_best(run, settings, module, data, evaluator, recorder, loggers)
    if result["status"] == "finished":
        evaluate.print_metrics(result)


@contextmanager
def _recorded(run: runs.Run, result: Tree, recorder: EpochRecorder, loggers: Sequence[Guard]) -> Iterator[None]:
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
        for logger in loggers:
            logger.finish(runs.summarize(result), failed=result["status"] not in ("finished", "pruned"))


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
        raise Interruption(interruption.number, advice(run)) from None
    except RuntimeError as error:
        if ranks.several() and signals.received:
            raise Interruption(signals.received, advice(run)) from None
        # NCCL's error has this type. gloo raises a plain one: which rank has died is then seen from the exit codes.
        if not isinstance(error, DistError):
            raise
        message = f"Another process of this training has ended, and so this one ends; {advice(run)}"
        raise RunError(Fault("trainer.devices", "interrupted", message)) from None


def main() -> int:
    """Trains as the task in the launcher's folder says; returns the exit code."""
    ranks.end_with_agent()
    task = json.loads((Path(os.environ[FOLDER]) / TASK).read_text(encoding="utf-8"))
    resume, directory = (Path(task[key]) if task[key] else None for key in ("resume", "directory"))
    try:
        with ranks.connected(devices.rank_info()):
            fit(Settings.of(task["settings"]), study=task["study"], resume=resume, directory=directory)
    except (Exception, Interruption) as error:
        ranks.write_error_file(error)  # the launcher prints it, unless another rank has caused it
        return error.exit_code if isinstance(error, Interruption) else 2 if isinstance(error, UserError) else 1
    except KeyboardInterrupt:  # before the training has set its handlers
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
