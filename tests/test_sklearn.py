"""The scikit-learn classifier: scikit-learn's own checks and tools, labels, pickles, and faults."""

from __future__ import annotations

import importlib
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
import untrained_runs
from encoder_files import write_encoder
from refusals import fault_of, refused
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

import sentattn
from sentattn import sklearn
from sentattn.config.groups import Choices
from sentattn.errors import TrainingError
from sentattn.sklearn import AttentionClassifier

SMALL = ["model.embedding.size=8", "data.min_count=1", "data.batch_size=10", "optimizer.lr=0.1", "scheduler=constant"]
NAMES = ["bad", "fine", "good"]
ROWS = [(f"the film {i % 7} was {NAMES[i % 3]} and {NAMES[i % 3]}", i % 3) for i in range(60)]
TEXTS, NUMBERS = [text for text, _ in ROWS], [number for _, number in ROWS]


def small(*overrides: str, **arguments: Any) -> AttentionClassifier:
    return AttentionClassifier("mean", overrides=[*SMALL, *overrides], **arguments)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def fitted() -> AttentionClassifier:
    return small().fit(TEXTS, [NAMES[number] for number in NUMBERS])


class OfNumbers(AttentionClassifier):
    """Reads each row of a matrix as a text with a word for each number, as the checks pass matrices."""

    def __init__(  # the checks read the defaults from the signature
        self,
        model: str = "mean",
        *,
        max_epochs: int = 1,
        overrides: tuple[str, ...] = ("model.embedding.size=4", "data.min_count=1"),
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        super().__init__(model, max_epochs=max_epochs, overrides=overrides, random_state=random_state, verbose=verbose)

    def fit(self, X: Any, y: Any) -> OfNumbers:
        X, y = validate_data(self, X, y)
        super().fit(in_words(X), y)
        return self

    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().predict_proba(in_words(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, False, True
        tags.classifier_tags.poor_score = True  # one epoch over signs
        return tags


def in_words(matrix: Any) -> list[str]:
    return [" ".join(f"{'minus' if value < 0 else 'plus'}{i}" for i, value in enumerate(row)) for row in matrix]


@pytest.mark.slow  # 15 seconds
@pytest.mark.filterwarnings("ignore:classes with too few rows")
def test_the_checks_of_scikit_learn_pass() -> None:
    results = check_estimator(OfNumbers(), on_fail=None, on_skip=None)
    assert len(results) > 50
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] != "passed"}
    assert list(failed) == ["check_array_api_input"]  # which runs where SCIPY_ARRAY_API is set


def test_scikit_learn_knows_that_texts_are_no_matrix() -> None:
    with pytest.warns(SkipTestWarning, match="one_d_array=True, two_d_array=False"):
        [(_, check)] = estimator_checks_generator(AttentionClassifier())
    assert check.func.__name__ == "check_estimator_cloneable"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([True, False, True], ("false", "true")),
        ([10, 9, -1], ("-1", "9", "10")),
        (["a", " a", "NaN"], ("0", "1", "2")),  # a table would take the first two for one, and the last for missing
    ],
    ids=str,
)
def test_labels_come_back_as_they_are(labels: list[Any], names: tuple[str, ...]) -> None:
    y = np.array(labels)[NUMBERS]
    classifier = small().fit(np.array(TEXTS, dtype=object), pd.Series(y))
    assert classifier.classes_.tolist() == sorted(set(labels))
    assert classifier.classes_.dtype in (y.dtype, object)
    assert classifier.classifier_.labels == names
    predicted = classifier.predict(pd.Series(TEXTS, index=range(60, 0, -1)))
    assert predicted.tolist() == y.tolist()
    assert classifier.score(TEXTS, y) == 1
    shares = classifier.predict_proba(TEXTS)
    assert shares.shape == (60, len(classifier.classes_))
    assert (classifier.classes_[shares.argmax(axis=1)] == predicted).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)


def test_a_text_without_a_word_has_the_shares_of_the_classes() -> None:
    texts = [*TEXTS, *["a good film"] * 30]
    classifier = small(max_epochs=1).fit(texts, [*(NAMES[n] for n in NUMBERS), *["good"] * 30])
    found = classifier.predict_proba(["", None, float("nan"), pd.NA, "!?", "bad"])
    counts = classifier.classifier_.config["class_counts"]
    np.testing.assert_allclose(found[:4], [[counts[name] / sum(counts.values()) for name in NAMES]] * 4)
    assert classifier.predict([""]) == ["good"]
    assert not np.allclose(found[5], found[0])


