"""A label says the variant and every part that differs from it."""

from __future__ import annotations

from typing import Any

import pytest

from sentattn.config.compose import compose
from sentattn.config.groups import Choices
from sentattn.config.label import label, slots


@pytest.mark.parametrize("name", Choices.of().names("model"))
def test_a_variant_as_it_is_has_its_name_alone(name: str) -> None:
    assert label(compose([f"model={name}"])) == name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["model/attention=max"], "structured, attention=max"),
        (["model=feedforward", "model/encoder=cnn"], "feedforward, encoder=cnn"),
        (["model=mean", "model/embedding=ngrams"], "mean, embedding=ngrams"),
        (
            ["model/attention=feedforward", "model/encoder=lstm", "model/pooling=mean"],
            "structured, encoder=lstm, attention=feedforward, pooling=mean",
        ),
        (["model.attention.hops=8", "model.embedding.size=20"], "structured"),
    ],
)
def test_each_exchanged_part_is_named(words: list[str], expected: str) -> None:
    assert label(compose(words)) == expected


def test_a_part_of_a_users_own_is_called_by_its_class() -> None:
    settings = compose([])
    settings["model"]["attention"] = {"_target_": "my.folder.Query", "hops": 2}
    assert label(settings) == "structured, attention=Query"
    assert slots(settings)["attention"] == "Query"


def test_a_variant_of_a_users_own_has_its_name() -> None:
    settings = compose(["model/attention=max"])
    settings["model"]["name"] = "mine"
    assert label(settings) == "mine"


@pytest.mark.parametrize("settings", [{}, {"model": 3}, {"model": {}}, {"model": None}])
def test_settings_without_a_model_have_no_name(settings: dict[str, Any]) -> None:
    assert label(settings) == "?"


def test_the_parts_of_a_variant() -> None:
    assert slots(compose(["model=cnn"])) == {
        "embedding": "words",
        "encoder": "cnn",
        "attention": "max",
        "pooling": "flatten",
    }
