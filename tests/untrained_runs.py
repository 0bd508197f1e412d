"""Runs whose models have large random weights instead of trained ones."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.data.tokenizer import Tokenizer
from sentattn.models.embedding import TrainingTexts, Words
from sentattn.prediction.model import TEXT_SETTINGS, Classifier, LoadedRun
from sentattn.run import CONFIG_FILE, MODEL_FOLDER, yaml_text

WORDS = ["the", "film", "was", "not", "good", "bad", "but", ",", ".", "!", "10/10", "caf\u00e9", "it's", "a"]
LABELS = ["neg", "mixed", "pos"]
MAX_LENGTH = 9
SCALE = 3.0
"""With initial weights all texts have nearly the same outputs, and errors are hard to see."""
TEXTS = [
    "Film",
    "not bad",
    "The film was not good, but it's <br />a CAF\u00c9 film!",  # longer than is read
    "bad " * 40 + "good",
    "The film was good.",
    "cafe\u0301<br/>e\u0301! \u2764\ufe0fgood",
    "\U0001f600 unheard \u00fcber <pad> <unk>",
    "10/10",
    "it's not a film , it was a bad bad caf\u00e9",
    "good good!",
    "the film the film",
    "a",
]


def composed_from(*settings: str) -> dict[str, Any]:
    """Returns all settings; texts are short and n-grams few by default."""
    by_key = {setting.partition("=")[0]: setting for setting in settings}
    small = {"data.max_length": f"data.max_length={MAX_LENGTH}"}
    if "model/embedding" in by_key:
        small["model.embedding.ngram_vocab_size"] = "model.embedding.ngram_vocab_size=30"
    return compose([*(small | by_key).values()])


def classifier(*settings: str) -> Classifier:
    """Returns an untrained classifier with these settings, the same for the same settings."""
    composed = composed_from(*settings)
    text = {key: composed["data"][key] for key in TEXT_SETTINGS}
    options = {key: value for key, value in text.items() if key != "tokenizer"}
    tokenizer = Tokenizer(WORDS, rules=text["tokenizer"], **options)
    torch.manual_seed(zlib.crc32(" ".join(settings).encode()))
    model = build_model(composed["model"], num_embeddings=len(tokenizer), classes=len(LABELS))
    tokens, offsets = _rows(tokenizer)
    labels = np.arange(len(offsets) - 1) // 2 % len(LABELS)  # of the three copies of a text two have one label
    model.prepare_training(lambda: TrainingTexts(tokens, offsets, labels))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1).mul_(SCALE)
        if isinstance(model.embedding, Words):
            model.embedding.vectors.weight[0] = 0.0
    return Classifier(
        model=model, tokenizer=tokenizer, labels=LABELS, config={"model": composed["model"], "text": text}
    )


def _rows(tokenizer: Tokenizer) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns the texts three times each, so that their n-grams have vectors."""
    rows = [encoded.ids for encoded in tokenizer.encode(TEXTS) for _ in range(3)]
    return np.concatenate(rows).astype(np.int64), np.cumsum([0, *map(len, rows)])


def write_run(path: Path, *settings: str) -> LoadedRun:
    """Writes a run directory with such a model and its settings."""
    classifier(*settings).save(path / MODEL_FOLDER)
    (path / CONFIG_FILE).write_text(yaml_text(composed_from(*settings)))
    return LoadedRun(path)
