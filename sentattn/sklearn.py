"""A scikit-learn classifier of texts, an extra: `pip install "sentattn[sklearn]"`."""

from __future__ import annotations

import hashlib
import io
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from numbers import Integral, Number
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.preprocessing import LabelEncoder
    from sklearn.utils import check_consistent_length, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise ImportError('sentattn.sklearn needs scikit-learn: type pip install "sentattn[sklearn]".') from error

from sentattn.data.readers.tables import label_name, require_unicode
from sentattn.errors import DataError, Fault
from sentattn.prediction.model import Classifier, as_texts
from sentattn.prediction.prediction import TokenWeights
from sentattn.run import replacing, writing
from sentattn.train import fit

SHARED_CACHE = {"data.cache_dir", "data.vectors", "experiment", "from"}
"""Settings with which there is no temporary cache, since they name one or need its downloads."""
_TRAINING = threading.Lock()
"""Random generators and standard output belong to the process, so only one thread trains."""


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
        output_dir: Folder where the run and a table of its rows are kept; None keeps no file.
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
        output_dir: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.max_epochs = max_epochs
        self.overrides = overrides
        self.random_state = random_state
        self.output_dir = output_dir
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> AttentionClassifier:
        """Trains on a list or series of N texts and their N labels: strings, integers or booleans.

        Raises:
            ValueError: If there is no row or one class, the lengths differ, or the settings are wrong.
        """
        if y is None:
            raise DataError(Fault("y", "missing", "AttentionClassifier requires y to be passed, but y is None."))
        texts = _texts(X)
        check_consistent_length(texts, y)
        check_classification_targets(y)
        encoder = LabelEncoder()
        labels_N = encoder.fit_transform(y)
        if len(encoder.classes_) < 2:
            message = f"y must hold two classes or more, got one class, {encoder.classes_.tolist()[0]!r}."
            raise DataError(Fault("y", "range", message))
        names_C = np.array(_names(encoder.classes_), dtype=object)
        self.classifier_, self.metrics_ = self._train(texts, names_C[labels_N].tolist())
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
        with TemporaryDirectory(prefix="sentattn-") as temporary:
            folder = Path(self.output_dir or temporary)
            settings += [f"output_dir={folder}", f"data.train={_write(folder, texts, names)}"]
            if not self.output_dir and not typed & SHARED_CACHE:
                settings.append(f"data.cache_dir={temporary}/cache")
            with (
                _TRAINING,
                isolate_rng(),
                warnings.catch_warnings(),
                redirect_stdout(sys.stdout if self.verbose else printed),
                redirect_stderr(sys.stderr if self.verbose else printed),
            ):
                run = fit([*settings, *overrides])
                trained = run.classifier, run.metrics
        for line in printed.getvalue().splitlines():
            if line.startswith("warning: "):
                warnings.warn(line.removeprefix("warning: "), stacklevel=3)
        return trained

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the class of each of N texts, (N,)."""
        probabilities_NC = self.predict_proba(X)
        predicted_N: NDArray[Any] = self.classes_[probabilities_NC.argmax(axis=1)]
        return predicted_N

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns the probability of each class for each of N texts, (N, C), in the order of `classes_`."""
        check_is_fitted(self)
        names, counts = _names(self.classes_), self.classifier_.config["class_counts"]
        rows = [one.probabilities or counts for one in self.classifier_.stream(_texts(X))]
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
    """Returns texts as a list; a `DataError` if it has none, more dimensions than one, or other values than texts."""
    if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
        shape = "one text" if isinstance(X, str) else f"the shape {X.shape}"
        message = f"X must be a list or a series of texts, got {shape}: pass [text], or one column as frame[COLUMN]."
        raise DataError(Fault("X", "type", message))
    if not (values := list(X)):
        raise DataError(Fault("X", "missing", "X holds no text: 0 sample(s)."))
    for number, value in enumerate(values, start=1):
        if isinstance(value, Number) and value == value:  # NaN is a missing text
            raise DataError(Fault("X", "type", f"X must hold texts, got {value!r} in row {number}."))
        require_unicode(value, f"X, row {number}")
    return list(as_texts(values))


def _names(classes: NDArray[Any]) -> list[str]:
    """Returns the names of classes in the run; their numbers, where a table would not tell the names apart."""
    names = [label_name(value) for value in classes.tolist()]
    is_unique = len({*filter(None, names)}) == len(names)
    return [str(name) if is_unique else str(i) for i, name in enumerate(names)]


def _write(folder: Path, texts: Sequence[str], names: Sequence[str]) -> Path:
    """Writes rows as a table that is named after its content, and returns its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "label": names}), file)
    path = folder / f"rows-{hashlib.sha256(file.getbuffer()).hexdigest()[:16]}.parquet"
    with writing(folder, "output_dir"):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(file.getbuffer())
    return path
