"""Linear models over n-grams, fitted on the rows of a comparison: what an attention has to beat."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sentattn.compare.metrics import Ints, correct, estimates
from sentattn.compare.runs import Comparison, comparisons
from sentattn.compare.statistics import Floats
from sentattn.compare.texts import read_texts
from sentattn.config.compose import setting_hash
from sentattn.errors import Fault, RunError
from sentattn.run import RESULT, Run, create

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Inverse strengths C of the penalty; the best on validation rows is taken."""
MIN_COUNT = 2
SMOOTHING = 1.0


@dataclass(frozen=True)
class Reference:
    """A linear model over n-grams.

    Attributes:
        ngrams: Longest n-gram in words.
        fit: Turns training features and labels into a function from features to probabilities, for a C.
    """

    ngrams: int
    vectorizer: Callable[..., Any]
    fit: Callable[[Any, Ints, int, float], Callable[[Any], Floats]]


def _logistic_regression(features: Any, labels_N: Ints, classes: int, c: float) -> Callable[[Any], Floats]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=c, max_iter=200).fit(features, labels_N)

    def probabilities(other: Any) -> Floats:
        result = np.zeros((other.shape[0], classes))
        result[:, model.classes_] = model.predict_proba(other)
        return result

    return probabilities


def _nbsvm(features: Any, labels_N: Ints, classes: int, c: float) -> Callable[[Any], Floats]:
    """Logistic regression over binary counts scaled by log-count ratios (Wang and Manning 2012, section 2).

    r = log((p / |p|) / (q / |q|)), p and q the smoothed counts of each n-gram in the rows of a class and in all others.
    With more than two classes one model for each, whose probabilities are normalised.
    """
    models = []
    for label in range(1, 2) if classes == 2 else range(classes):
        inside = labels_N == label
        p, q = (SMOOTHING + np.asarray(features[rows].sum(axis=0)).ravel() for rows in (inside, ~inside))
        ratio = np.log(p / p.sum()) - np.log(q / q.sum())
        models.append((ratio, _logistic_regression(features.multiply(ratio).tocsr(), inside.astype(np.int64), 2, c)))

    def probabilities(other: Any) -> Floats:
        positive = np.stack([model(other.multiply(ratio).tocsr())[:, 1] for ratio, model in models], axis=1)
        scores = np.concatenate([1 - positive, positive], axis=1) if classes == 2 else positive
        normalized: Floats = scores / scores.sum(axis=1, keepdims=True)
        return normalized

    return probabilities


def _tfidf_vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, **options)


def _binary_vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(binary=True, dtype=np.float64, **options)


REFERENCES: Mapping[str, Reference] = {
    "tfidf": Reference(2, _tfidf_vectorizer, _logistic_regression),
    "nbsvm": Reference(3, _binary_vectorizer, _nbsvm),
}


def add_references(names: list[str], comparison: Comparison, folder: Path) -> Comparison:
    """Fits references that have no run yet on the rows of a comparison, and adds them to it.

    Each is fitted on the training rows, its C chosen on the validation rows, and its predictions are stored as a run.

    Args:
        names: Of `REFERENCES`.
        comparison: Settings with the same rows.
        folder: Where runs are written, such as `outputs`.

    Raises:
        RunError: If the texts cannot be read again, or scikit-learn is missing.
    """
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        message = 'reference= needs scikit-learn: pip install "sentattn[report]".'
        raise RunError(Fault("reference", "package", message)) from error
    found = _with_stored(names, comparison, folder)
    if missing := [name for name in names if name not in {one.name for one in found.settings}]:
        data = read_texts(comparison)
        for name in missing:
            print(f"{name}: {_fit(name, data, comparison, folder)}")
    return _with_stored(names, comparison, folder)


def _with_stored(names: list[str], comparison: Comparison, folder: Path) -> Comparison:
    """Adds references that were fitted earlier on the same rows."""
    trained = [run.run.path for one in comparison.settings for run in one.runs]
    stored = [file.parent for name in names for file in (folder / comparison.data / name).glob(f"*/{RESULT}")]
    found, _ = comparisons([*trained, *stored], split=comparison.split)
    return next(one for one in found if one.rows.key == comparison.rows.key)


def _fit(name: str, data: TextData, comparison: Comparison, folder: Path) -> Path:
    reference, classes = REFERENCES[name], len(data.labels)
    started = time.perf_counter()
    texts = {split: _words(data, split) for split in ("train", "val", "test")}
    labels = {split: data.split(split).labels for split in texts}
    options = {"token_pattern": r"\S+", "lowercase": False, "min_df": MIN_COUNT}
    vectorizer = reference.vectorizer(ngram_range=(1, reference.ngrams), **options)
    features = {
        split: (vectorizer.transform if split != "train" else vectorizer.fit_transform)(texts[split]) for split in texts
    }
    models = {c: reference.fit(features["train"], labels["train"], classes, c) for c in GRID}
    c = max(GRID, key=lambda c: correct(models[c](features["val"]), labels["val"]).mean())
    seconds = time.perf_counter() - started
    predictions = {split: (data.split(split), models[c](features[split])) for split in ("val", "test")}
    return _write(name, c, predictions, comparison, folder, parameters=features["train"].shape[1], seconds=seconds)


def _words(data: TextData, split: str) -> list[str]:
    """All tokens of each text as the models read them, with a space between two; nothing is clipped."""
    from sentattn.data.text import Tokenizer

    rows = data.split(split)
    tokenizer = Tokenizer(data.tokenizer.words, lowercase=data.lowercase, rules=data.rules)
    encoded = tokenizer.encode([rows.texts(i) for i in range(len(rows))])
    return [" ".join(one.tokens).lower() if data.lowercase else " ".join(one.tokens) for one in encoded]


def _write(
    name: str,
    c: float,
    predictions: Mapping[str, Any],
    comparison: Comparison,
    folder: Path,
    *,
    parameters: int,
    seconds: float,
) -> Path:
    """Writes predictions and metrics as the directory of a finished run."""
    first = comparison.settings[0].runs[0]
    model = {"name": name, "ngrams": REFERENCES[name].ngrams, "min_count": MIN_COUNT, "c": c}
    settings = {"model": model, "data": first.settings["data"], "seed": 0, "output_dir": str(folder)}
    run = create(settings)
    run.write_predictions(predictions)
    metrics = {
        f"{split}/{metric}": estimate.value
        for split, (rows, probabilities) in predictions.items()
        for metric, estimate in estimates(probabilities[None], rows.labels, None, ordered=comparison.ordered).items()
    }
    result = {
        "status": "finished",
        "setting": setting_hash(settings),
        "study": None,
        "model": name,
        "data": comparison.data,
        "seed": 0,
        "deterministic": True,
        "metrics": metrics,
        "parameters": {"total": parameters},
        "seconds": {"train": seconds, "total": seconds},
        "data_fingerprint": first.result["data_fingerprint"],
    }
    Run(run.path).write_result(json.loads(json.dumps(result)))
    return run.path
