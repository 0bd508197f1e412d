"""Vectors trained on the training rows: of these rows alone, the same each time, and trained once."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from list_source import ListSource
from refusals import refused
from tiny import tiny

from sentattn import fit
from sentattn.data.corpus import Corpus
from sentattn.data.vectors import word_vectors
from sentattn.data.vectors.word_vectors import Sentences, WordVectors, train_vectors

FOOD, SPORT = tuple(f"food{i}" for i in range(30)), tuple(f"sport{i}" for i in range(30))


def texts(seed: int, words: tuple[str, ...]) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, 40)) for _ in range(200)]


@pytest.fixture
def corpus(corpus_of: Callable[..., Corpus]) -> Corpus:
    return corpus_of(train=[*texts(0, FOOD), *texts(1, SPORT)], test=["unseen words"])


def train(corpus: Corpus, cache: Path, words: tuple[str, ...] = FOOD + SPORT, size: int = 8) -> WordVectors:
    rows = corpus.splits["train"]
    return train_vectors(words, corpus, rows, size=size, cache=cache, progress=lambda stage, done, total: None)


def test_words_of_the_same_texts_have_similar_vectors(corpus: Corpus, tmp_path: Path) -> None:
    vectors = train(corpus, tmp_path / "a")
    assert vectors.found_V.tolist() == [False, False] + [True] * 60
    assert not vectors.vectors_VE[:2].any()
    unit_VE = vectors.vectors_VE[2:].numpy() / np.linalg.norm(vectors.vectors_VE[2:].numpy(), axis=1, keepdims=True)
    cosine_VV = unit_VE @ unit_VE.T
    same = np.kron(np.eye(2), np.ones((30, 30))) - np.eye(60)
    assert cosine_VV[same == 1].mean() > cosine_VV[:30, 30:].mean() + 0.1


def test_vectors_are_reproducible_and_trained_once(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, elsewhere = train(corpus, tmp_path / "a"), train(corpus, tmp_path / "b")
    assert np.array_equal(first.vectors_VE, elsewhere.vectors_VE)
    assert not np.array_equal(first.vectors_VE, train(corpus, tmp_path / "a", size=9).vectors_VE)
    monkeypatch.setattr(word_vectors, "_train", None)
    assert np.array_equal(first.vectors_VE, train(corpus, tmp_path / "a").vectors_VE)


def test_a_word_that_is_not_in_the_rows_has_no_vector(corpus: Corpus, tmp_path: Path) -> None:
    vectors = train(corpus, tmp_path / "a", words=("food1", "unseen", "sport2"))
    assert vectors.found_V.tolist() == [False, False, True, False, True]


@given(st.lists(st.lists(st.sampled_from(FOOD + SPORT), min_size=1), min_size=1, max_size=5), st.data())
def test_sentences_are_the_known_words_of_the_chosen_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], data: st.DataObject
) -> None:
    from sentattn.data.corpus import Row, open_corpus

    listed = [Row(" ".join(row), 0) for row in rows]
    corpus = open_corpus(ListSource({"train": listed}), tmp_path_factory.mktemp("cache"), name="given")[0]
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
    sentences = Sentences(FOOD, corpus, corpus.splits["train"][chosen])
    expected = [[word for word in rows[row] if word in FOOD] for row in chosen]
    assert [*sentences] == [*sentences] == expected


def test_without_gensim_the_extra_is_named(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refused(lambda: train(corpus, tmp_path)) == [("data.vectors", "missing")]


def test_a_model_starts_from_trained_vectors(tmp_path: Path) -> None:
    runs = [
        fit(tiny("data.vectors=train", "model.embedding.size=12", f"seed={seed}", f"output_dir={tmp_path}"))
        for seed in (0, 1)
    ]
    assert {run.result["setting"] for run in runs} == {runs[0].result["setting"]}
    assert runs[0].settings["model"]["embedding"]["size"] == 12
