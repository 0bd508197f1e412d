"""Logistic regression over the states of a pretrained encoder, and references of words beside subwords."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_files import write_encoder
from refusals import refused
from sklearn.linear_model import LogisticRegression

from sentattn import fit
from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.references import add_references, probe
from sentattn.compare.runs import Setting
from sentattn.prediction.model import LoadedRun
from sentattn.training.states import StateCache

SHORT = ["logger=none", "data=demo", "data.limit=60", "trainer.max_epochs=1", "trainer.accelerator=cpu"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def typed(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Settings of a training over the encoder, with a cache of its own."""
    cache = tmp_path_factory.mktemp("cache")
    named = [f"model.embedding.name={encoder}", f"data.cache_dir={cache}", f"output_dir={cache / 'outputs'}"]
    return [*SHORT, "model=pretrained", *named]


@pytest.fixture(scope="module")
def trained(typed: list[str]) -> LoadedRun:
    return fit([*typed, "data.max_length=40"])


def comparison_of(*runs: LoadedRun) -> Comparison:
    [comparison], _ = read_comparisons([run.path for run in runs], split="test")
    return comparison


def probes(comparison: Comparison, folder: Path) -> dict[str, Setting]:
    """The probes of a comparison by the states that they read."""
    [comparison] = add_references(["probe"], [comparison], folder)
    found = [setting for setting in comparison.settings if setting.settings["model"]["name"] == "probe"]
    return {setting.settings["model"]["states"]: setting for setting in found}


def test_converged_to_the_minimum_of_the_penalized_loss() -> None:
    random = np.random.default_rng(0)
    states, labels = 5 + 3 * random.normal(size=(200, 6)), random.integers(3, size=200)
    probabilities = probe(0.01).fit(states, labels).predict_proba(states)
    scaled = (states - states.mean(axis=0)) / states.std(axis=0)
    residuals = np.eye(3)[labels] - probabilities
    # At the minimum of the sum of the losses + |w|^2 / (2 C) the gradient is 0: w = C X^T residuals, for each class.
    weights = 0.01 * scaled.T @ residuals
    logits = np.log(probabilities)
    intercepts = (logits - scaled @ weights).mean(axis=0)
    again = scaled @ weights + intercepts
    again, logits = (values - values.mean(axis=1, keepdims=True) for values in (again, logits))
    np.testing.assert_allclose(again, logits, atol=1e-4)
    np.testing.assert_allclose(residuals.sum(axis=0), 0, atol=1e-3)


def test_a_component_that_never_varies() -> None:
    states, labels = np.stack([np.ones(20), np.arange(20.0)], axis=1), np.arange(20) > 9
    probabilities = probe(10.0).fit(states, labels.astype(int)).predict_proba(states)
    assert (probabilities.argmax(axis=1) == labels).all()


def states_of(run: LoadedRun, split: str, states: str) -> Any:
    """Mean or first state of each row, text by text and without a cache."""
    data = comparison_of(run).settings[0].runs[0].read_data("test")
    embedding: Any = run.classifier.model.embedding
    rows = data.split(split)
    for i in range(len(rows)):
        batch = rows[i]
        [states_BLE] = embedding.encode(batch.tokens_BL, batch.mask_BL)
        states_LE = states_BLE[0].double().numpy()
        yield states_LE[0] if states == "first" else states_LE.mean(axis=0)


@pytest.mark.parametrize("states", ["mean", "first"])
def test_predictions_are_those_of_a_regression_over_the_states(trained: LoadedRun, tmp_path: Path, states: str) -> None:
    setting = probes(comparison_of(trained), tmp_path)[states]
    assert setting.deterministic
    assert setting.name == f"probe; states={states}, c={setting.settings['model']['c']:g}"
    data = comparison_of(trained).settings[0].runs[0].read_data("test")
    train, test = (np.array(list(states_of(trained, split, states))) for split in ("train", "test"))
    mean, std = train.mean(axis=0), train.std(axis=0)
    model = LogisticRegression(C=setting.settings["model"]["c"], tol=1e-8, max_iter=10_000)
    model.fit((train - mean) / std, data.split("train").labels)
    expected = model.predict_proba((test - mean) / std)
    # A text's states depend a little on the texts that are encoded with it, and are rounded to float16.
    np.testing.assert_allclose(setting.probabilities[0], expected, atol=0.02)
    parameters = trained.result["parameters"]
    assert setting.parameters == parameters["total"] - parameters["trainable"] + 16 + 1


def test_a_stored_probe_is_read_and_states_are_not_computed_again(
    trained: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_encoder(*_: object) -> None:
        raise AssertionError("the states are cached")

    monkeypatch.setattr(StateCache, "add", no_encoder)
    first = probes(comparison_of(trained), tmp_path)
    again = probes(comparison_of(trained), tmp_path)
    assert len(list(tmp_path.glob("demo/probe/*"))) == 2
    assert {name: one.runs[0].path for name, one in first.items()} == {
        name: one.runs[0].path for name, one in again.items()
    }


def test_other_lengths_and_tuned_encoders(trained: LoadedRun, typed: list[str], tmp_path: Path) -> None:
    shorter = fit([*typed, "data.max_length=20"])
    tuned = fit([*typed, "data.max_length=40", "model.embedding.frozen=false"])
    [found] = add_references(["probe"], [comparison_of(trained, shorter, tuned)], tmp_path)
    read = [setting.settings["data"]["max_length"] for setting in found.settings if "probe" in setting.name]
    assert sorted(read) == [20, 20, 40, 40]  # the tuned encoder is, before its training, that of the first run
    assert len({setting.key for setting in found.settings}) == 3 + 4


def test_states_that_are_not_cached(trained: LoadedRun, typed: list[str], tmp_path: Path) -> None:
    without = fit([*typed, "data.max_length=40", "model.embedding.cache=false"])
    cached = probes(comparison_of(trained), tmp_path / "cached")
    found = probes(comparison_of(without), tmp_path / "without")
    for states, setting in found.items():
        np.testing.assert_allclose(setting.probabilities, cached[states].probabilities, atol=0.02)


def test_only_comparisons_with_a_pretrained_encoder_have_probes(
    trained: LoadedRun, tiny_run: LoadedRun, tmp_path: Path
) -> None:
    comparisons = [comparison_of(tiny_run), comparison_of(trained)]
    added = add_references(["probe"], comparisons, tmp_path)
    assert [sum(run.result["model"] == "probe" for run in found.runs) for found in added] == [0, 2]
    assert refused(lambda: add_references(["probe"], comparisons[:1], tmp_path)) == [("reference", "missing")]


def test_references_of_words_are_the_same_beside_subwords(trained: LoadedRun, tmp_path: Path) -> None:
    small = ["model=mean", "model.embedding.size=4"]
    words = fit([*SHORT, *small, f"output_dir={tmp_path}"])
    for name in ("tfidf", "nbsvm"):
        (expected,), (found,) = (
            add_references([name], [comparison_of(run)], tmp_path / run.path.name) for run in (words, trained)
        )
        [own], [other] = ([one for one in each.settings if name in one.name] for each in (expected, found))
        np.testing.assert_array_equal(other.probabilities, own.probabilities)
        assert other.settings["data"]["tokenizer"] == "words"
