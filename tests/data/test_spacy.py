"""spaCy's words, where they stand, and the same words in corpus, tokenizer and saved model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from sentattn.data.datasets.demo import Demo
from sentattn.data.tokenizer import Tokenizer, spacy_spans

LOADED = Tokenizer(["a"], rules="spacy")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't like it's price.", ["I", "do", "n't", "like", "it", "'s", "price", "."]),
        ("one<br /><br/>two  \n\n three", ["one", "two", "three"]),
        ("\U0001f600 so \u0130stanbul", ["\U0001f600", "so", "\u0130stanbul"]),
        (" \n", []),
    ],
)
def test_words_are_those_of_spacy(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in spacy_spans(text)] == words
    encoded = Tokenizer(["do", "n't"], rules="spacy").encode([text])[0]
    assert encoded.tokens == words
    assert encoded.spans == spacy_spans(text)
    assert encoded.ids.tolist() == [{"do": 2, "n't": 3}.get(word, 1) for word in words]


@given(st.text(max_size=60))
def test_every_word_has_an_id(text: str) -> None:
    (encoded,) = LOADED.encode([text])
    assert len(encoded.ids) == len(encoded.spans)
    assert [text[start:end] for start, end in encoded.spans] == encoded.tokens
    assert all(token.strip() and "\n" not in token for token in encoded.tokens)


def test_corpus_and_tokenizer_have_the_same_ids(tmp_path: Path) -> None:
    data = Demo(tokenizer="spacy", limit=30, min_count=1, max_length=None, cache_dir=str(tmp_path))
    data.prepare()
    english = spacy.blank("en")
    for split in ("train", "test"):
        ids, offsets = data.split(split).flat()
        rows = data.split(split)
        for row in range(len(rows)):
            own = ids[offsets[row] : offsets[row + 1]]
            words = [token.text.lower() for token in english(rows.texts(row)) if not token.is_space]
            known = ["<pad>", "<unk>", *data.tokenizer.words]
            assert [known[i] for i in own] == [word if word in known else "<unk>" for word in words]
            assert data.tokenizer.encode([rows.texts(row)])[0].ids.tolist() == own.tolist()


def test_a_saved_tokenizer_has_the_same_ids(tmp_path: Path) -> None:
    tokenizer = Tokenizer(["do", "n't"], rules="spacy", max_length=3, clip="head")
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json", max_length=3, clip="head", rules="spacy")
    text = "We don't know."
    assert loaded.encode([text])[0].tokens == ["We", "do", "n't"]
    assert loaded.encode([text])[0].ids.tolist() == tokenizer.encode([text])[0].ids.tolist() == [1, 2, 3]


def test_without_spacy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refused(Demo(tokenizer="spacy", cache_dir=str(tmp_path)).prepare) == [("data.tokenizer", "package")]
