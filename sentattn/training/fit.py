"""Training one run: settings in, a finished run directory out."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from pytorch_lightning import seed_everything

from sentattn import build
from sentattn import run as runs
from sentattn.config.compose import compose, setting_hash
from sentattn.config.request import read_single
from sentattn.console import Progress
from sentattn.distributed import devices, ranks
from sentattn.distributed.launch import announce, launch
from sentattn.errors import Fault, Interruption, Pruned, RunError, SettingError, UserError
from sentattn.loggers import build_logger, media, require_package
from sentattn.loggers.guard import summarize
from sentattn.metrics import ORDERED_ONLY, majority_share
from sentattn.models.wide import TrainingTexts
from sentattn.prediction.model import LoadedRun
from sentattn.training import environment, evaluate
from sentattn.training.callbacks import EpochLines, EpochRecorder, FiniteLoss, StepPoints, averaging
from sentattn.training.checkpoint import Checkpoints
from sentattn.training.evaluate import evaluate_split
from sentattn.training.precision import AUTO, is_on_gpu, resolve_precision
from sentattn.training.resume import open_interrupted, require_same
from sentattn.training.seeds import train_all
from sentattn.training.signals import Signals
from sentattn.training.trainer import build_lit, build_optimizer, build_trainer

if TYPE_CHECKING:
    from pytorch_lightning import Callback

    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier
    from sentattn.training.lit_module import LitClassifier

Settings = Mapping[str, Any]

HUGE = 10
"""Times as many parameters as the preset has, above which a model is worth a warning."""


class Prepared(NamedTuple):
    """The data, the module to train on it, and the hash that the seeds of one setting share."""

    data: TextData
    lit: LitClassifier
    setting: str

    def about(self) -> dict[str, str]:
        """What a checkpoint stores of its run, and what must be the same when the run is resumed."""
        return {"setting": self.setting, "data_fingerprint": self.data.fingerprint}


def fit(overrides: str | Sequence[str] = ()) -> LoadedRun:
    """Trains as `python -m sentattn.train` does, and returns the run.

    Args:
        overrides: Settings such as `["model=structured", "data=demo"]`; `from=DIR` and `resume=DIR` too. A string is
            one of them.

    Raises:
        UserError: With every fault.
    """
    request = read_single([overrides] if isinstance(overrides, str) else list(overrides))
    return LoadedRun(train_all(request, train)[0].path, trust=True)


def train(
    settings: Settings,
    *,
    resume: Path | None = None,
    directory: Path | None = None,
    study: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> runs.Run:
    """Trains with resolved settings: reads the data, fits, evaluates the best epoch, writes the run.

    Args:
        settings: The resolved settings.
        resume: Directory of an interrupted run with these settings; it is continued to the same end.
        directory: Where the run is written; None for a new directory under `output_dir`.
        study: The study that the run is a trial of.
        callbacks: Further callbacks; one that raises `Pruned` ends the run, with the metrics it has so far.

    Raises:
        UserError: If the settings, the data or the training are at fault. The `result.json` of a run that fails
            while it trains says so.
        Interruption: If a signal ended it; the message says how to continue.
    """
    place = devices.place()
    if place is None and (processes := devices.count(settings["trainer"])) > 1:
        assert not callbacks, "callbacks cannot be passed to other processes"
        return launch(settings, processes, resume=resume, directory=directory, study=study)
    with ranks.connected():
        return _train_here(devices.as_placed(settings, place), resume, directory, study, callbacks)


def choose_precision(settings: Settings) -> Settings:
    """Returns settings with rank 0's precision in place of `trainer.precision=auto`, and prints it."""
    if settings["trainer"].get("precision") == AUTO:
        if is_on_gpu(settings["trainer"]):
            torch.cuda.init()  # type: ignore[no-untyped-call]  # torch has no types for it
        settings = ranks.from_rank_zero(resolve_precision(settings) if ranks.is_rank_zero() else settings)
        print(f"Precision: {settings['trainer']['precision']} (trainer.precision=auto).")
    return settings


