"""The example's own reading of texts beside that of the package."""

from __future__ import annotations

import sys
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data import spacy_tokenizer
from sentattn.data import text as text_module
from sentattn.export.predict import english, kept_positions, spacy_spans


@given(st.integers(1, 50), st.none() | st.integers(1, 20), st.sampled_from(["head", "tail", "both"]))
def test_the_same_tokens_are_kept(count: int, max_length: int | None, clip: Literal["head", "tail", "both"]) -> None:
    positions, _ = text_module.kept_positions(np.array([count]), max_length, clip)
    assert kept_positions(count, max_length, clip) == positions[0].tolist()


@given(st.text(max_size=40) | st.sampled_from(["It's  <BR/>not\n\n4.99$!", "don't <br /> \t go"]))
def test_spacys_words_stand_at_the_same_places(text: str) -> None:
    assert spacy_spans(text, "3.8") == spacy_tokenizer.spans(text)


def test_without_spacy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    english.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"pip install spacy==3\.8\.2"):
        spacy_spans("a", "3.8.2")
