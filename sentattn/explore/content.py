"""What an explorer shows: models with their predictions, and rows of a data set on which they are wrong or disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.report.summaries import errors, surest
from sentattn.compare.runs import EvaluatedRun, names, read_runs
from sentattn.config.types import Node
from sentattn.data.corpus import Split
from sentattn.data.pieces import PieceTokenizer
from sentattn.errors import Fault, RunError, UserError
from sentattn.insight.diagnostics import GRADIENT_STEPS, integrated_gradients
from sentattn.metrics import Floats, Ints
from sentattn.prediction.model import Classifier, LoadedRun
from sentattn.prediction.prediction import Prediction, visible, word_spans
from sentattn.rendering.html import Attributed
from sentattn.run import MODEL_FOLDER

MOST_MODELS = 8
MOST_TOKENS_OF_PAIRS = 1000
"""Of a longer text no weights from token to token are shown: their number is the square of its length."""
MOST_STEPS = 2 * GRADIENT_STEPS
"""Most points of the integral of integrated gradients: a page that waits shows its error instead."""
ROWS_SHOWN = 20
START = 160
"""Characters of a text that a list shows."""


@dataclass(frozen=True)
class Model:
    """A trained model; its name is the variant, and the settings in which it differs from the other models."""

    name: str
    run: LoadedRun
    classifier: Classifier

    def predict(self, text: str, *, pairs: bool) -> Prediction:
        """Predicts a text; a `DataError` if it has no token."""
        few = len(self.encoded_spans(text)) <= MOST_TOKENS_OF_PAIRS
        return self.classifier.explain(text, pairs=pairs and few)

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end of the words that the page shows: those of tokens, or of pieces joined."""
        spans = self.encoded_spans(text)
        return word_spans(text, spans) if isinstance(self.classifier.tokenizer, PieceTokenizer) else spans

    def encoded_spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end of the tokens that this model reads, in characters."""
        return self.classifier.tokenizer.encode([text])[0].spans

    def integrated_gradients(self, prediction: Prediction) -> Attributed:
        """Returns what each word of a prediction adds to the logit of its label; see `insight.diagnostics`."""
        ids_L = self.classifier.tokenizer.encode([prediction.text])[0].ids
        label = self.classifier.labels.index(str(prediction.label))
        found = integrated_gradients(self.classifier.model, ids_L, label, most_steps=MOST_STEPS)
        [values] = replace(prediction, attention=[found.of_tokens_L.tolist()], pairs=None).in_words().attention
        return Attributed(values, found.change, found.error)

    def edited(self, text: str, token: int, replacement: str = "") -> tuple[str, str]:
        """Returns a text with one of the words that this model reads replaced or, without a replacement, removed.

        The words on both sides of a removed one stay separated by a space.

        Returns:
            The text, and the word that it had before.

        Raises:
            RunError: If there is no such word.
        """
        spans = self.word_spans(text)
        if not 0 <= token < len(spans):
            message = f"{self.name} reads {len(spans)} tokens of this text; there is no token {token}."
            raise RunError(Fault("token", "range", message))
        start, end = spans[token]
        before, after = text[:start] + replacement, text[end:]
        if replacement:
            return before + after, text[start:end]
        if not before or before[-1].isspace():
            after = after[1:] if after[:1].isspace() else after
        elif after and not after[0].isspace():
            before += " "
        return (before + after if after else before.rstrip()), text[start:end]


def load_models(paths: Sequence[Path], *, trust: bool = False) -> tuple[list[Model], list[Fault]]:
    """Loads the first run of each setting below some folders; trials of sweeps only where their directory is given.

    Returns at most `MOST_MODELS` models, the most accurate in validation first, and an error for each run that is left
    out; a `RunError` if none is left.
    """

    def accuracy(runs: Sequence[EvaluatedRun]) -> float:
        return float(runs[0].result.get("metrics", {}).get("val/accuracy", 0))

    found, faults = read_runs(paths, split=None)
    by_setting: dict[str, list[EvaluatedRun]] = {}
    for evaluated in found:
        if (evaluated.path / MODEL_FOLDER).is_dir():  # a reference has no model to show
            by_setting.setdefault(evaluated.setting, []).append(evaluated)
    loaded: list[tuple[Node, LoadedRun]] = []
    for number, runs in enumerate(sorted(by_setting.values(), key=accuracy, reverse=True)):
        if len(loaded) == MOST_MODELS:
            left_out = f"{len(by_setting) - number} more settings are left out: the explorer shows {MOST_MODELS}"
            faults.append(Fault("runs", "range", f"{left_out}; name fewer folders."))
            break
        for evaluated in runs:
            run = LoadedRun(evaluated.path, trust=trust)
            try:
                _ = run.classifier
            except UserError as error:
                faults += error.faults
            else:
                loaded.append((evaluated.settings, run))
                break
    if not loaded:
        raise RunError(*faults, Fault("runs", "not_found", "No finished run with a model is left."))
    titles = names([settings for settings, _ in loaded])
    return [Model(title, run, run.classifier) for title, (_, run) in zip(titles, loaded, strict=True)], faults


class Filter(BaseModel):
    """Which rows are listed: of a class or all, and from where.

    The order `errors` lists wrong predictions of a model, by its number among those with predictions, `disagreement`
    different predictions of two models, each the surest first; `rows` all rows.
    """

    order: Literal["errors", "disagreement", "rows"] = "errors"
    model: int = 0
    label: str | None = None
    start: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class Rows:
    """The rows of a split, their texts, and the predictions of A models with numbers in the explorer."""

    data: str
    names: Sequence[str]
    texts: Split
    labels_N: Ints
    lengths_N: Ints
    models: Sequence[int]
    probabilities_ANC: Floats

    def chosen(self, wanted: Filter) -> Ints:
        """Returns the numbers of the rows of a filter, in its order."""
        score_N = np.ones(len(self.labels_N))
        if wanted.order == "errors":
            score_N = errors(self.probabilities_ANC[wanted.model], self.labels_N)
        elif wanted.order == "disagreement":
            score_N = -np.sort(-surest(self.probabilities_ANC)[0], axis=0)[1]
        keep_N = score_N > 0
        if wanted.label is not None:
            keep_N &= self.labels_N == (self.names.index(wanted.label) if wanted.label in self.names else -1)
        order_N = np.argsort(-score_N, kind="stable")
        return order_N[keep_N[order_N]]

    def summary(self, row: int) -> dict[str, object]:
        """Returns the entry of a row in a list."""
        text, best_A = self.texts.texts(row), self.probabilities_ANC[:, row].argmax(axis=1)
        return {
            "row": row,
            "start": visible(text if len(text) <= START else f"{text[:START]}\u2026"),
            "label": self.names[self.labels_N[row]],
            "tokens": int(self.lengths_N[row]),
            "predicted": [
                {"model": model, "label": self.names[c], "probability": float(self.probabilities_ANC[a, row, c])}
                for a, (model, c) in enumerate(zip(self.models, best_A, strict=True))
            ],
        }


def read_rows(models: Sequence[Model], split: str) -> tuple[Rows | None, list[Fault]]:
    """Reads the texts and the predictions of the models' runs on them, of the rows that most of the models share.

    None, and why, where no run has predictions or the texts cannot be read.
    """
    numbers = {model.run.path: number for number, model in enumerate(models)}
    try:
        comparisons, faults = read_comparisons(list(numbers), split=split)
        comparison = comparisons[0]
        _, texts = comparison.read_texts()
    except UserError as error:
        return None, list(error.faults)
    runs = {numbers[setting.runs[0].path]: setting.runs[0] for setting in comparison.settings}
    shown = sorted(runs)
    rows = Rows(
        data=comparison.data,
        names=models[shown[0]].classifier.labels,
        texts=texts,
        labels_N=comparison.rows.labels_N,
        lengths_N=comparison.rows.lengths_N,
        models=shown,
        probabilities_ANC=np.stack([runs[number].probabilities_NC for number in shown]),
    )
    return rows, faults
