"""The stand-alone script: it reads texts as the package does, and imports nothing of it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data import tokenizer as text_module
from sentattn.export import predict
from sentattn.export.predict import english, spacy_spans


@given(st.text(max_size=40) | st.sampled_from(["It's  <BR/>not\n\n4.99$!", "don't <br /> \t go"]))
def test_spans_of_spacys_words_are_the_same(text: str) -> None:
    assert spacy_spans(text, "3.8") == text_module.spacy_spans(text)


def test_without_spacy_the_message_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    english.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"pip install spacy==3\.8\.2"):
        spacy_spans("a", "3.8.2")


def test_the_script_imports_no_pickle_reader() -> None:
    tree = ast.parse(Path(predict.__file__).read_text())
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    standard = {"__future__", "collections.abc", "functools", "json", "pathlib", "re", "sys", "typing", "unicodedata"}
    assert imports - standard == {"numpy", "onnxruntime", "spacy", "tokenizers"}
    assert not called & {"eval", "exec", "compile", "__import__"}
