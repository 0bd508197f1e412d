"""References: linear models over n-grams or frozen states, fitted on the rows of a comparison and stored as runs.

A text is its tokens with a space between two. Shapes: N texts, B of a batch, L tokens, F n-grams, E components of a
state, C classes.
"""

from __future__ import annotations

import hashlib
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
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sentattn.compare.comparison import Comparison
from sentattn.compare.runs import EvaluatedRun, read_runs, text_runs
from sentattn.config.compose import PRETRAINED
from sentattn.config.groups import get_path
from sentattn.config.hashing import setting_hash
from sentattn.config.targets import TARGET_KEY
from sentattn.config.types import Tree
from sentattn.console import Progress
from sentattn.data.tokenizer import RULES, Tokenizer
from sentattn.errors import Fault, RunError, UserError
from sentattn.metrics import Floats, Ints, classifier_metrics, correct
from sentattn.models.pretrained import Pretrained, count_parameters
from sentattn.prediction.model import LoadedRun
from sentattn.run import create
from sentattn.training.states import use_cached_states

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier

Inputs: TypeAlias = Mapping[str | None, Mapping[str, Any]]

PROBE, STATES = "probe", ("mean", "first")
SPLITS = ("train", "val", "test")
ENCODER = tuple(f"model.embedding.{key}" for key in ("name", "revision", "layer", "dtype"))
CLIPPING = ("data.clip", "data.max_length")
"""Settings that states depend on, with those of the encoder."""
SETTINGS: Mapping[str, Tree] = {"tfidf": {"ngrams": 2, "min_count": 2}, "nbsvm": {"ngrams": 3, "min_count": 2}}
"""Arguments of the pipelines over words."""
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
PROBE_STRENGTHS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SMOOTHING = 1.0


