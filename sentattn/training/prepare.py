"""What a training needs before its first step: the data, the module, and a machine that can train it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from pytorch_lightning import seed_everything

from sentattn import build
from sentattn.config.compose import compose, setting_hash
from sentattn.distributed import ranks
from sentattn.errors import Fault, SettingError
from sentattn.metrics import ORDERED_ONLY
from sentattn.models.wide import TrainingTexts
from sentattn.training import environment
from sentattn.training.evaluate import Evaluator
from sentattn.training.precision import AUTO, is_on_gpu, resolve_precision
from sentattn.training.trainer import build_lit, build_optimizer

if TYPE_CHECKING:
    from sentattn.console import Progress
    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier
    from sentattn.training.lit_module import LitClassifier

Settings = Mapping[str, Any]

HUGE = 10
"""Times as many parameters as the preset has, above which a model is worth a warning."""


class Prepared(NamedTuple):
    """The data, the module to train on it, and what evaluates its best epoch.

    `identity` holds hashes of the setting and of the data, which must be the same when a run is resumed.
    """

    data: TextData
    module: LitClassifier
    evaluator: Evaluator
    identity: dict[str, str]


def choose_precision(settings: Settings) -> Settings:
    """Returns settings with rank 0's precision in place of `trainer.precision=auto`, and prints it."""
    if settings["trainer"].get("precision") == AUTO:
        if is_on_gpu(settings["trainer"]):
            torch.cuda.init()  # type: ignore[no-untyped-call]  # torch has no types for it
        settings = ranks.from_rank_zero(resolve_precision(settings) if ranks.is_rank_zero() else settings)
        print(f"Precision: {settings['trainer']['precision']} (trainer.precision=auto).")
    return settings


def prepare(settings: Settings, progress: Progress) -> Prepared:
    """Reads the data, builds the module, and prints notes on both.

    Raises:
        UserError: If the settings do not fit this machine or one another, or the data cannot be used. What this machine
            or a slot refuses is refused before the data is read.
    """
    environment.quiet_libraries()
    environment.set_up_torch(settings)
    evaluator = Evaluator(settings, progress)
    # Without memory, so that no model is too large for it.
    with torch.device("meta"), environment.explained_sizes(settings["model"]):
        outline = build.build_model(settings["model"], num_embeddings=8, classes=2)
    environment.require_memory(settings, outline)
    environment.require_lstm(settings, evaluator.device, outline)
    build_optimizer(settings, outline)
    data = build_datamodule(settings, progress)
    module = build_module(settings, data)
    vectors = data.word_vectors.fingerprint if data.word_vectors else None
    identity = {"setting": setting_hash(settings, vectors=vectors), "data_fingerprint": data.fingerprint}
    return Prepared(data, module, evaluator, identity)


def build_datamodule(settings: Settings, progress: Progress) -> TextData:
    """Reads, tokenizes and splits the data, or finds it in the cache, and prints its report.

    Raises:
        UserError: If the data cannot be used, or the settings do not fit it.
    """
    seed_everything(settings["seed"], workers=True, verbose=False)
    data = build.build_data(settings)
    with ranks.rank_zero_first():
        data.prepare(progress)
    progress.close()
    print("\n".join(data.report))
    metric = settings["objective"]["metric"]
    if metric.partition("/")[2] in ORDERED_ONLY and not data.ordered:
        message = (
            f"objective.metric={metric} needs classes that are steps of a scale; those of "
            f"data={data.name} ({', '.join(data.labels)}) are not. Choose val/accuracy or val/log_loss."
        )
        raise SettingError(Fault("objective.metric", "conflict", message))
    limit, batches = settings["trainer"].get("limit_train_batches"), len(data.train_dataloader())
    if isinstance(limit, float) and not int(limit * batches):
        message = (
            f"trainer.limit_train_batches={limit} of {batches} training batches is none: type a larger share, or a "
            "number of batches, such as trainer.limit_train_batches=1."
        )
        raise SettingError(Fault("trainer.limit_train_batches", "range", message))
    return data


def build_module(settings: Settings, data: TextData) -> LitClassifier:
    """Builds the model for the vocabulary and the classes of the data, with its loss, optimizer and schedule.

    Raises:
        UserError: If a part of the model, the optimizer or the loss refuses its settings or the data.
    """
    train = data.split("train")
    model = build.build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
    model.count(lambda: TrainingTexts(*train.flat(), train.labels))
    _warn_if_huge(settings, model, len(data.tokenizer), len(data.labels))
    if data.word_vectors is not None:
        with build.explained("data.vectors"):
            model.embedding.start_from(data.word_vectors.vectors_VE, data.word_vectors.found_V)
    if settings["compile"]:
        model.compile(dynamic=True)  # batches differ in length: compiled once for all of them
    module = build_lit(settings, data, model, class_counts=data.class_counts)
    for note in _notes(settings, module):
        print(note)
    return module


def _warn_if_huge(settings: Settings, model: TextClassifier, words: int, classes: int) -> None:
    """Prints a warning where a model has far more parameters than its preset would have for the same words."""
    try:
        preset = compose([f"model={settings['model']['name']}"])["model"]
    except SettingError:  # the preset is in a folder of choices that this command does not name
        return
    with torch.device("meta"):
        usual = _parameters(build.build_model(preset, num_embeddings=words, classes=classes))
    if (number := _parameters(model)) > HUGE * usual:
        print(
            f"warning: the model has {number:,} parameters, {number / usual:.0f} times the {usual:,} of "
            f"model={settings['model']['name']} as it is; model.attention.hops is {model.attention.hops}.",
            file=sys.stderr,
            flush=True,
        )


def _parameters(model: TextClassifier) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _notes(settings: Settings, module: LitClassifier) -> Iterator[str]:
    """Yields notes on embedding and loss."""
    if settings["model"]["embedding"].get("frozen") and settings["data"].get("vectors") is None:
        yield "model.embedding.frozen=true without data.vectors: the words keep the random vectors they start with."
    if module.loss.class_weights:
        weights = ", ".join(f"{name} {weight:.4g}" for name, weight in module.loss.class_weights.items())
        yield f"Class weights: {weights}."
    if module.loss.penalty and module.model.attention.hops == 1:
        yield (
            f"loss.penalty={module.loss.penalty} with one hop separates no hops: "
            "it only pushes the weights towards a single token."
        )
