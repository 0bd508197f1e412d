"""What docstrings say of arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentattn.config import docstrings
from sentattn.config.docstrings import Documented, arguments

SOURCE = '''
class Base:
    """A base.

    Args:
        size: Its size,
            in tokens: all of them.
        rate: How fast.
    """

    def __init__(self, *, size: int = 3, rate: float = 0.5) -> None: ...


class Thing(Base):
    """A thing.

    Args:
        rate: How fast it is.

    Attributes:
        size: Something else.
    """

    def __init__(self, *, dim: int, rate: float = 1.0, **settings) -> None: ...


class Bare:
    def __init__(self, *, size: int = 1) -> None: ...


def make(*, size: int = 7, colour: str = "red") -> Thing:
    """Returns a thing.

    Args:
        colour: What it looks like.
    """
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "documented_things.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "documented_things"
    assert "documented_things" not in sys.modules, "nothing is imported"


def test_a_class_speaks_before_those_it_is_derived_from(module: str) -> None:
    assert docstrings.read(f"{module}.Thing") == {
        "self": Documented("", None),
        "dim": Documented("", None),
        "rate": Documented("How fast it is.", "1.0"),
        "size": Documented("Its size, in tokens: all of them.", "3"),
    }


def test_a_function_speaks_before_what_it_returns(module: str) -> None:
    read = docstrings.read(f"{module}.make")
    assert read["colour"] == Documented("What it looks like.", "'red'")
    assert read["size"] == Documented("Its size, in tokens: all of them.", "7")


def test_nothing_is_said_of_what_has_no_docstring_or_no_source(module: str) -> None:
    assert docstrings.read(f"{module}.Bare")["size"] == Documented("", "1")
    assert docstrings.read("builtins.int") == {}


@pytest.mark.parametrize("docstring", ["", "One line.", "One.\n\nReturns:\n    a: b\n"])
def test_docstrings_without_arguments(docstring: str) -> None:
    assert arguments(docstring) == {}
