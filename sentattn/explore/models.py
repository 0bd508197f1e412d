"""The models of an explorer, and their predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentattn.compare.folders import run_folders
from sentattn.compare.names import names
from sentattn.config.targets import current
from sentattn.errors import Fault, RunError, UserError
from sentattn.models.attention.uniform import Uniform
from sentattn.prediction.model import Classifier, LoadedRun
from sentattn.prediction.prediction import Prediction
from sentattn.run import MODEL

MOST_MODELS = 8
MOST_TOKENS_OF_PAIRS = 1000
"""Of a longer text no weights from token to token are shown: their number is the square of its length."""


@dataclass(frozen=True)
class Model:
    """A trained model.

    Attributes:
        name: The variant, and the settings in which it differs from the other models.
        run: Its run.
        classifier: The model, loaded.
    """

    name: str
    run: LoadedRun
    classifier: Classifier

    def predict(self, text: str, *, pairs: bool) -> Prediction:
        """Predicts a text; a `DataError` if it has no token."""
        few = len(self.encoded_spans(text)) <= MOST_TOKENS_OF_PAIRS
        return self.classifier.explain(text, pairs=pairs and few)

    @property
    def is_uniform(self) -> bool:
        """Whether every token of a text has the same weight by construction."""
        return isinstance(self.classifier.model.attention, Uniform)

    def encoded_spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end of the tokens that this model reads, in characters."""
        return self.classifier.tokenizer.encode([text])[0].spans

    def without(self, text: str, token: int) -> tuple[str, str]:
        """Returns a text without one of the tokens that this model reads, and the token.

        The words on both sides stay separated by a space.

        Raises:
            RunError: If there is no such token.
        """
        spans = self.encoded_spans(text)
        if not 0 <= token < len(spans):
            message = f"{self.name} reads {len(spans)} tokens of this text; there is no token {token}."
            raise RunError(Fault("token", "range", message))
        start, end = spans[token]
        before, after = text[:start], text[end:]
        if not before or before[-1].isspace():
            after = after[1:] if after[:1].isspace() else after
        elif after and not after[0].isspace():
            before += " "
        return (before + after if after else before.rstrip()), text[start:end]


def load_models(paths: Sequence[Path], *, trust: bool = False) -> tuple[list[Model], list[Fault]]:
    """Loads the first run of each setting below some folders; trials of sweeps only where their directory is given.

    Returns:
        The models, at most `MOST_MODELS`, and a fault for each run that is left out.

    Raises:
        RunError: If none is left.
    """
    faults: list[Fault] = []
    loaded: dict[str, tuple[LoadedRun, dict[str, Any], Classifier]] = {}
    left_out = 0
    runs = {path.resolve(): path for folder in paths for path in run_folders(folder, faults, {})}
    for path in runs.values():
        run = LoadedRun(path, trust=trust)
        try:
            setting = str(run.result.get("setting", path))
            if run.is_trial and path not in paths:
                continue
            if setting in loaded or not (path / MODEL).is_dir():  # a reference has no model to show
                continue
            if len(loaded) == MOST_MODELS:
                left_out += 1
                continue
            loaded[setting] = run, current(run.settings), run.classifier
        except UserError as error:
            faults += error.faults
    if left_out:
        message = f"{left_out} more runs are left out: the explorer shows {MOST_MODELS} settings; name fewer folders."
        faults.append(Fault("runs", "range", message))
    if not loaded:
        raise RunError(*faults, Fault("runs", "not_found", "No finished run with a model is left."))
    titles = names([settings for _, settings, _ in loaded.values()])
    models = [
        Model(title, run, classifier) for title, (run, _, classifier) in zip(titles, loaded.values(), strict=True)
    ]
    return models, faults
