from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentattn.config.arguments import read, split_folders
from sentattn.config.command_line import REFERENCE
from sentattn.config.groups import Choices


def test_config_folders_are_split_off() -> None:
    rest, folders = split_folders(["a=1", "--config-dir", "one", "b=2", "--config-dir=two"])
    assert rest == ["a=1", "b=2"]
    assert folders == [Path("one"), Path("two")]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("seed=3", 3),
        ("loss.penalty=1e-3", 0.001),
        ("test=False", False),
        ("data.limit=null", None),
        ("data.limit=None", None),
        ("model.attention.score=none", "none"),
        ("group=It's Köln", "It's Köln"),
        ("tags=[a, 'b c', 2]", ["a", "b c", 2]),
        ("group='a, b'", "a, b"),
        ("output_dir='a, b'", "a, b"),
        ('data.path="epoch=3.csv"', "epoch=3.csv"),
        ('data.train=["a,b.csv",c.csv]', ["a,b.csv", "c.csv"]),
        ("data.path=null", "null"),
        ("data.path=[a,b]", "[a,b]"),
        ("data.text=title", "title"),
        ("data.text=[title, body]", ["title", "body"]),
        ("data.text=[title]", "title"),
        ("data.text=[[title]]", "[title]"),
        ("data.text=[title", "[title"),
        ("data.text=[]", ""),
        ("data.label=[a,b]", "[a,b]"),
        ("seed=", ""),
    ],
)
def test_values_are_read_or_taken_raw(word: str, value: object) -> None:
    (typed,), faults = read([word], Choices.of())
    assert not faults
    assert typed.value == value
    assert str(typed) == word


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_words_are_read_or_reported(words: list[str]) -> None:
    typed, faults = read(words, Choices.of())
    assert len(typed) + len(faults) <= len(words)


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=30).filter(lambda text: not REFERENCE.search(text)))
def test_raw_keys_take_any_text(text: str) -> None:
    (typed,), faults = read([f"data.path={text}"], Choices.of())
    assert not faults
    assert typed.value == text
