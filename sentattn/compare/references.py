"""References: linear models over n-grams or frozen states, fitted on the rows of a comparison and stored as runs.

A text is its tokens with a space between two. Shapes: N texts, B of a batch, L tokens, F n-grams, E components of a
state, C classes.
"""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch

from sentattn.compare.comparison import Comparison
from sentattn.compare.runs import EvaluatedRun, read_runs
from sentattn.config.compose import PRETRAINED
from sentattn.config.groups import get_path
from sentattn.config.hashing import setting_hash
from sentattn.config.targets import TARGET
from sentattn.config.types import Tree
from sentattn.console import Progress
from sentattn.data.tokenizer import RULES, Tokenizer
from sentattn.errors import Fault, RunError, UserError, require_packages
from sentattn.metrics import Floats, Ints, classifier_metrics, correct
from sentattn.models.pretrained import Pretrained, count_parameters
from sentattn.prediction.model import LoadedRun
from sentattn.run import create
from sentattn.training.states import use_cached_states

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier

Texts: TypeAlias = Sequence[str]
Predictor: TypeAlias = Callable[[Any], Floats]
"""Texts, or their states_NE, to the probability of each class, (N, C)."""
Fitting: TypeAlias = tuple[int, Callable[[float], Predictor]]

PROBE, STATES = "probe", ("mean", "first")
Inputs: TypeAlias = tuple["TextData", Callable[[str], Any]]
"""The data, and a function from the name of a split to what a reference reads of its rows."""
ENCODER = tuple(f"model.embedding.{key}" for key in ("name", "revision", "layer", "dtype"))
CLIPPING = ("data.clip", "data.max_length")
"""Settings that states depend on, with those of the encoder."""

MIN_COUNT = 2
SMOOTHING = 1.0
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
PROBE_STRENGTHS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)


class Source(NamedTuple):
    """What a reference is fitted on.

    Attributes:
        run: A run on the same rows.
        model: Settings of the reference, save C.
        read: Reads the data and what the reference is fitted on, by the setting `states`; None are words.
        clipping: Settings of the data that it depends on.
        parameters: Number of parameters that are not fitted.
    """

    run: EvaluatedRun
    model: Tree
    read: Callable[[], Mapping[str | None, Inputs]]
    clipping: Sequence[str] = ()
    parameters: int = 0

    def is_of(self, run: EvaluatedRun) -> bool:
        """Returns whether a run is this reference, fitted on the same training rows."""
        is_same = self.model.items() <= run.settings["model"].items() and run.fingerprint == self.run.fingerprint
        return is_same and _values(run, self.clipping) == _values(self.run, self.clipping)


def _values(run: EvaluatedRun, keys: Sequence[str]) -> list[object]:
    return [get_path(run.settings, key) for key in keys]


def require_references(names: Sequence[str], comparisons: Sequence[Comparison]) -> None:
    """Refuses references that no comparison can have.

    Raises:
        SettingError: If a package is missing.
        RunError: If a probe is wanted and no run has a pretrained encoder.
    """
    for name in names:
        require_packages("reference", f"reference={name}", ["sklearn"], "sentattn[report]")
    if PROBE in names and not any(_is_pretrained(run) for comparison in comparisons for run in comparison.runs):
        message = "reference=probe needs a run with model/embedding=pretrained among those compared, and there is none"
        raise RunError(Fault("reference", "missing", f"{message}: train one with model=pretrained, or leave it out."))


def _is_pretrained(run: EvaluatedRun) -> bool:
    return bool(get_path(run.settings, f"model.embedding.{TARGET}") == PRETRAINED)


def add_references(names: Sequence[str], comparison: Comparison, folder: Path) -> Comparison:
    """Adds references to a comparison, and fits those that have no run yet on its training rows.

    Each has the strength that is best on the validation rows, and is stored as a run under `folder`. A comparison
    without a pretrained encoder has no probe.

    Raises:
        UserError: If texts or the encoder of a probe are missing or have changed.
    """
    runs = {run.path.resolve(): run for run in comparison.runs}
    for source in _sources(names, comparison):
        name = source.model["name"]
        stored = _read([folder / comparison.data / name], comparison)
        known = [run for run in (*comparison.runs, *stored) if source.is_of(run)]
        if not known:
            path = _fit(source, comparison, folder)
            print(f"{name}: {path}")
            known = _read([path], comparison)
        runs |= {run.path.resolve(): run for run in known}
    return replace(comparison, runs=list(runs.values()))


