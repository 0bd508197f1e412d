"""Whole models have as many parameters as those of the sources, by the numbers that the sources print or imply."""

from __future__ import annotations

from torch import nn

from sentattn.build import build_model
from sentattn.config import compose
from sentattn.models.classifier import TextClassifier


def model(*settings: str, num_embeddings: int, classes: int) -> TextClassifier:
    return build_model(compose(list(settings))["model"], num_embeddings=num_embeddings, classes=classes)


def count(module: nn.Module, *, trainable: bool = True) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad is trainable)


def test_keras_transformer_example() -> None:
    sizes = ["model.embedding.size=32", "model.encoder.heads=2", "model.encoder.hidden=32", "model.head.width=20"]
    keras = model("model=transformer", "data.max_length=200", *sizes, num_embeddings=20_000, classes=2)
    assert count(keras.embedding) == 646_400
    assert count(keras.encoder) == 6_464
    assert count(keras) == 653_566


def test_gluon_tutorial() -> None:
    gluon = model(
        "model=structured",
        "model.embedding.size=300",
        "model.embedding.frozen=true",
        "model.encoder.hidden=300",
        "model.encoder.layers=2",
        "model.attention.hidden=300",
        "model.attention.hops=2",
        "model.head.width=512",
        "model.head.activation=tanh",
        num_embeddings=10_004,
        classes=5,
    )
    assert count(gluon, trainable=False) == 3_001_200
    assert count(gluon) == 4_407_979