def prepare(settings: Settings, progress: Progress) -> Prepared:
    """Reads the data, builds the model, and prints what the user should know of both.

    Raises:
        UserError: If the settings do not fit this machine or one another, or the data is at fault.
    """
    environment.quiet_libraries()
    environment.set_up_torch(settings)
    # Settings that this machine or another slot refuses are refused before the data is read.
    device = build_trainer(settings).strategy.root_device
    # Without memory, so that no model is too large for it.
    with torch.device("meta"), environment.explained_sizes(settings["model"]):
        environment.require_memory(settings, build.build_model(settings["model"], num_embeddings=8, classes=2))
    small = build.build_model(settings["model"], num_embeddings=8, classes=2)
    environment.require_lstm(settings, device, small)
    build_optimizer(settings, small)
    seed_everything(settings["seed"], workers=True, verbose=False)
    data = build.build_data(settings)
    with ranks.rank_zero_first():
        data.prepare(progress)
    progress.close()
    for line in data.report:
        print(line)
    _require_ordered(settings, data)
    _require_batches(settings, data)
    model = build.build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
    model.embedding.count(lambda: data.split("train").flat())
    model.wide.count(lambda: TrainingTexts(*data.split("train").flat(), data.split("train").labels))
    _warn_if_huge(settings, model, len(data.tokenizer), len(data.labels))
    if data.word_vectors is not None:
        model.embedding.start_from(data.word_vectors.vectors_VE, data.word_vectors.found_V)
    if settings["compile"]:
        model.compile(dynamic=True)  # batches differ in length: compiled once for all of them
    lit = build_lit(settings, data, model, class_counts=data.class_counts)
    for note in _notes(settings, lit):
        print(note)
    vectors = data.word_vectors.fingerprint if data.word_vectors else None
    return Prepared(data, lit, setting_hash(settings, vectors=vectors))


def _train_here(
    settings: Settings, resume: Path | None, directory: Path | None, study: str | None, callbacks: Sequence[Callback]
) -> runs.Run:
    """Trains in this process, which may be one of several ranks; rank 0 writes the run."""
    environment.reset_peak_memory()
    settings = choose_precision(settings)
    run: runs.Run | None = None
    with Signals() as signals, Progress(shown=ranks.is_rank_zero()) as progress, ExitStack() as locks:
        try:
            with ranks.together():
                run = open_interrupted(resume) if resume else None
                if ranks.is_rank_zero():
                    runs.require_writable(settings["output_dir"])
                    require_package(settings["logger"])
                    if run:
                        locks.enter_context(runs.lock(run.path))
                prepared = prepare(settings, progress)
                if run:
                    require_same(run, prepared.about())
                elif ranks.is_rank_zero():
                    run = runs.create(settings, directory)
                    locks.enter_context(runs.lock(run.path))
            run = ranks.from_rank_zero(run)
            assert run is not None, "rank 0 has created it"
            result = _fit(settings, prepared, run, study, callbacks, signals, progress, resumed=resume is not None)
            ranks.wait_for_rank_zero()
        except Interruption as interruption:
            if run is not None and not run.last_checkpoint.is_file() and ranks.is_rank_zero():
                shutil.rmtree(run.path, ignore_errors=True)  # nothing was trained yet
            raise Interruption(interruption.number, runs.advice(run)) from None
        except RuntimeError as error:
            if ranks.several() and signals.received:
                raise Interruption(signals.received, runs.advice(run)) from None
            if not ranks.lost(error):
                raise
            message = f"Another process of this training has ended, and so this one ends; {runs.advice(run)}"
            raise RunError(Fault("trainer.devices", "interrupted", message)) from None
    if result["status"] == "finished":
        evaluate.print_metrics(result)
    return run


