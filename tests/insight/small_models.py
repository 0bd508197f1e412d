"""Untrained models of a few parameters, and texts for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.models.classifier import TextClassifier

WORDS = 30


def small_model(*overrides: str, classes: int = 3, std: float = 1.0) -> TextClassifier:
    """A model in double precision and evaluation mode, its weights drawn at random."""
    torch.manual_seed(0)
    node = compose([*overrides, "model.embedding.size=6", f"model.init_std={std}", "model.embedding.init_std=1"])[
        "model"
    ]
    return build_model(node, num_embeddings=WORDS, classes=classes).double().eval()


def random_texts(*lengths: int) -> list[Any]:
    """Ids of texts without `<pad>` and `<unk>`."""
    random = np.random.default_rng(1)
    return [random.integers(2, WORDS, size=length) for length in lengths]
