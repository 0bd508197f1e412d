"""Whole models have as many parameters as those of the sources, by the numbers that the sources print or imply."""

from __future__ import annotations

from torch import nn

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.models.classifier import TextClassifier


def model(*settings: str, num_embeddings: int, classes: int) -> TextClassifier:
    return build_model(compose(list(settings))["model"], num_embeddings=num_embeddings, classes=classes)


def count(module: nn.Module, *, trainable: bool = True) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad is trainable)


def test_keras_transformer_example() -> None:
    keras = model("experiment=keras_imdb", "data.max_length=200", num_embeddings=20_000, classes=2)
    assert count(keras.embedding) == 646_400
    assert count(keras.encoder) == 6_464
    assert count(keras) == 653_566


def test_gluon_tutorial() -> None:
    gluon = model("experiment=gluon_yelp", num_embeddings=10_004, classes=5)
    assert count(gluon, trainable=False) == 3_001_200
    assert count(gluon) == 4_407_979


def test_lin_et_al() -> None:
    lin = model("experiment=lin2017_yelp", num_embeddings=1_000, classes=5)
    assert count(lin.embedding) == 1_000 * 300
    assert count(lin.encoder) == 2 * (4 * 300 * (300 + 300) + 8 * 300)
    assert count(lin.attention) == 350 * 600 + 30 * 350
    assert count(lin.head) == (30 * 600 * 3000 + 3000) + (3000 * 5 + 5)


def test_word_attention_post() -> None:
    bahdanau = model("experiment=bahdanau_imdb_faithful", num_embeddings=1_000, classes=2)
    assert count(bahdanau.attention) == 150 + 70