def _fit(
    settings: Settings,
    prepared: Prepared,
    run: runs.Run,
    study: str | None,
    callbacks: Sequence[Callback],
    signals: Signals,
    progress: Progress,
    *,
    resumed: bool,
) -> dict[str, Any]:
    """Fits the module, evaluates the best epoch and writes the result; returns it."""
    data, lit, setting = prepared
    announce(run.path)
    result = evaluate.initial_result(settings, lit, setting, data.fingerprint, study)
    print(f"{result['model']}: {result['parameters']['total']:,} parameters. Run: {run.path}")
    recorder = EpochRecorder(run.path / runs.METRICS, **settings["objective"])
    minutes, folder = settings["checkpoint_minutes"], run.path / runs.CHECKPOINTS
    checkpoints = Checkpoints(folder, recorder, signals, minutes=minutes, about=prepared.about())
    logger = None
    if ranks.is_rank_zero():
        logger = build_logger(settings, run.path, setting=setting, resumed=resumed, study=study)
    own: list[Callback] = [FiniteLoss(), recorder, EpochLines(recorder, progress)]
    if logger is not None:
        own.append(StepPoints(logger, every=settings["trainer"].get("log_every_n_steps") or 0))
    callbacks = [*own, *callbacks, checkpoints, *averaging(settings)]
    try:
        with environment.explained_out_of_memory():
            trainer = build_trainer(settings, callbacks=callbacks, logger=logger)
            trainer.fit(lit, datamodule=data, ckpt_path=checkpoints.last if resumed else None, weights_only=True)
            if ranks.is_rank_zero():
                with ranks.alone():
                    lit.load_state_dict(checkpoints.best_weights())
                    splits = ("val", "test") if settings["test"] else ("val",)
                    evaluations = {split: evaluate_split(settings, lit, data, split, progress) for split in splits}
                    evaluate.write_model(run, settings, data, lit, evaluations)
                    result |= evaluate.result_of(recorder, evaluations)
                    result["majority"] = {split: majority_share(data.split(split).labels) for split in splits}
                    result["latency_ms"] = environment.latency_ms(lit.model, data, trainer.strategy.root_device)
                    probabilities = {split: evaluation.probabilities for split, evaluation in evaluations.items()}
                    media.log_evaluation(logger, data, probabilities, epoch=result["best_epoch"])
                    media.log_attention(logger, data, lit.model, epoch=result["best_epoch"])
                    evaluate.warn_if_diverged(recorder.rows, classes=len(data.labels))
                    evaluate.warn_if_one_class(data.labels, probabilities)
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
    return result


def _require_ordered(settings: Settings, data: TextData) -> None:
    """Refuses an objective that only classes on a scale have."""
    metric = settings["objective"]["metric"]
    if metric.partition("/")[2] in ORDERED_ONLY and not data.ordered:
        message = (
            f"objective.metric={metric} needs classes that are steps of a scale; those of "
            f"data={data.name} ({', '.join(data.labels)}) are not. Choose val/accuracy or val/log_loss."
        )
        raise SettingError(Fault("objective.metric", "conflict", message))


def _require_batches(settings: Settings, data: TextData) -> None:
    """Refuses a share of an epoch's batches that is less than a batch."""
    share, batches = settings["trainer"].get("limit_train_batches"), len(data.train_dataloader())
    if isinstance(share, float) and not int(share * batches):
        message = (
            f"trainer.limit_train_batches={share} of the {batches} training batches is none: type a larger share, or a "
            "number of batches, such as trainer.limit_train_batches=1."
        )
        raise SettingError(Fault("trainer.limit_train_batches", "range", message))


def _warn_if_huge(settings: Settings, model: TextClassifier, words: int, classes: int) -> None:
    """Prints a warning where a model has far more parameters than its preset would have for the same words."""
    try:
        preset = compose([f"model={settings['model']['name']}"])["model"]
    except SettingError:  # of a folder of choices that is not named here
        return
    with torch.device("meta"):
        usual = _count(build.build_model(preset, num_embeddings=words, classes=classes))
    if (number := _count(model)) > HUGE * usual:
        print(
            f"warning: the model has {number:,} parameters, {number / usual:.0f} times the {usual:,} of "
            f"model={settings['model']['name']} as it is; model.attention.hops is {model.attention.hops}.",
            file=sys.stderr,
            flush=True,
        )


def _count(model: TextClassifier) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _notes(settings: Settings, lit: LitClassifier) -> Iterator[str]:
    """Yields what the user should know of embedding and loss."""
    if settings["model"]["embedding"].get("frozen") and settings["data"].get("vectors") is None:
        yield "model.embedding.frozen=true without data.vectors: the words keep the random vectors they start with."
    if lit.loss.class_weights:
        weights = ", ".join(f"{name} {weight:.4g}" for name, weight in lit.loss.class_weights.items())
        yield f"Class weights: {weights}."
    if lit.loss.penalty and lit.model.attention.hops == 1:
        yield (
            f"loss.penalty={lit.loss.penalty} with one hop keeps no hops apart: "
            "it only pushes the weights towards a single token."
        )