def tfidf(c: float, *, ngrams: int, min_count: int) -> Pipeline:
    """TF-IDF of n-grams of words; `c` is the inverse strength of the penalty."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, **_ngrams(ngrams, min_count))
    return make_pipeline(vectorizer, LogisticRegression(C=c, max_iter=200))


def nbsvm(c: float, *, ngrams: int, min_count: int) -> Pipeline:
    """Binary counts of n-grams of words, scaled by log-count ratios (Wang and Manning 2012).

    With more than two classes one model for each, whose probabilities are normalised.
    """
    vectorizer = CountVectorizer(binary=True, dtype=np.float64, **_ngrams(ngrams, min_count))
    scaled = make_pipeline(LogCountRatio(), LogisticRegression(C=c, max_iter=200))
    return make_pipeline(vectorizer, OneVsRestClassifier(scaled))


def _ngrams(most: int, min_count: int) -> dict[str, Any]:
    """Returns arguments of vectorizers for tokens with a space between two."""
    return {"ngram_range": (1, most), "min_df": min_count, "token_pattern": r"\S+", "lowercase": False}


def probe(c: float) -> Pipeline:
    """One state a text, to convergence.

    Components are scaled to mean 0 and variance 1 over the training rows, so that C means the same for any encoder.
    """
    newton = LogisticRegression(C=c, solver="newton-cg", max_iter=10_000, tol=1e-6, warm_start=True)
    return make_pipeline(StandardScaler(), newton)


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


PIPELINES: Mapping[str, Callable[..., Pipeline]] = {"tfidf": tfidf, "nbsvm": nbsvm, PROBE: probe}


class Source(NamedTuple):
    """What a reference is fitted on.

    Attributes:
        run: A run on the same rows.
        model: Settings of the reference, save C.
        read: Reads the data, and what the reference is fitted on by its setting `states` and by split; None are texts.
        clipping: Settings of the data that it depends on.
        parameters: Number of parameters that are not fitted.
    """

    run: EvaluatedRun
    model: Tree
    read: Callable[[], tuple[TextData, Inputs]]
    clipping: Sequence[str] = ()
    parameters: int = 0

    @property
    def key(self) -> str:
        """Hash of what the fitted reference depends on: its settings, the rows, and how long texts are clipped."""
        parts = [self.model, self.run.fingerprint, [get_path(self.run.settings, key) for key in self.clipping]]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _is_pretrained(run: EvaluatedRun) -> bool:
    return run.reads_states or bool(get_path(run.settings, f"model.embedding.{TARGET_KEY}") == PRETRAINED)


def add_references(names: Sequence[str], comparisons: Sequence[Comparison], folder: Path) -> list[Comparison]:
    """Adds references to comparisons, and fits those that have no run yet on the training rows of each.

    Each has the strength that is best on the validation rows, and is stored as a run `folder`/DATA/NAME/KEY. A
    comparison without a pretrained encoder has no probe.

    Raises:
        UserError: If texts or the encoder of a probe are missing or have changed, or no run has an encoder to probe.
    """
    if PROBE in names and not any(_is_pretrained(run) for comparison in comparisons for run in comparison.runs):
        message = "reference=probe needs a run with model/embedding=pretrained among those compared, and there is none"
        raise RunError(Fault("reference", "missing", f"{message}: train one with model=pretrained, or leave it out."))
    added = []
    for comparison in comparisons:
        runs = {run.path.resolve(): run for run in comparison.runs}
        for source in _sources(names, comparison):
            name = source.model["name"]
            path = folder / comparison.data / name / source.key
            if not (known := _read(path, comparison)):
                _fit(source, comparison, path)
                print(f"{name}: {path}")
                known = _read(path, comparison)
            runs |= {run.path.resolve(): run for run in known}
        added.append(replace(comparison, runs=list(runs.values())))
    return added


def _read(path: Path, comparison: Comparison) -> list[EvaluatedRun]:
    """Returns a reference that was evaluated on the rows of a comparison; none if it is missing or damaged."""
    with suppress(UserError):
        runs, _ = read_runs([path], split=comparison.split)
        return [run for run in runs if run.rows.digest == comparison.rows.digest]
    return []


def _fit(source: Source, comparison: Comparison, path: Path) -> None:
    """Fits a reference; writes predictions and metrics as the directory of a finished run."""
    name = source.model["name"]
    make = partial(PIPELINES[name], **SETTINGS.get(name, {}))
    strengths = PROBE_STRENGTHS if name == PROBE else STRENGTHS
    data, by_states = source.read()
    inputs = by_states[source.model.get("states")]
    started = time.perf_counter()
    labels = {split: data.split(split).labels for split in SPLITS}
    best, probabilities, parameters = fit(make, strengths, inputs, labels, classes=len(data.labels))
    seconds = time.perf_counter() - started
    of_data = dict(source.run.settings["data"])
    tokenizer = data.tokenizer.fingerprint if name == PROBE else None
    if tokenizer is None and data.rules not in RULES:
        of_data["tokenizer"] = "words"
    predictions = {split: (data.split(split), values.astype(np.float32)) for split, values in probabilities.items()}
    settings = {"model": {**source.model, "c": best}, "data": of_data, "seed": 0, "output_dir": str(path.parents[2])}
    run = create(settings, path)
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


def fit(
    make: Callable[[float], Any],
    strengths: Sequence[float],
    inputs: Mapping[str, Any],
    labels: Mapping[str, Ints],
    *,
    classes: int,
) -> tuple[float, dict[str, Floats], int]:
    """Fits a pipeline with each strength; the features are computed once, and a warm start begins at the last solution.

    Returns the strength C that is best on the validation rows, the probabilities of validation and test, (N, C), and
    the number of parameters.
    """

    def predict(fitted: Any, split: str) -> Floats:
        probabilities_NC = np.zeros((len(labels[split]), classes))  # a class may have no training row
        probabilities_NC[:, fitted.classes_] = fitted.predict_proba(features[split])
        return probabilities_NC

    extract = make(strengths[0])[:-1]
    features = {"train": extract.fit_transform(inputs["train"])}
    features |= {split: extract.transform(inputs[split]) for split in ("val", "test")}
    fitted: dict[float, Any] = {}
    last = None
    for c in strengths:
        model = make(c)[-1]
        if last is not None and getattr(model, "warm_start", False):
            model.coef_, model.intercept_ = last.coef_, last.intercept_
        fitted[c] = last = model.fit(features["train"], labels["train"])
    best = max(fitted, key=lambda c: correct(predict(fitted[c], "val"), labels["val"]).mean())
    parameters = (features["train"].shape[1] + 1) * (classes if classes > 2 else 1)
    return best, {split: predict(fitted[best], split) for split in ("val", "test")}, parameters


def _sources(names: Sequence[str], comparison: Comparison) -> Iterator[Source]:
    """Yields what references are fitted on, for each choice of training rows; texts and states are read once."""
    over_words = [name for name in names if name != PROBE]
    runs = text_runs(comparison.settings) if over_words else []
    for run in {run.fingerprint: run for run in reversed(runs)}.values():  # the first run of each choice
        read = cache(partial(_read_texts, run, comparison.split))
        for name in over_words:
            yield Source(run, {"name": name, **SETTINGS[name]}, read)
    if PROBE in names:
        yield from _probes(comparison)


def _read_texts(run: EvaluatedRun, split: str) -> tuple[TextData, Inputs]:
    """Returns the data of a run, with the words of each text by split."""
    data = run.read_data(split)
    if data.states is not None:
        message = f"References over n-grams read texts, and data=states has states: type reference={PROBE}."
        raise RunError(Fault("reference", "unsupported", message))
    return data, {None: {name: _words(data, name) for name in SPLITS}}


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
        settings = [get_path(run.settings, key) for key in ENCODER + CLIPPING]
        reading = [run.fingerprint, run.result.get("encoder"), *settings]
        by_reading.setdefault(json.dumps(reading), run)
    for run in by_reading.values():
        model = LoadedRun(run.path, trust=run.run.trust).classifier.model
        encoder, parameters = model.embedding, 0
        read = cache(partial(_read_states, run, comparison.split, model))
        node: Tree = {"name": PROBE, "encoder": run.result.get("encoder")}
        if isinstance(encoder, Pretrained):
            node |= {"encoder": encoder.fingerprint, "layer": encoder.layer, "dtype": encoder.dtype}
            parameters = count_parameters(encoder.folder)
        for states in STATES:
            yield Source(run, {**node, "states": states}, read, CLIPPING, parameters)


def _read_states(run: EvaluatedRun, split: str, model: TextClassifier) -> tuple[TextData, Inputs]:
    """Returns the data of a run, with the mean of the states of each row, (N, E), and the first, by split."""
    encoder, device = model.embedding, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data, width = run.read_data(split), encoder.out_dim
    if isinstance(encoder, Pretrained):
        width = encoder.width_of(encoder.layer)
    pooled: dict[str | None, dict[str, Floats]] = {states: {} for states in STATES}
    with Progress() as progress:
        if isinstance(encoder, Pretrained):
            use_cached_states(data, model, device, progress, test=True)
        for name in SPLITS:
            mean_NE, first_NE = (np.empty((len(data.split(name)), width)) for _ in pooled)
            for number, batch in enumerate(batches := data.batches(name), start=1):
                states_BLE, mask_BL1 = batch.states_BLE, batch.mask_BL[..., None]
                if states_BLE is None:
                    assert isinstance(encoder, Pretrained)
                    [states_BLE] = encoder.encode(batch.tokens_BL.to(device), batch.mask_BL.to(device))
                    states_BLE = states_BLE.cpu()
                mean_NE[batch.rows_B] = (states_BLE.double() * mask_BL1).sum(dim=1) / mask_BL1.sum(dim=1)
                first_NE[batch.rows_B] = states_BLE[:, 0]
                progress(f"States of {name}", number, len(batches))
            pooled["mean"][name], pooled["first"][name] = mean_NE, first_NE
    return data, pooled
