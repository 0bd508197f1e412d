"""Untrained models of a few parameters, and texts for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.models.classifier import TextClassifier
from sentattn.models.embedding import TrainingTexts
from sentattn.models.wide import WideNGrams

WORDS = 30


def small_model(*overrides: str, classes: int = 3, std: float = 1.0) -> TextClassifier:
    """A model in double precision and evaluation mode, its weights drawn at random."""
    torch.manual_seed(0)
    embedding = [] if "model=wide" in overrides else ["model.embedding.size=6", "model.embedding.init_std=1"]
    node = compose([*overrides, *embedding, f"model.init_std={std}"])["model"]
    return build_model(node, num_embeddings=WORDS, classes=classes).double().eval()


def random_texts(*lengths: int) -> list[Any]:
    """Ids of texts without `<pad>` and `<unk>`."""
    random = np.random.default_rng(1)
    return [random.integers(2, WORDS, size=length) for length in lengths]


def wide_model(*overrides: str, attends: bool = True) -> TextClassifier:
    """A small model with a wide part that has counted some texts; its attention and its weights are drawn at random."""
    kind = [] if "model=wide" in overrides else [f"model/wide={'attended_ngrams' if attends else 'ngrams'}"]
    model = small_model(*overrides, *kind, "model.wide.orders=[1,2]", std=0.3)
    random = np.random.default_rng(2)
    texts = [random.integers(2, WORDS, size=40) for _ in range(40)]
    offsets = np.cumsum([0, *map(len, texts)])
    assert isinstance(model.wide, WideNGrams)
    model.prepare_training(lambda: TrainingTexts(np.concatenate(texts), offsets, random.integers(3, size=40)))
    with torch.no_grad():
        model.wide.weights_FC.mul_(torch.rand_like(model.wide.weights_FC) + 0.5)
        if model.wide.scores is not None:
            model.wide.scores.weight.normal_()
    return model
