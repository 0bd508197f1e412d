"""Linear models over n-grams, as functions from texts to probabilities.

A text is its tokens with a space between two. Shapes: N texts, F n-grams, C classes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sentattn.compare.statistics import Floats
from sentattn.errors import Fault, RunError
from sentattn.metrics import Ints

Texts: TypeAlias = Sequence[str]
Predictor: TypeAlias = Callable[[Texts], Floats]
"""Texts to the probability of each class, (N, C)."""

MIN_COUNT = 2
SMOOTHING = 1.0
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
RATES = (0.05, 0.1, 0.25, 0.5, 1.0)
LABEL = "\ue000label"
"""Begins a label in the file that fastText reads; no token begins with it."""
VECTOR, EPOCHS = 10, 5


@dataclass(frozen=True)
class Fitting:
    """Texts and labels that a reference is fitted on.

    Attributes:
        parameters: Number of parameters of a fitted model.
        fit: Fits a model with a value of the setting that is chosen, and a seed.
    """

    parameters: int
    fit: Callable[[float, int], Predictor]


@dataclass(frozen=True)
class Reference:
    """A kind of linear model.

    Attributes:
        ngrams: Longest n-gram in words.
        chosen: The setting that is chosen on validation rows.
        values: Its values.
        seeds: Number of trainings, one where all are equal.
        start: Takes training texts, their labels and the number of classes.
    """

    ngrams: int
    chosen: str
    values: tuple[float, ...]
    seeds: int
    start: Callable[[Texts, Ints, int], Fitting]


def start_tfidf(texts: Texts, labels_N: Ints, classes: int) -> Fitting:
    """TF-IDF of 1 and 2 words with logistic regression; the penalty's inverse strength C is chosen."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, **_vectorizer(2))
    features_NF = vectorizer.fit_transform(texts)

    def fit(c: float, seed: int) -> Predictor:
        model = _logistic_regression(features_NF, labels_N, classes, c)
        return lambda others: model(vectorizer.transform(others))

    return Fitting(features_NF.shape[1], fit)


def start_nbsvm(texts: Texts, labels_N: Ints, classes: int) -> Fitting:
    """Logistic regression over binary counts of 1 to 3 words, scaled by log-count ratios (Wang and Manning 2012).

    Section 2: r = log((p / |p|) / (q / |q|)), p and q the smoothed counts of each n-gram in the texts of a class and in
    all others. With more than two classes one model for each, whose probabilities are normalised.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(binary=True, dtype=np.float64, **_vectorizer(3))
    counts_NF = vectorizer.fit_transform(texts)
    modelled = range(classes) if classes > 2 else (1,)
    ratios = [log_count_ratio(counts_NF, labels_N == label) for label in modelled]

    def fit(c: float, seed: int) -> Predictor:
        models = [
            _logistic_regression(counts_NF.multiply(ratio_F).tocsr(), (labels_N == label).astype(np.int64), 2, c)
            for label, ratio_F in zip(modelled, ratios, strict=True)
        ]

        def predict(others: Texts) -> Floats:
            counts = vectorizer.transform(others)
            pairs = zip(models, ratios, strict=True)
            positive = np.stack([model(counts.multiply(ratio_F).tocsr())[:, 1] for model, ratio_F in pairs], axis=1)
            scores_NC = positive if classes > 2 else np.concatenate([1 - positive, positive], axis=1)
            normalized: Floats = scores_NC / scores_NC.sum(axis=1, keepdims=True)
            return normalized

        return predict

    return Fitting(counts_NF.shape[1] * len(ratios), fit)


def log_count_ratio(counts_NF: Any, inside_N: np.ndarray) -> Floats:
    """Returns the log-count ratio of each n-gram between the texts of a class and all others."""
    p, q = (SMOOTHING + np.asarray(counts_NF[rows].sum(axis=0)).ravel() for rows in (inside_N, ~inside_N))
    ratio_F: Floats = np.log(p / p.sum()) - np.log(q / q.sum())
    return ratio_F


def start_fasttext(texts: Texts, labels_N: Ints, classes: int) -> Fitting:
    """FastText's classifier (Joulin et al. 2016): the mean of vectors of 1 and 2 words; the learning rate is chosen.

    The predictor raises a RunError where probabilities do not add up to 1: fasttext-wheel 0.9.2, built with pybind11
    3.1, repeats the largest for each class.
    """
    import fasttext

    words = len({word for text in texts for word in text.split()})
    buckets = 2_000_000

    def fit(rate: float, seed: int) -> Predictor:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.txt"
            order = np.random.default_rng(seed).permutation(len(texts))  # fastText reads the file from top to bottom
            lines = (f"{LABEL}{labels_N[i]} {texts[i].replace(LABEL, '')}\n" for i in order)
            file.write_text("".join(lines), encoding="utf-8")
            model = fasttext.train_supervised(
                input=str(file),
                label=LABEL,
                lr=rate,
                epoch=EPOCHS,
                dim=VECTOR,
                wordNgrams=2,
                minCount=MIN_COUNT,
                bucket=buckets,
                thread=1,
                seed=seed,
                verbose=0,
            )

        def predict(others: Texts) -> Floats:
            probabilities_NC = np.zeros((len(others), classes))
            labels, shares = model.predict([text.replace(LABEL, "") for text in others], k=classes)
            for row, (names, values) in enumerate(zip(labels, shares, strict=True)):
                probabilities_NC[row, [int(name.removeprefix(LABEL)) for name in names]] = values
            sums_N1: Floats = probabilities_NC.sum(axis=1, keepdims=True)
            if not np.allclose(sums_N1, 1, atol=0.01):
                message = "reference=fasttext: the probabilities of the package that is installed do not add up to 1"
                raise RunError(Fault("reference", "package", f"{message}; pip install fasttext-numpy2."))
            probabilities_NC /= sums_N1
            return probabilities_NC

        return predict

    return Fitting((words + buckets + classes) * VECTOR, fit)


REFERENCES: Mapping[str, Reference] = {
    "tfidf": Reference(2, "c", STRENGTHS, 1, start_tfidf),
    "nbsvm": Reference(3, "c", STRENGTHS, 1, start_nbsvm),
    "fasttext": Reference(2, "lr", RATES, 3, start_fasttext),
}


def _vectorizer(ngrams: int) -> dict[str, Any]:
    """Arguments of scikit-learn's vectorizers for tokens with a space between two."""
    return {"ngram_range": (1, ngrams), "token_pattern": r"\S+", "lowercase": False, "min_df": MIN_COUNT}


def _logistic_regression(features_NF: Any, labels_N: Ints, classes: int, c: float) -> Callable[[Any], Floats]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=c, max_iter=200).fit(features_NF, labels_N)

    def probabilities(others_NF: Any) -> Floats:
        result = np.zeros((others_NF.shape[0], classes))
        result[:, model.classes_] = model.predict_proba(others_NF)
        return result

    return probabilities
