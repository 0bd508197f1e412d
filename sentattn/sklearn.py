"""A scikit-learn classifier of texts, an extra: `pip install "sentattn[sklearn]"`."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from numbers import Integral
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.preprocessing import LabelEncoder
    from sklearn.utils import check_array, check_consistent_length, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise ImportError('sentattn.sklearn needs scikit-learn: type pip install "sentattn[sklearn]".') from error

from sentattn.data.readers.tables import label_name
from sentattn.errors import DataError, Fault
from sentattn.prediction.frames import as_texts
from sentattn.prediction.model import Classifier
from sentattn.prediction.prediction import TokenWeights
from sentattn.train import fit

SHARED_CACHE = {"data.cache_dir", "data.vectors", "experiment", "from"}
"""Settings with which there is no temporary cache, since they name one or need its downloads."""


class AttentionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Trains as `python -m sentattn.train` does, on texts and labels in memory, and tests on no rows.

    A tenth of the rows is set aside for validation, and the best epoch by it is kept. A text without a word is not
    trained on; its probabilities are the shares of the classes in the training rows. A pickle holds the trained model,
    save for a frozen pretrained encoder. Loading a pickle can run any code, so load only your own.

    Args:
        model: A variant, such as `structured` or `mean`; `python -m sentattn.list models` shows them.
        max_epochs: Passes over the training rows.
        overrides: Other settings of a training, such as `["model.attention.hops=8", "data.max_length=200"]`.
        random_state: Seed of the weights and of the order of the rows.
        verbose: Whether to print the progress.

    Attributes:
        classes_: The labels, sorted, with the type that they have in `y`.
        metrics_: Metrics of the best epoch, such as `metrics_["val/accuracy"]`.
        classifier_: The model with its tokenizer; a notebook shows `classifier_.explain(text)` as a shaded text.
    """

    def __init__(
        self,
        model: str = "structured",
        *,
        max_epochs: int = 4,
        overrides: str | Sequence[str] = (),
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.max_epochs = max_epochs
        self.overrides = overrides
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> AttentionClassifier:
        """Trains on a list or series of N texts and their N labels: strings, integers or booleans.

        Raises:
            ValueError: If there is no row or one class, the lengths differ, or the settings are wrong.
        """
        texts = _texts(X)
        check_classification_targets(y)
        check_consistent_length(texts, y)
        encoder = LabelEncoder()
        labels_N = encoder.fit_transform(y)
        if len(encoder.classes_) < 2:
            raise DataError(Fault("y", "range", f"y must hold two classes or more, got one class: {encoder.classes_}."))
        names = _names(encoder.classes_)
        self.classifier_, self.metrics_ = self._train(texts, [names[label] for label in labels_N])
        self.classes_ = encoder.classes_
        return self

    def _train(self, texts: Sequence[str], names: Sequence[str]) -> tuple[Classifier, dict[str, float]]:
        """Trains on texts and the names of their classes; returns the model and the metrics of its best epoch."""
        from pytorch_lightning.utilities.seed import isolate_rng

        overrides = [self.overrides] if isinstance(self.overrides, str) else [*self.overrides]
        typed = {word.partition("=")[0] for word in overrides}
        seed = self.random_state
        seed = seed if isinstance(seed, Integral) else check_random_state(seed).randint(2**31)
        settings = [f"model={self.model}", f"trainer.max_epochs={self.max_epochs}", f"seed={seed}", "data=table"]
        settings += ["data.test_size=0", "test=false", *(["logger=none"] if "logger" not in typed else [])]
        printed = io.StringIO()
        with (
            TemporaryDirectory(prefix="sentattn-") as folder,
            isolate_rng(),
            warnings.catch_warnings(record=not self.verbose) as caught,
            redirect_stdout(sys.stdout if self.verbose else printed),
            redirect_stderr(sys.stderr if self.verbose else printed),
        ):
            settings += [f"output_dir={folder}"]
            settings += [] if typed & SHARED_CACHE else [f"data.cache_dir={folder}/cache"]
            run = fit([*settings, *overrides], data={"text": texts, "label": names})
            trained = run.classifier, run.metrics
        for warning in caught or ():
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        for line in printed.getvalue().splitlines():
            if line.startswith("warning: "):
                warnings.warn(line.removeprefix("warning: "), stacklevel=3)
        return trained

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the class of each of N texts, (N,)."""
        best_N = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best_N])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns the probability of each class for each of N texts, (N, C), in the order of `classes_`."""
        check_is_fitted(self)
        names, counts = _names(self.classes_), self.classifier_.config["class_counts"]
        rows = [prediction.probabilities or counts for prediction in self.classifier_.stream(_texts(X))]
        shares_NC: NDArray[np.float64] = np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
        shares_NC /= shares_NC.sum(axis=1, keepdims=True)
        return shares_NC

    def attention(self, X: Any) -> list[TokenWeights]:
        """Returns for each text its L tokens and their weights, (R, L) with a row for each of R hops."""
        check_is_fitted(self)
        return self.classifier_.attention(_texts(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        return tags


def _texts(X: Any) -> list[str]:
    """Returns texts as a list; a ValueError or TypeError if there is none, or they are no list or series of texts."""
    if (shape := getattr(X, "shape", (1,))) and len(shape) != 1:
        message = f"X must be a list or a series of texts, got the shape {shape}: pass one column as frame[COLUMN]."
        raise DataError(Fault("X", "type", message))
    return list(as_texts(check_array(X, dtype=object, ensure_2d=False, ensure_all_finite=False, input_name="X")))


def _names(classes: NDArray[Any]) -> list[str]:
    """Returns the names of classes in the run; their numbers, where a table would not distinguish the names."""
    names = [label_name(value) for value in classes.tolist()]
    is_unique = len({*filter(None, names)}) == len(names)
    return [str(name) if is_unique else str(i) for i, name in enumerate(names)]
