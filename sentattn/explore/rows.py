"""The rows of a data set with the models' predictions: the errors of one model, and where models disagree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.report.examples import surest
from sentattn.compare.report.slices import NEGATION
from sentattn.compare.statistics import Floats
from sentattn.compare.texts import evaluated_texts
from sentattn.data.corpus import Split
from sentattn.errors import Fault, UserError
from sentattn.explore.models import Model
from sentattn.metrics import Ints
from sentattn.prediction.prediction import visible

Order: TypeAlias = Literal["errors", "disagreement", "rows"]
PAGE = 20
START = 160
"""Characters of a text that a list shows."""


@dataclass(frozen=True)
class Filter:
    """Which rows are listed, and in which order.

    Attributes:
        order: `errors` lists wrong predictions of a model, `disagreement` different predictions of two models, each
            the surest first; `rows` all rows.
        model: Number of the model whose errors are listed, among those with predictions.
        label: Only rows of this class.
        stars: Only rows of this many stars.
        negation: True for texts with a negation, False for texts without.
        shortest: Fewest tokens.
        longest: Most tokens.
    """

    order: Order = "errors"
    model: int = 0
    label: str | None = None
    stars: int | None = None
    negation: bool | None = None
    shortest: int = 0
    longest: int | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of a split, A models' predictions of them, and their texts.

    Attributes:
        data: Name of the data set.
        names: Names of the classes.
        texts: The texts.
        labels_N: Numbers of the true classes.
        lengths_N: Numbers of tokens.
        read_stars: Reads the number of stars of each row, None where the data has none; it takes seconds.
        models: Numbers of the models in the explorer.
        probabilities_ANC: Their probabilities.
    """

    data: str
    names: Sequence[str]
    texts: Split
    labels_N: Ints
    lengths_N: Ints
    read_stars: Callable[[], Ints | None]
    models: Sequence[int]
    probabilities_ANC: Floats

    @cached_property
    def stars_N(self) -> Ints | None:  # noqa: N802
        """Stars, where the data has them."""
        return self.read_stars()

    @cached_property
    def negated(self) -> NDArray[np.bool_]:
        """Whether a text has one of the words of negation."""
        return np.array([NEGATION.search(self.texts.texts(row)) is not None for row in range(len(self.labels_N))])

    def chosen(self, wanted: Filter) -> Ints:
        """Returns the numbers of the rows of a filter, in its order."""
        keep_N = self.lengths_N >= wanted.shortest
        if wanted.longest is not None:
            keep_N &= self.lengths_N <= wanted.longest
        if wanted.label is not None:
            keep_N &= self.labels_N == (self.names.index(wanted.label) if wanted.label in self.names else -1)
        if wanted.stars is not None:
            keep_N &= False if self.stars_N is None else self.stars_N == wanted.stars
        score_N = np.ones(len(self.labels_N))
        if wanted.order == "errors":
            probabilities_NC = self.probabilities_ANC[wanted.model]
            wrong_N = probabilities_NC.argmax(axis=1) != self.labels_N
            score_N = np.where(wrong_N, probabilities_NC.max(axis=1), 0)
        elif wanted.order == "disagreement":
            score_N = -np.sort(-surest(self.probabilities_ANC)[0], axis=0)[1]
        keep_N &= score_N > 0
        if wanted.negation is not None:
            keep_N &= self.negated == wanted.negation
        order_N = np.argsort(-score_N, kind="stable")
        return order_N[keep_N[order_N]]

    def summary(self, row: int) -> dict[str, Any]:
        """Returns the entry of a row in a list."""
        best_A = self.probabilities_ANC[:, row].argmax(axis=1)
        return {
            "row": row,
            "start": shorten(self.texts.texts(row)),
            "label": self.names[self.labels_N[row]],
            "tokens": int(self.lengths_N[row]),
            "stars": None if self.stars_N is None else int(self.stars_N[row]),
            "predicted": [
                {"model": model, "label": self.names[c], "probability": float(self.probabilities_ANC[a, row, c])}
                for a, (model, c) in enumerate(zip(self.models, best_A, strict=True))
            ],
        }


def shorten(text: str) -> str:
    """Returns the start of a text as a list shows it."""
    return visible(text if len(text) <= START else f"{text[:START]}\u2026")


def read_rows(models: Sequence[Model], split: str) -> tuple[Rows | None, list[Fault]]:
    """Reads the predictions of the models' runs, and the texts.

    Of models that were evaluated on different rows, those with the rows that most of them share are listed.

    Returns:
        The rows, or None where no run has predictions or the texts cannot be read, and why.
    """
    numbers = {model.run.path: number for number, model in enumerate(models)}
    try:
        comparisons, faults = read_comparisons(list(numbers), split=split)
        comparison = comparisons[0]
        data, texts = evaluated_texts(comparison)
    except UserError as error:
        return None, list(error.faults)
    runs = sorted((setting.runs[0] for setting in comparison.settings), key=lambda run: numbers[run.run.path])
    rows = Rows(
        data=comparison.data,
        names=models[numbers[runs[0].run.path]].classifier.labels,
        texts=texts,
        labels_N=comparison.rows.labels_N,
        lengths_N=comparison.rows.lengths_N,
        read_stars=partial(data.stars, split),
        models=[numbers[run.run.path] for run in runs],
        probabilities_ANC=np.stack([run.probabilities_NC for run in runs]),
    )
    return rows, faults