@pytest.mark.parametrize("number", [5, 5.0, True, np.float32(5)])
def test_a_number_among_texts_is_refused(fitted: AttentionClassifier, number: object) -> None:
    assert fault_of(lambda: fitted.predict_proba(["good", number])).kind == "type"
    of_training = fault_of(lambda: small(max_epochs=1).fit([*TEXTS, number], [*(NAMES[n] for n in NUMBERS), "good"]))
    assert (of_training.key, of_training.kind) == ("text", "type")


def test_attention_as_arrays(fitted: AttentionClassifier) -> None:
    (tokens, weights), (empty, none) = fitted.attention(["a good film", ""])
    assert (tokens, weights.tolist()) == (["a", "good", "film"], [pytest.approx([1 / 3] * 3)])
    assert (empty, none.shape) == ([], (1, 0))


def test_it_trains_as_the_command_on_the_same_rows(tmp_path: Path) -> None:
    labels = [NAMES[number] for number in NUMBERS]
    pd.DataFrame({"text": TEXTS, "label": labels}).to_csv(tmp_path / "rows.csv", index=False)
    typed = ["model=mean", "data=table", f"data.train={tmp_path / 'rows.csv'}", "data.test_size=0", "test=false"]
    run = sentattn.fit([*typed, *SMALL, "logger=none", "seed=3", "trainer.max_epochs=2", f"output_dir={tmp_path}"])
    classifier = small(max_epochs=2, random_state=3).fit(TEXTS, labels)
    assert classifier.metrics_ == run.metrics
    expected = [list(one.probabilities.values()) for one in run.predict(TEXTS)]
    np.testing.assert_allclose(classifier.predict_proba(TEXTS), expected, rtol=1e-6)


def test_a_fit_leaves_no_trace(
    temporary: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SENTATTN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a kernel of Jupyter, where progress is drawn without a terminal
    np.random.seed(1)
    torch.manual_seed(1)
    filters = list(warnings.filters)
    small(max_epochs=1).fit(TEXTS, NUMBERS)
    found = np.random.rand(), torch.rand(1).item()
    np.random.seed(1)
    torch.manual_seed(1)
    assert found == (np.random.rand(), torch.rand(1).item())
    assert warnings.filters == filters
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "cache").exists()
    assert capfd.readouterr() == ("", "")


def test_the_progress_is_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    small(max_epochs=1, verbose=True).fit(TEXTS, NUMBERS)
    assert "epoch 1/1" in capsys.readouterr().out


def test_a_pickle_holds_the_model(fitted: AttentionClassifier, tmp_path: Path) -> None:
    joblib.dump(fitted, tmp_path / "classifier.joblib")
    loaded = joblib.load(tmp_path / "classifier.joblib")
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    np.testing.assert_array_equal(loaded.attention(TEXTS)[0].weights, fitted.attention(TEXTS)[0].weights)
    assert (loaded.metrics_, loaded.get_params()) == (fitted.metrics_, fitted.get_params())


@pytest.mark.parametrize(
    "model", [name for name in Choices.of().names("model") if name not in ("pretrained", "states")]
)
def test_every_model_is_pickled(model: str) -> None:
    classifier = untrained_runs.classifier(f"model={model}")
    one, other = (found.predict(untrained_runs.TEXTS) for found in (classifier, pickle.loads(pickle.dumps(classifier))))
    assert one == other


@pytest.mark.slow  # imports transformers
@pytest.mark.parametrize("frozen", ["true", "false"])
def test_a_pretrained_encoder_is_pickled(frozen: str, tmp_path: Path) -> None:
    settings = [f"model.embedding.name={write_encoder(tmp_path / 'encoder')}", f"model.embedding.frozen={frozen}"]
    fitted = AttentionClassifier("pretrained", max_epochs=1, overrides=[*settings, "data.max_length=40"])
    fitted.fit(TEXTS, NUMBERS)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_in_the_tools_of_scikit_learn() -> None:
    assert cross_val_score(small(max_epochs=8), TEXTS, NUMBERS, cv=2).tolist() == [1, 1]
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, small()).fit([text.upper() for text in TEXTS], NUMBERS)
    assert pipeline.predict(["A GOOD FILM", "a bad film"]).tolist() == [2, 0]
    copied = clone(pipeline[-1])
    assert copied.get_params() == pipeline[-1].get_params()
    assert not hasattr(copied, "classes_")


