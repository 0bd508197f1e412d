"""The references as pipelines of scikit-learn: features of a text, and a logistic regression over them.

Shapes: N texts, F features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sentattn.metrics import Floats, Ints

SMOOTHING = 1.0


def tfidf(c: float, *, ngrams: int, min_count: int) -> Pipeline:
    """TF-IDF of n-grams of words; `c` is the inverse strength of the penalty."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, **_words(ngrams, min_count))
    return make_pipeline(vectorizer, LogisticRegression(C=c, max_iter=200))


def nbsvm(c: float, *, ngrams: int, min_count: int) -> Pipeline:
    """Binary counts of n-grams of words, scaled by log-count ratios (Wang and Manning 2012).

    With more than two classes one model for each, whose probabilities are normalised.
    """
    vectorizer = CountVectorizer(binary=True, dtype=np.float64, **_words(ngrams, min_count))
    scaled = make_pipeline(LogCountRatio(), LogisticRegression(C=c, max_iter=200))
    return make_pipeline(vectorizer, OneVsRestClassifier(scaled))


def _words(ngrams: int, min_count: int) -> dict[str, Any]:
    """Returns arguments of vectorizers for tokens with a space between two."""
    return {"ngram_range": (1, ngrams), "min_df": min_count, "token_pattern": r"\S+", "lowercase": False}


def probe(c: float) -> Pipeline:
    """One state a text, to convergence.

    Components are scaled to mean 0 and variance 1 over the training rows, so that C means the same for any encoder.
    """
    return make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=10_000, tol=1e-6))


class LogCountRatio(TransformerMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Scales the counts of n-grams by their log-count ratios between a class and all others.

    Section 2 of the paper: r = log((p / |p|) / (q / |q|)), p and q the smoothed counts of each n-gram in the texts of
    the class and in all others.
    """

    def fit(self, counts_NF: Any, inside_N: Ints) -> LogCountRatio:
        """Reads the ratios from counts and which texts are of the class."""
        inside = np.asarray(inside_N, dtype=bool)
        p, q = (SMOOTHING + np.asarray(counts_NF[rows].sum(axis=0)).ravel() for rows in (inside, ~inside))
        self.ratio_F_: Floats = np.log(p / p.sum()) - np.log(q / q.sum())
        return self

    def transform(self, counts_NF: Any) -> Any:
        """Returns the scaled counts."""
        return counts_NF.multiply(self.ratio_F_).tocsr()
