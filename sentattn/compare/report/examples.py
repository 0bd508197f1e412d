"""Texts on which settings disagree, or a run is wrong, with the attention of the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sentattn.compare.settings import Setting
from sentattn.data.corpus import Split
from sentattn.errors import UserError
from sentattn.metrics import Floats, Ints
from sentattn.prediction.model import LoadedRun
from sentattn.prediction.prediction import Piece, Prediction
from sentattn.rendering.html import shaded_pieces
from sentattn.run import MODEL

MOST = 5


class Choice(NamedTuple):
    """A row, and the places in the leaderboard of the settings whose attention is shown."""

    row: int
    ranks: tuple[int, ...]


class Side(NamedTuple):
    """The prediction of a setting for a text; the pieces are those of the heat map."""

    name: str
    label: str
    probability: float
    pieces: Sequence[tuple[Piece, float | None, bool]]


class Example(NamedTuple):
    """A text with its label, and the predictions of some models."""

    label: str
    sides: Sequence[Side]


def disagreements(settings: Sequence[Setting], most: int = MOST) -> list[Choice]:
    """Returns the rows on which two settings are surest of different classes, with these two.

    The first run of each setting counts. A row is ranked by the lower of their two probabilities.
    """
    trained = _trained(settings)
    if len(trained) < 2:
        return []
    surest_CN, best_CN = surest(np.stack([settings[rank].runs[0].probabilities_NC for rank in trained]))
    order_CN = np.argsort(-surest_CN, axis=0, kind="stable")
    together_N = np.take_along_axis(surest_CN, order_CN[1:2], axis=0)[0]
    rows = [int(row) for row in np.argsort(-together_N, kind="stable")[:most] if together_N[row] > 0]
    return [Choice(row, tuple(sorted(trained[best_CN[c, row]] for c in order_CN[:2, row]))) for row in rows]


def surest(probabilities_ANC: Floats) -> tuple[Floats, Ints]:
    """Returns for each class the highest probability with which a model predicts it, and that model, (C, N) each.

    The probability is 0 where no model predicts the class.
    """
    predicted_AN, confidence_AN = probabilities_ANC.argmax(axis=2), probabilities_ANC.max(axis=2)
    classes = range(probabilities_ANC.shape[2])
    of_class_CAN = np.stack([np.where(predicted_AN == c, confidence_AN, 0) for c in classes])
    return of_class_CAN.max(axis=1), of_class_CAN.argmax(axis=1)


def worst_errors(settings: Sequence[Setting], labels_N: Ints, most: int = MOST) -> list[Choice]:
    """Returns the rows of whose wrong class the best setting is surest; none where it has no model."""
    if 0 not in _trained(settings):
        return []
    probabilities_NC = settings[0].runs[0].probabilities_NC
    wrong_N = np.where(probabilities_NC.argmax(axis=1) != labels_N, probabilities_NC.max(axis=1), 0)
    return [Choice(int(row), (0,)) for row in np.argsort(-wrong_N, kind="stable")[:most] if wrong_N[row] > 0]


def examples(
    choices: Sequence[Choice], settings: Sequence[Setting], texts: Split, labels_N: Ints, names: Sequence[str]
) -> tuple[list[Example], list[str]]:
    """Predicts the chosen rows with their models, each loaded once.

    Returns:
        The examples, and a message for each model that cannot be loaded.
    """
    predictions: dict[tuple[int, int], Prediction] = {}
    messages = []
    for rank in sorted({rank for choice in choices for rank in choice.ranks}):
        rows = [choice.row for choice in choices if rank in choice.ranks]
        try:
            run = settings[rank].runs[0].run
            predicted = LoadedRun(run.path, trust=run.trust).predict([texts.texts(row) for row in rows])
        except UserError as error:
            messages.append(str(error))
            continue
        predictions.update(zip(((rank, row) for row in rows), predicted, strict=True))
    shown: list[Example] = []
    for row, ranks in choices:
        sides = [
            Side(settings[rank].name, prediction.name, prediction.share, shaded_pieces(prediction))
            for rank in ranks
            if (prediction := predictions.get((rank, row)))
        ]
        if sides:
            shown.append(Example(names[labels_N[row]], sides))
    return shown, messages


def _trained(settings: Sequence[Setting]) -> list[int]:
    """The indices of the settings whose first run has a model."""
    return [rank for rank, setting in enumerate(settings) if (setting.runs[0].path / MODEL).is_dir()]