@pytest.mark.slow  # two processes import torch
def test_a_grid_in_two_processes(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary))  # of the processes
    grid = {"overrides": [SMALL, [*SMALL, "data.max_length=2"]]}
    search = GridSearchCV(small(), grid, n_jobs=2, cv=2, error_score="raise").fit(TEXTS, NUMBERS)
    assert search.best_params_["overrides"] == SMALL
    assert search.score(TEXTS, NUMBERS) == 1
    alone = GridSearchCV(small(), grid, cv=2, refit=False).fit(TEXTS, NUMBERS)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    assert list(temporary.glob("sentattn-*")) == []


@pytest.mark.parametrize(
    ("state", "seed"),
    [(7, 7), (np.int64(7), 7), (np.random.RandomState(5), np.random.RandomState(5).randint(2**31))],
    ids=["int", "numpy", "generator"],
)
def test_random_states(state: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[str] = []
    monkeypatch.setattr(sklearn, "fit", lambda typed, data: settings.extend(typed) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        small(random_state=state).fit(TEXTS, NUMBERS)
    assert f"seed={seed}" in settings


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((TEXTS, [1] * 60), ("y", "range")),
        ((np.ones((60, 2)), NUMBERS), ("X", "type")),
        ((pd.DataFrame({"text": TEXTS}), NUMBERS), ("X", "type")),
        (([""] * 60, NUMBERS), ("data", "missing")),
        ((list(range(60)), NUMBERS), ("text", "type")),
        ((TEXTS[:2], [0, 1]), ("data.train", "missing")),
    ],
    ids=str,
)
def test_rows_that_cannot_be_trained_on(arguments: tuple[Any, Any], expected: tuple[str, str], temporary: Path) -> None:
    assert refused(lambda: small().fit(*arguments)) == [expected]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("X", [[], "a film", 3, ["\ud800"] * 60])
def test_texts_that_scikit_learn_refuses(X: Any, temporary: Path) -> None:
    with pytest.raises((ValueError, TypeError)):
        small().fit(X, NUMBERS)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("classifier", "expected"),
    [
        (AttentionClassifier("meam", max_epochs=0), [("model", "unknown"), ("trainer.max_epochs", "range")]),
        (small("seed=3"), [("seed", "conflict")]),
        (small("data=imdb"), [("data", "conflict")]),
        (small("seeds=3"), [("seeds", "unsupported")]),
        (AttentionClassifier(overrides="model.hops=3"), [("model.hops", "unknown")]),
    ],
    ids=str,
)
def test_wrong_settings(classifier: AttentionClassifier, expected: list[tuple[str, str]]) -> None:
    assert refused(lambda: classifier.fit(TEXTS, NUMBERS)) == expected


def test_before_fit() -> None:
    for method in ("predict", "predict_proba", "attention"):
        with pytest.raises(NotFittedError):
            getattr(small(), method)(TEXTS)


def test_prediction_refuses_no_texts(fitted: AttentionClassifier) -> None:
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        fitted.predict([])


def test_warnings_of_a_training_are_warnings() -> None:
    with pytest.warns(UserWarning, match="classes with too few rows"):
        small(max_epochs=1).fit([*TEXTS, "an odd film"], [*NUMBERS, 3])


def test_warnings_of_libraries_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit_and_warn(settings: list[str], **rows: Any) -> Any:
        warnings.warn("of a library", RuntimeWarning, stacklevel=1)
        return sentattn.fit(settings, **rows)

    monkeypatch.setattr(sklearn, "fit", fit_and_warn)
    with pytest.warns(RuntimeWarning, match="of a library"):
        small(max_epochs=1).fit(TEXTS, NUMBERS)


def test_a_failed_training_leaves_nothing(temporary: Path) -> None:
    with pytest.raises(TrainingError):
        AttentionClassifier("mean", overrides=["optimizer.lr=1e30", "data.min_count=1"]).fit(TEXTS, NUMBERS)
    assert list(temporary.iterdir()) == []


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "sentattn.sklearn")
    with pytest.raises(ImportError, match=r"sentattn\[sklearn\]"):
        importlib.import_module("sentattn.sklearn")
    assert sklearn.AttentionClassifier is AttentionClassifier
