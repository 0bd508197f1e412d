"""Training: settings in, a finished run directory out.

As a program, `python -m sentattn.training.fit TASK.json`, this module is one of the processes that `launch` starts.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from pytorch_lightning import Callback, Trainer, seed_everything

from sentattn import build
from sentattn import run as runs
from sentattn.config.groups import get_path
from sentattn.config.hashing import setting_hash
from sentattn.config.request import Request
from sentattn.config.schema import AUTO_RESUME, FOLD, INIT_FROM, Settings
from sentattn.config.types import Node
from sentattn.console import Progress, wrap
from sentattn.data.cache import sha256
from sentattn.data.datamodule import TextData
from sentattn.data.tokenizer import SPECIALS, Tokenizer
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, Interruption, RunError, SettingError, TrainingError, visible
from sentattn.loggers import require_installed
from sentattn.metrics import ORDERED_ONLY
from sentattn.models.classifier import TextClassifier
from sentattn.models.embedding import TrainingTexts
from sentattn.models.pretrained import Pretrained, most_tokens
from sentattn.models.states import States
from sentattn.prediction.model import read_files
from sentattn.run import CONFIG_FILE, MODEL_FOLDER, WEIGHTS_FILE, Run
from sentattn.training.callbacks import FiniteLoss, StepPoints, averaging
from sentattn.training.environment import copy_sources, quiet_libraries, set_up_torch
from sentattn.training.evaluate import evaluate_best, evaluating_trainer, initial_result, print_metrics, recorded
from sentattn.training.launch import launch, run_rank
from sentattn.training.lit_module import LitClassifier, build_lit, build_optimizer
from sentattn.training.recorder import Recorder, read_identity
from sentattn.training.resume import (
    advice,
    find_finished,
    find_interrupted,
    open_interrupted,
    require_encoder,
    require_same,
)
from sentattn.training.signals import Signals
from sentattn.training.states import use_cached_states
from sentattn.training.trainer import build_callbacks, build_trainer, explained_errors

VECTORS, POSITIONS = "embedding.vectors.weight", "embedding.positions.weight"


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
            copy_sources(settings, run.path)
            stack.enter_context(runs.lock(run.path))
        result = initial_result(settings, module, identity, study)
        print(f"{result['model']}: {result['parameters']['total']:,} parameters. Run: {run.path}")
        minutes, objective = settings.checkpoint_minutes, settings.objective
        recorder = Recorder(run, minutes, objective, identity=identity, signals=signals, progress=progress)
        with explained_errors(own, run), recorded(run, result, recorder, resumed=resume is not None) as loggers:
            points = [StepPoints(loggers, every=settings.trainer.get("log_every_n_steps") or 0)] if loggers else []
            # They see a loss that is not finite before all others; the average of the weights is updated after these.
            several = [FiniteLoss(), *own.values(), *callbacks, *points, *averaging(settings.ema_decay), recorder]
            trainer = build_trainer(settings.trainer, callbacks=several, loggers=loggers)
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
        if (run.path / CONFIG_FILE).is_file() and not run.last_checkpoint.is_file() and ranks.is_rank_zero():
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


def choose_precision(trainer: Node) -> Node:
    """Returns `trainer` settings with rank 0's precision in place of `trainer.precision=auto`, and prints it.

    Raises:
        SettingError: If a CPU is to compute in float16, in place of which Lightning would take bfloat16 unasked.
    """
    is_free = trainer["accelerator"] == "auto" and not torch.backends.mps.is_available()
    is_on_cpu = trainer["accelerator"] == "cpu" or (is_free and not devices.is_on_gpu(trainer))
    if trainer.get("precision") == "16-mixed" and is_on_cpu:
        message = "trainer.precision=16-mixed needs a GPU, and this is a CPU: type trainer.precision=bf16-mixed."
        raise SettingError(Fault("trainer.precision", "resources", message))
    if trainer.get("precision") != devices.AUTO:
        return trainer
    if devices.is_on_gpu(trainer):
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch has no types for it
    trainer = ranks.broadcast(devices.resolve_precision(trainer) if ranks.is_rank_zero() else trainer)
    print(f"Precision: {trainer['precision']} (trainer.precision=auto).")
    return trainer


def set_up(settings: Settings, progress: Progress) -> tuple[Trainer, dict[str, Callback]]:
    """Sets torch up; refuses, before data is read, what this machine or a class refuses of the settings.

    Returns:
        What evaluates the best epoch, and the callbacks of the settings by path.

    Raises:
        SettingError: With the setting.
    """
    quiet_libraries()
    set_up_torch(settings)
    require_installed(settings)
    evaluator = evaluating_trainer(settings.trainer, progress)
    with torch.device("meta"):  # without memory
        outline = build.build_model(settings.model, num_embeddings=8, classes=2)
    length, embedding = settings.data["max_length"], outline.embedding
    if isinstance(embedding, Pretrained) and (most := most_tokens(embedding.folder, length)):
        encoder, given = f"model.embedding.name={embedding.name}", "null" if length is None else length
        message = f"data.max_length must be at most {most}, the positions of {encoder}, got {given}."
        raise SettingError(Fault("data.max_length", "range", message))
    build_optimizer(settings, outline)
    return evaluator, build_callbacks(settings)


def build_data(settings: Settings, progress: Progress) -> TextData:
    """Reads, tokenizes and splits the data, or finds it in the cache, and prints its report.

    Raises:
        UserError: If it cannot be used, or not with these settings.
    """
    seed_everything(settings.seed, workers=True, verbose=False)
    data = build.build_data(settings)
    with ranks.rank_zero_first():
        data.prepare(progress)
    progress.close()
    print(visible("\n".join(data.report)))
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


def build_module(settings: Settings, data: TextData, *, resumed: bool = False) -> LitClassifier:
    """Builds the model for the vocabulary and the classes of the data, with its loss, optimizer and schedule.

    The weights of a run that is resumed are in its checkpoint, and so not read from `init_from`. Prints notes on the
    settings.

    Raises:
        UserError: If a part refuses its settings, or the weights of `init_from` do not fit.
    """
    train = data.split("train")
    model = build.build_model(settings.model, **model_sizes(data))
    if isinstance(model.embedding, States):
        model.embedding.open(data.states)
    model.prepare_training(lambda: TrainingTexts(*train.flat(), train.labels))
    if data.word_vectors is not None:
        with build.explained("data.vectors"):
            model.embedding.start_from(data.word_vectors.vectors_VE, data.word_vectors.found_V)
    if settings.init_from is not None and not resumed:
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


def model_sizes(data: TextData) -> dict[str, int]:
    """Returns what a model is built for: the numbers of ids, of special ids and of classes."""
    tokenizer = data.tokenizer
    return {"num_embeddings": len(tokenizer), "num_special": tokenizer.num_special, "classes": len(data.labels)}


def identify(
    settings: Settings, data: TextData, module: LitClassifier, resumed: Run | None = None
) -> dict[str, str | None]:
    """Returns what must be the same when a run is resumed: hashes of setting, data, encoder and initial weights."""
    start = settings.init_from
    if start is not None and resumed:
        start = read_identity(resumed.last_checkpoint)["init_from"]
    elif start is not None:
        start = sha256(Path(start, MODEL_FOLDER, WEIGHTS_FILE))[:16]
    encoder, vectors = module.model.embedding.fingerprint, data.word_vectors.fingerprint if data.word_vectors else None
    encoder = data.states.fingerprint if data.states else encoder
    files = {"vectors": vectors, "encoder": encoder, "tokenizer": data.tokenizer.fingerprint, "init_from": start}
    setting = setting_hash(settings, **files)
    return {"setting": setting, "data_fingerprint": data.fingerprint, "encoder": encoder, "init_from": start}


def start_from(run: str, model: TextClassifier, tokenizer: Tokenizer) -> list[str]:
    """Gives a model the weights of a run that fit by name and shape, and returns lines for the user that name the rest.

    Of another vocabulary, the vectors of shared words are taken, and nothing else that belongs to words.

    Raises:
        RunError: If the run's model is damaged.
        SettingError: If no weight fits.
    """
    _, _, other, saved = read_files(Path(run) / MODEL_FOLDER)
    own = model.state_dict()
    taken = {name: saved[name] for name in own if name in saved and own[name].shape == saved[name].shape}
    has_same_words = (tokenizer.fingerprint, tokenizer.words) == (other.fingerprint, other.words)
    for part in ("embedding.", "wide."):  # whose weights, except those of positions, belong to words and n-grams
        names = {name for name in own if name.startswith(part) and name != POSITIONS}
        if not (has_same_words and names <= taken.keys()):
            taken = {name: weight for name, weight in taken.items() if name not in names}
    places = {word: place for place, word in enumerate([*SPECIALS, *other.words])}
    pairs = [(row, places[word]) for row, word in enumerate([*SPECIALS, *tokenizer.words]) if word in places]
    is_same_kind = tokenizer.fingerprint == other.fingerprint and VECTORS in own and VECTORS in saved
    if is_same_kind and len(pairs) > len(SPECIALS) and saved[VECTORS].shape == (len(other), *own[VECTORS].shape[1:]):
        rows, sources = torch.tensor(pairs).T
        taken[VECTORS] = own[VECTORS].index_copy(0, rows, saved[VECTORS][sources].to(own[VECTORS].dtype))
    if not taken:
        message = f"{INIT_FROM}={run}: none of its weights fits this model by name and shape; leave it out."
        raise SettingError(Fault(INIT_FROM, "conflict", message))
    model.load_state_dict(taken, strict=False)
    text = f"Starts from {run}: {len(taken)} of {len(own)} weights"
    if VECTORS in taken and not has_same_words:
        text += f", with the vectors of {len(pairs) - len(SPECIALS):,} of {len(tokenizer.words):,} words"
    for what, names in (("new", own.keys() - taken.keys()), ("not used", saved.keys() - own.keys())):
        modules = sorted({".".join(name.split(".")[:-1][:3]) for name in names})
        text += f"; {what}: {', '.join(modules)}" if modules else ""
    return wrap(f"{text}.", "", "  ")


def main(arguments: Sequence[str]) -> int:
    """Trains as one of several ranks; returns the exit code."""
    task = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    settings, path = Settings.of(task["settings"]), Path(task["path"])
    resume = path if task["resumed"] else None
    return run_rank(lambda: fit(settings, resume=resume, directory=path, study=task["study"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
