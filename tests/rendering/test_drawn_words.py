"""Predictions over pieces are drawn by whole words; JSON keeps the pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from example_predictions import pieces

from sentattn.prediction.prediction import Prediction, Predictions
from sentattn.rendering.html import article, page, shaded_pieces
from sentattn.rendering.png import picture
from sentattn.rendering.terminal import render

DRAWN: dict[str, Callable[[Prediction], object]] = {
    "terminal": lambda prediction: render(prediction, color=True, width=80),
    "picture": lambda prediction: picture([prediction]),
    "page": lambda prediction: page([prediction]),
    "article": article,
    "example of a report": shaded_pieces,
    "notebook": lambda prediction: prediction._repr_html_(),
    "notebook, several": lambda prediction: Predictions([prediction])._repr_html_(),
}


@pytest.mark.parametrize("place", DRAWN)
def test_words_are_drawn(place: str) -> None:
    assert DRAWN[place](pieces()) == DRAWN[place](pieces().in_words())


def test_json_keeps_pieces() -> None:
    record = pieces().to_json()
    assert record["tokens"] == ["[CLS]", "play", "ing", "not", "!", "12", "[SEP]"]
    assert "are_pieces" not in record