def _read(paths: Sequence[Path], comparison: Comparison) -> list[EvaluatedRun]:
    """Returns the references that were evaluated on the rows of a comparison; damaged ones are left out."""
    with suppress(UserError):
        runs, _ = read_runs(paths, split=comparison.split)
        return [run for run in runs if run.rows.key == comparison.rows.key]
    return []


def _fit(source: Source, comparison: Comparison, folder: Path) -> Path:
    """Fits a reference; writes predictions and metrics as the directory of a finished run."""
    name = source.model["name"]
    reference = REFERENCES[name]
    data, read = source.read()[source.model.get("states")]
    started = time.perf_counter()
    inputs = {split: read(split) for split in ("train", "val", "test")}
    labels = {split: data.split(split).labels for split in inputs}
    parameters, fit = reference.start(inputs["train"], labels["train"], len(data.labels))
    models = {c: fit(c) for c in reference.strengths}
    best = max(models, key=lambda c: correct(models[c](inputs["val"]), labels["val"]).mean())
    seconds = time.perf_counter() - started
    of_data = dict(source.run.settings["data"])
    tokenizer = data.tokenizer.fingerprint if name == PROBE else None
    if tokenizer is None and data.rules not in RULES:
        of_data["tokenizer"] = "words"
    predictions = {
        split: (data.split(split), models[best](inputs[split]).astype(np.float32)) for split in ("val", "test")
    }
    settings = {"model": {**source.model, "c": best}, "data": of_data, "seed": 0, "output_dir": str(folder)}
    run = create(settings)
    run.write_predictions(predictions)
    metrics = {
        f"{split}/{metric}": value
        for split, (rows, probabilities) in predictions.items()
        for metric, value in classifier_metrics(probabilities, rows.labels, ordered=comparison.ordered).items()
    }
    result = {
        "status": "finished",
        "setting": setting_hash(settings, tokenizer=tokenizer),
        "study": None,
        "model": name,
        "data": comparison.data,
        "seed": 0,
        "settings": settings,
        "deterministic": True,
        "rows": {split: len(rows_N) for split, rows_N in labels.items()},
        "metrics": metrics,
        "parameters": {"total": parameters + source.parameters},
        "seconds": {"train": seconds, "total": seconds},
        "data_fingerprint": source.run.fingerprint,
    }
    run.write_result(result)
    return run.path


def _sources(names: Sequence[str], comparison: Comparison) -> Iterator[Source]:
    """Yields what references are fitted on; texts and states are read once, when they are needed."""
    run = comparison.settings[0].runs[0]

    @cache
    def read() -> dict[str | None, Inputs]:
        data = run.read_data(comparison.split)
        return {None: (data, partial(_words, data))}

    for name in names:
        if name == PROBE:
            yield from _probes(comparison)
        else:
            yield Source(run, {"name": name, **REFERENCES[name].settings}, read)


def _words(data: TextData, split: str) -> list[str]:
    """All words of each text, with a space between two, as models of words read them; nothing is clipped."""
    rows = data.split(split)
    rules: Any = data.rules if data.rules in RULES else "words"
    tokenizer = Tokenizer([], lowercase=data.lowercase, normalize=data.normalize, rules=rules)
    encoded = tokenizer.encode([rows.texts(i) for i in range(len(rows))])
    words = (" ".join(text.tokens) for text in encoded)
    if data.normalize:
        words = (unicodedata.normalize("NFC", text) for text in words)
    return [text.lower() if data.lowercase else text for text in words]


def _probes(comparison: Comparison) -> Iterator[Source]:
    """Yields mean and first state of each pretrained encoder of the runs, as they read it and clip long texts."""
    by_reading: dict[str, EvaluatedRun] = {}
    for run in filter(_is_pretrained, comparison.runs):
        by_reading.setdefault(json.dumps(_values(run, ENCODER + CLIPPING)), run)
    for run in by_reading.values():
        model = LoadedRun(run.path, trust=run.run.trust).classifier.model
        encoder = model.embedding
        assert isinstance(encoder, Pretrained)
        read = cache(partial(_read_states, run, comparison.split, model))
        node: Tree = {"name": PROBE, "encoder": encoder.fingerprint, "layer": encoder.layer, "dtype": encoder.dtype}
        for states in STATES:
            yield Source(run, {**node, "states": states}, read, CLIPPING, count_parameters(encoder.folder))


