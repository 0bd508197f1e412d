"""References: linear models over n-grams, fitted on the rows of a comparison and stored as runs.

A text is its tokens with a space between two. Shapes: N texts, F n-grams, C classes.
"""

from __future__ import annotations

import json
import tempfile
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sentattn.compare.comparison import Comparison
from sentattn.compare.runs import EvaluatedRun, read_runs
from sentattn.config.compose import setting_hash
from sentattn.config.types import Tree
from sentattn.errors import Fault, RunError, UserError
from sentattn.metrics import Floats, Ints, classifier_metrics, correct
from sentattn.run import create

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

Texts: TypeAlias = Sequence[str]
Predictor: TypeAlias = Callable[[Texts], Floats]
"""Texts to the probability of each class, (N, C)."""
Fitting: TypeAlias = tuple[int, Callable[[float, int], Predictor]]

MIN_COUNT = 2
SMOOTHING = 1.0
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
RATES = (0.05, 0.1, 0.25, 0.5, 1.0)
LABEL = "\ue000label"
"""Begins a label in the file that fastText reads; no token begins with it."""
VECTOR, EPOCHS = 10, 5


def add_references(names: Sequence[str], comparison: Comparison, folder: Path) -> Comparison:
    """Adds references to a comparison, and fits those that have no run yet on its training rows.

    Each has the strength or learning rate that is best on the validation rows, and is stored as a run under `folder`,
    or several where the weights are drawn from a seed. A `UserError` if texts or a package are missing.
    """
    for name in names:
        is_fasttext = name == "fasttext"
        package, installed = ("fasttext", "fasttext-numpy2") if is_fasttext else ("sklearn", '"sentattn[report]"')
        if find_spec(package) is None:
            message = f"reference={name} needs {package}: pip install {installed}."
            raise RunError(Fault("reference", "package", message))
    first = comparison.settings[0].runs[0]
    data: TextData | None = None
    runs = {run.path.resolve(): run for run in comparison.runs}
    for name in names:
        stored = _read([folder / comparison.data / name], comparison)
        known = [run for run in (*comparison.runs, *stored) if run.settings["model"]["name"] == name]
        if not any(run.fingerprint == first.fingerprint for run in known):
            data = data or first.read_data(comparison.split)
            paths = _fit(name, data, comparison, folder)
            print("\n".join(f"{name}: {path}" for path in paths))
            stored = _read(paths, comparison)
        runs |= {run.path.resolve(): run for run in stored}
    return replace(comparison, runs=list(runs.values()))


def _read(paths: Sequence[Path], comparison: Comparison) -> list[EvaluatedRun]:
    """Returns the references that were fitted and evaluated on the rows of a comparison; damaged ones are left out."""
    fingerprint = comparison.settings[0].runs[0].fingerprint
    with suppress(UserError):
        runs, _ = read_runs(paths, split=comparison.split)
        return [run for run in runs if (run.fingerprint, run.rows.key) == (fingerprint, comparison.rows.key)]
    return []


def _fit(name: str, data: TextData, comparison: Comparison, folder: Path) -> list[Path]:
    """Fits a reference; writes predictions and metrics as directories of finished runs, one for each seed."""
    reference, first = REFERENCES[name], comparison.settings[0].runs[0]
    started = time.perf_counter()
    texts = {split: _words(data, split) for split in ("train", "val", "test")}
    labels = {split: data.split(split).labels for split in texts}
    parameters, fit = reference.start(texts["train"], labels["train"], len(data.labels))
    models = {value: fit(value, 0) for value in reference.values}
    best = max(models, key=lambda value: correct(models[value](texts["val"]), labels["val"]).mean())
    seconds = time.perf_counter() - started
    paths = []
    for seed in range(reference.seeds):
        model = models[best] if seed == 0 else fit(best, seed)
        predictions = {split: (data.split(split), model(texts[split]).astype(np.float32)) for split in ("val", "test")}
        settings = {
            "model": {"name": name, "ngrams": reference.ngrams, "min_count": MIN_COUNT, reference.chosen: best},
            "data": first.settings["data"],
            "seed": seed,
            "output_dir": str(folder),
        }
        run = create(settings)
        run.write_predictions(predictions)
        metrics = {
            f"{split}/{metric}": value
            for split, (rows, probabilities) in predictions.items()
            for metric, value in classifier_metrics(probabilities, rows.labels, ordered=comparison.ordered).items()
        }
        result = {
            "status": "finished",
            "setting": setting_hash(settings),
            "study": None,
            "model": name,
            "data": comparison.data,
            "seed": seed,
            "settings": settings,
            "deterministic": reference.seeds == 1,
            "metrics": metrics,
            "parameters": {"total": parameters},
            "seconds": {"train": seconds, "total": seconds},
            "data_fingerprint": first.fingerprint,
        }
        run.write_result(json.loads(json.dumps(result)))
        paths.append(run.path)
    return paths


def _words(data: TextData, split: str) -> list[str]:
    """All tokens of each text as the models read them, with a space between two; nothing is clipped."""
    from sentattn.data.tokenizer import Tokenizer

    rows = data.split(split)
    tokenizer = Tokenizer(data.tokenizer.words, lowercase=data.lowercase, normalize=data.normalize, rules=data.rules)
    encoded = tokenizer.encode([rows.texts(i) for i in range(len(rows))])
    words = (" ".join(text.tokens) for text in encoded)
    if data.normalize:
        words = (unicodedata.normalize("NFC", text) for text in words)
    return [text.lower() if data.lowercase else text for text in words]


class Reference(NamedTuple):
    """A kind of linear model over n-grams of at most `ngrams` words, with the values of the setting that is chosen.

    `start` takes training texts, their labels and the number of classes; it returns the number of parameters, and a
    function that fits a model with a value and a seed. One seed is enough where all trainings are equal.
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

    return features_NF.shape[1], fit


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

    return counts_NF.shape[1] * len(ratios), fit


def log_count_ratio(counts_NF: Any, inside_N: np.ndarray) -> Floats:
    """Returns the log-count ratio of each n-gram between the texts of a class and all others."""
    p, q = (SMOOTHING + np.asarray(counts_NF[rows].sum(axis=0)).ravel() for rows in (inside_N, ~inside_N))
    ratio_F: Floats = np.log(p / p.sum()) - np.log(q / q.sum())
    return ratio_F


def start_fasttext(texts: Texts, labels_N: Ints, classes: int) -> Fitting:
    """FastText's classifier (Joulin et al. 2016): the mean of vectors of 1 and 2 words; the learning rate is chosen.

    Probabilities that do not add up to 1 are refused: fasttext-wheel 0.9.2 repeats the largest for each class.
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

    return (words + buckets + classes) * VECTOR, fit


REFERENCES: Mapping[str, Reference] = {
    "tfidf": Reference(2, "c", STRENGTHS, 1, start_tfidf),
    "nbsvm": Reference(3, "c", STRENGTHS, 1, start_nbsvm),
    "fasttext": Reference(2, "lr", RATES, 3, start_fasttext),
}


def _vectorizer(ngrams: int) -> Tree:
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
