"""From settings to what a training needs: rows that are read, and a model that fits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pytorch_lightning import seed_everything

from sentattn import build
from sentattn.config.compose import setting_hash
from sentattn.distributed import ranks
from sentattn.errors import SettingError
from sentattn.metrics import ORDERED_ONLY
from sentattn.progress import Progress
from sentattn.training import machine, quiet

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData
    from sentattn.training.lit_module import LitClassifier

Settings = Mapping[str, Any]

FEW = 8
"""Embeddings of a model that is built to see whether it can be."""


class Prepared(NamedTuple):
    """What is trained, and on what; `setting` is the hash that the seeds of one setting share."""

    data: TextData
    lit: LitClassifier
    setting: str


def prepare(settings: Settings, progress: Progress) -> Prepared:
    """Reads the data, builds the model and says what the user should know of both.

    Raises:
        UserError: If the settings do not fit this machine or one another, or the data is at fault.
    """
    quiet.libraries()
    machine.set_up(settings)
    # What this machine cannot fulfil and slots that do not fit one another are refused before anything is read.
    build.build_trainer(settings)
    trial = build.build_model(settings["model"], num_embeddings=FEW, classes=2)
    build.build_optimizer(settings, trial)
    seed_everything(settings["seed"], workers=True, verbose=False)
    data = _read(settings, progress)
    model = build.build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
    model.embedding.count(lambda: data.token_ids("train"))
    if data.word_vectors is not None:
        model.embedding.start_from(data.word_vectors.vectors_VE, data.word_vectors.found_V)
    if settings["compile"]:
        machine.compile_model(model)
    lit = build.build_lit(settings, data, model, class_counts=data.class_counts)
    for sentence in _notes(settings, lit):
        print(sentence)
    vectors = data.word_vectors.fingerprint if data.word_vectors else None
    return Prepared(data, lit, setting_hash(settings, vectors=vectors))


def _read(settings: Settings, progress: Progress) -> TextData:
    data = build.build_data(settings)
    with ranks.rank_zero_first():
        data.prepare(progress)
    progress.close()
    for sentence in data.report:
        print(sentence)
    figure = settings["objective"]["metric"].partition("/")[2]
    if figure in ORDERED_ONLY and not data.ordered:
        raise SettingError(
            f"objective.metric=val/{figure} needs classes that are steps of a scale; those of "
            f"data={data.name} ({', '.join(data.labels)}) are not. Choose val/accuracy or val/log_loss."
        )
    return data


def _notes(settings: Settings, lit: LitClassifier) -> Iterator[str]:
    """What the user should know of words and loss, in sentences."""
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
