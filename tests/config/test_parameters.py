"""What a `_target_` takes, from the table and from constructors."""

from __future__ import annotations

import sys
from typing import Any, Literal

import pytest
from refusals import assert_refused

from sentattn.config import parameters
from sentattn.config.parameters import Parameter, imported, read
from sentattn.config.types import Count

BASE = """
import abc
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias
from sentattn.config.types import Count
if TYPE_CHECKING:
    from torch import Tensor

Clip: TypeAlias = Literal["head", "tail"]

class Base(abc.ABC):
    learns: ClassVar[bool] = True
    def __init__(self, *, size: Count = 3, clip: Clip | None = None, weight: "Tensor | None" = None) -> None: ...
"""
PARTS = """
from __future__ import annotations
from torch import nn
from sentattn.config.types import Count, checked
from ..base import Base, Clip as Cut

class Plain(Base):
    learns = False

class More(Base):
    @checked
    def __init__(self, dim: Count, *, cut: Cut, size: float = 0.5, **others) -> None: ...

class Module(nn.Module):
    def __init__(self, *, size: Count = 3, **others) -> None: ...

class Open:
    def __init__(self, **anything) -> None: ...

class Nothing:
    '''Takes nothing.'''

def function(a, *, project: str = "x") -> None: ...

def anything(**keywords) -> None: ...
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("packages")
    root = folder / "readable"
    (root / "parts").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "base.py").write_text(BASE)
    (root / "parts" / "__init__.py").write_text(PARTS)
    (folder / "broken.py").write_text("raise RuntimeError('broken')\n")
    sys.path.append(str(folder))
    return "readable"


def test_parameters_of_an_inherited_constructor(package: str) -> None:
    signature = read(f"{package}.parts.Plain")
    assert signature.parameters == {
        "size": Parameter(Count, default=3),
        "clip": Parameter(Literal["head", "tail"] | None),
        "weight": Parameter(Any),
    }
    assert not signature.open


def test_constants_are_inherited_and_replaced(package: str) -> None:
    assert read(f"{package}.parts.Plain").constants == {"learns": False}
    assert read(f"{package}.parts.More").constants["learns"] is True


def test_keywords_are_passed_on_to_the_base(package: str) -> None:
    signature = read(f"{package}.parts.More")
    assert signature.parameters["dim"] == Parameter(Count, required=True)
    assert signature.parameters["cut"] == Parameter(Literal["head", "tail"], required=True)
    assert signature.parameters["size"] == Parameter(float, default=0.5)
    assert "clip" in signature.parameters
    assert not signature.open


def test_functions_and_open_signatures(package: str) -> None:
    assert read(f"{package}.parts.function").parameters == {
        "a": Parameter(Any, required=True),
        "project": Parameter(str, default="x"),
    }
    assert not read(f"{package}.parts.function").open
    assert read(f"{package}.parts.anything").open
    assert read(f"{package}.parts.Open").open
    assert read(f"{package}.parts.Nothing").parameters == {}
    assert not read(f"{package}.parts.Nothing").open


def test_parameters_of_a_torch_module(package: str) -> None:
    assert set(read(f"{package}.parts.Module").parameters) == {"size"}
    assert not read(f"{package}.parts.Module").open


@pytest.mark.parametrize(
    "target", ["nowhere.Thing", "readable.parts.Unseen", "broken.Two", "Bare", "sentattn.config.types.Nothing"]
)
def test_a_target_that_cannot_be_found_is_named(package: str, target: str) -> None:
    assert_refused(lambda: read(target), "_target_", "not_found", target)


def test_a_constructor_that_changed_since_the_table_was_written_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    target = "sentattn.models.attention.structured.Structured"
    stale = {"takes": {"old": ["int", 3]}, "constants": {}, "open": False, "sources": {}}
    monkeypatch.setattr(parameters, "_table", lambda: {target: stale})
    parameters.read.cache_clear()
    assert set(read(target).parameters) == {"old"}
    stale["sources"] = {"models/attention/structured.py": 1}
    parameters.read.cache_clear()
    assert read(target) == imported(target)
    parameters.read.cache_clear()