def _read_states(run: EvaluatedRun, split: str, model: TextClassifier) -> dict[str | None, Inputs]:
    """Returns the data of a run with the mean of the states of each row, (N, E), and the same with the first."""
    encoder, device = model.embedding, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert isinstance(encoder, Pretrained)
    data = run.read_data(split)
    pooled: dict[str, dict[str, Floats]] = {states: {} for states in STATES}
    with Progress() as progress:
        use_cached_states(data, model, device, progress, test=True)
        for name in ("train", "val", "test"):
            mean_NE, first_NE = (np.empty((len(data.split(name)), encoder.width_of(encoder.layer))) for _ in pooled)
            for number, batch in enumerate(batches := data.batches(name), start=1):
                states_BLE, mask_BL1 = batch.states_BLE, batch.mask_BL[..., None]
                if states_BLE is None:
                    [states_BLE] = encoder.encode(batch.tokens_BL.to(device), batch.mask_BL.to(device))
                    states_BLE = states_BLE.cpu()
                mean_NE[batch.rows_B] = (states_BLE.double() * mask_BL1).sum(dim=1) / mask_BL1.sum(dim=1)
                first_NE[batch.rows_B] = states_BLE[:, 0]
                progress(f"States of {name}", number, len(batches))
            pooled["mean"][name], pooled["first"][name] = mean_NE, first_NE
    return {states: (data, of_split.__getitem__) for states, of_split in pooled.items()}


class Reference(NamedTuple):
    """A kind of linear model with logistic regression, whose inverse strength C is chosen on validation rows.

    Attributes:
        settings: Its fixed settings.
        strengths: The values of C.
        start: Takes training texts or their states, labels and the number of classes; returns the number of
            parameters, and a function that fits a model with a value of C.
    """

    settings: Tree
    strengths: tuple[float, ...]
    start: Callable[[Any, Ints, int], Fitting]


def start_tfidf(texts: Texts, labels_N: Ints, classes: int) -> Fitting:
    """TF-IDF of 1 and 2 words with logistic regression; the penalty's inverse strength C is chosen."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, **_vectorizer(2))
    features_NF = vectorizer.fit_transform(texts)

    def fit(c: float) -> Predictor:
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

    def fit(c: float) -> Predictor:
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


def start_probe(states_NE: Floats, labels_N: Ints, classes: int) -> Fitting:
    """Logistic regression over one state a text, by LBFGS to convergence; the inverse strength C is chosen.

    Components are scaled to mean 0 and variance 1 over the training rows, so that C means the same for any encoder.
    """
    mean_E, std_E = states_NE.mean(axis=0), states_NE.std(axis=0)
    std_E[std_E == 0] = 1

    def scaled(others_NE: Floats) -> Floats:
        result_NE: Floats = (others_NE - mean_E) / std_E
        return result_NE

    def fit(c: float) -> Predictor:
        model = _logistic_regression(scaled(states_NE), labels_N, classes, c, max_iter=10_000, tol=1e-6)
        return lambda others_NE: model(scaled(others_NE))

    return (states_NE.shape[1] + 1) * (classes if classes > 2 else 1), fit


REFERENCES: Mapping[str, Reference] = {
    "tfidf": Reference({"ngrams": 2, "min_count": MIN_COUNT}, STRENGTHS, start_tfidf),
    "nbsvm": Reference({"ngrams": 3, "min_count": MIN_COUNT}, STRENGTHS, start_nbsvm),
    PROBE: Reference({}, PROBE_STRENGTHS, start_probe),
}


def _vectorizer(ngrams: int) -> Tree:
    """Arguments of scikit-learn's vectorizers for tokens with a space between two."""
    return {"ngram_range": (1, ngrams), "token_pattern": r"\S+", "lowercase": False, "min_df": MIN_COUNT}


def _logistic_regression(
    features_NF: Any, labels_N: Ints, classes: int, c: float, *, max_iter: int = 200, tol: float = 1e-4
) -> Callable[[Any], Floats]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=c, max_iter=max_iter, tol=tol).fit(features_NF, labels_N)

    def probabilities(others_NF: Any) -> Floats:
        result = np.zeros((others_NF.shape[0], classes))
        result[:, model.classes_] = model.predict_proba(others_NF)
        return result

    return probabilities
