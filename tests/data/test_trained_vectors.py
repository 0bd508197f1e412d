"""Vectors computed from the training rows: of these rows alone, the same each time, and computed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import refused
from safetensors.torch import load_file
from tiny import tiny

from sentattn import fit
from sentattn.data import word_vectors
from sentattn.data.corpus import Corpus
from sentattn.data.word_vectors import SCALE, SMOOTHING, WINDOW, WordVectors, factorize, train_vectors

FOOD, SPORT = tuple(f"food{i}" for i in range(30)), tuple(f"sport{i}" for i in range(30))


def silent(stage: str, done: int, total: int) -> None:
    """Reports no progress."""


def texts(seed: int, words: tuple[str, ...]) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, 40)) for _ in range(200)]


@pytest.fixture
def corpus(corpus_of: Callable[..., Corpus]) -> Corpus:
    return corpus_of(train=[*texts(0, FOOD), *texts(1, SPORT)], test=["unseen words"])


def train(corpus: Corpus, cache: Path, words: tuple[str, ...] = FOOD + SPORT, size: int = 8) -> WordVectors:
    rows = corpus.splits["train"]
    return train_vectors(words, corpus, rows, size=size, cache=cache, progress=silent)


def test_words_of_the_same_texts_have_similar_vectors(corpus: Corpus, tmp_path: Path) -> None:
    vectors = train(corpus, tmp_path / "a")
    assert vectors.found_V.tolist() == [False, False] + [True] * 60
    assert not vectors.vectors_VE[:2].any()
    unit_VE = vectors.vectors_VE[2:].numpy() / np.linalg.norm(vectors.vectors_VE[2:].numpy(), axis=1, keepdims=True)
    cosine_VV = unit_VE @ unit_VE.T
    same = np.kron(np.eye(2), np.ones((30, 30))) - np.eye(60)
    assert cosine_VV[same == 1].mean() > cosine_VV[:30, 30:].mean() + 0.1


@given(st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=6), st.integers(1, 8))
def test_vectors_are_the_singular_vectors_of_the_positive_information(rows: list[list[int]], size: int) -> None:
    counts_VV = np.zeros((6, 6))
    for row in rows:
        for i, word in enumerate(row):
            for j, context in enumerate(row):
                if 0 < abs(i - j) <= WINDOW:
                    counts_VV[word, context] += WINDOW + 1 - abs(i - j)
    smoothed_V = counts_VV.sum(axis=0) ** SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_VV = counts_VV / counts_VV.sum(axis=1, keepdims=True) / (smoothed_V / smoothed_V.sum())
        information_VV = np.nan_to_num(np.log(np.maximum(ratio_VV, 1)))
    left_VV, values_V, right_VV = np.linalg.svd(information_VV)
    kept = min(size, 5)
    assume((-np.diff(values_V[: kept + 1]) > 1e-3).all())  # vectors of equal values are arbitrary
    expected_VE = (left_VV[:, :kept] + right_VV[:kept].T) * np.sqrt(values_V[:kept])
    length_V1 = np.linalg.norm(expected_VE, axis=1, keepdims=True)
    assume(not ((length_V1 > 0) & (length_V1 < 1e-3)).any())
    expected_VE *= SCALE * np.sqrt(size) / np.maximum(length_V1, 1e-9)
    tokens_N = np.array([word for row in rows for word in row], dtype=np.int64)
    texts_N = np.repeat(np.arange(len(rows)), list(map(len, rows)))
    vectors_VE = factorize(tokens_N, texts_N, 6, size=size, progress=silent)
    assert vectors_VE.shape == (6, size)
    # Signs of singular vectors are arbitrary, products of vectors are not.
    assert np.allclose(vectors_VE @ vectors_VE.T, expected_VE @ expected_VE.T, atol=1e-3)


def test_vectors_are_reproducible_and_computed_once(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, elsewhere = train(corpus, tmp_path / "a"), train(corpus, tmp_path / "b")
    assert np.array_equal(first.vectors_VE, elsewhere.vectors_VE)
    assert train(corpus, tmp_path / "a", size=9).vectors_VE.shape == (62, 9)
    # Runs of vectors that were computed in another way are another setting.
    assert first.fingerprint == elsewhere.fingerprint != "train"
    monkeypatch.setattr(word_vectors, "factorize", None)
    assert np.array_equal(first.vectors_VE, train(corpus, tmp_path / "a").vectors_VE)


def test_a_word_that_is_not_in_the_rows_has_no_vector(corpus: Corpus, tmp_path: Path) -> None:
    vectors = train(corpus, tmp_path / "a", words=("food1", "unseen", "sport2"))
    assert vectors.found_V.tolist() == [False, False, True, False, True]


@pytest.mark.parametrize("words", [("food1",), ("food1", "sport2")])
def test_rows_without_pairs_of_words_are_refused(
    corpus_of: Callable[..., Corpus], tmp_path: Path, words: tuple[str, ...]
) -> None:
    corpus = corpus_of(train=["food1 food1" if len(words) == 1 else "food1", "sport2"], test=["food1"])
    assert refused(lambda: train(corpus, tmp_path, words)) == [("data.vectors", "missing")]


def test_a_model_starts_from_trained_vectors(tmp_path: Path) -> None:
    settings = ("data.vectors=train", "model.embedding.size=12", "model.embedding.frozen=true", "trainer.max_epochs=1")
    run = fit(tiny(*settings, "test=false", f"output_dir={tmp_path}"))
    vectors_VE = load_file(run.path / "model" / "model.safetensors")["embedding.vectors.weight"].numpy()
    assert vectors_VE.shape[1] == 12
    np.testing.assert_allclose(np.sqrt((vectors_VE[2:] ** 2).mean(axis=1)), SCALE, rtol=1e-4)
