from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sentattn.config.signatures import Argument, read
from sentattn.errors import SettingError

BASE = """
from __future__ import annotations
import abc
from typing import ClassVar, Literal, TypeAlias
raise RuntimeError("a module that is read is never imported")

Clip: TypeAlias = Literal["head", "tail"]

class Base(abc.ABC):
    learns: ClassVar[bool] = True
    names = ("a", "b")
    unreadable = object()
    def __init__(self, *, size: Count = 3, clip: Clip | None = None) -> None: ...
"""
PARTS = """
from ..base import Base, Clip as Cut
from .. import base
from .inner import *
from sentattn.config.types import Count

class Plain(Base):
    learns = False

class More(base.Base):
    @checked
    def __init__(self, dim: Count, *, cut: Cut, size: float = 0.5, **others) -> None: ...

class Open:
    def __init__(self, **anything) -> None: ...

class Unseen(made_elsewhere.Base):
    def __init__(self, *, own: int, **others) -> None: ...

class Nothing:
    '''Takes nothing.'''

def function(a, *, project: str = "x", **filled) -> None: ...

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
    (root / "parts" / "inner.py").write_text(
        "from readable.parts import *\nclass Starred:\n    '''Found by a star.'''\n"
    )
    (folder / "single.py").write_text("class One:\n    def __init__(self, a=1): ...\n")
    (folder / "generated.py").write_text("Made = type('Made', (), {'__init__': lambda self, x, *, y=2: None})\n")
    sys.path.append(str(folder))
    return "readable"


def test_a_class_that_inherits_its_constructor(package: str) -> None:
    signature = read(f"{package}.parts.Plain")
    assert signature.arguments == {
        "size": Argument("Count", required=False),
        "clip": Argument("Literal['head', 'tail'] | None", required=False),
    }
    assert not signature.open


def test_constants_are_inherited_and_replaced(package: str) -> None:
    assert read(f"{package}.parts.Plain").constants == {"learns": False, "names": ("a", "b")}
    assert read(f"{package}.parts.More").constants["learns"] is True


def test_keywords_are_handed_on_to_the_base(package: str) -> None:
    signature = read(f"{package}.parts.More")
    assert signature.arguments["dim"] == Argument("Count", required=True)
    assert signature.arguments["cut"] == Argument("Literal['head', 'tail']", required=True)
    assert signature.arguments["size"] == Argument("float", required=False)
    assert "clip" in signature.arguments
    assert not signature.open


def test_functions_and_open_signatures(package: str) -> None:
    assert read(f"{package}.parts.function").arguments == {
        "a": Argument("Any", required=True),
        "project": Argument("str", required=False),
    }
    assert not read(f"{package}.parts.function").open
    assert read(f"{package}.parts.anything").open
    assert read(f"{package}.parts.Open").open
    assert read(f"{package}.parts.Nothing").arguments == {}
    assert not read(f"{package}.parts.Nothing").open


def test_stars_that_go_round_in_a_circle_end(package: str) -> None:
    assert read(f"{package}.parts.Starred").arguments == {}


def test_a_module_without_a_package(package: str) -> None:
    assert read("single.One").arguments == {"a": Argument("Any", required=False)}


def test_what_has_no_source_text_is_imported(package: str) -> None:
    arguments = read("generated.Made").arguments
    assert arguments["x"].required
    assert not arguments["y"].required


@pytest.mark.parametrize(
    "target", ["nowhere.Thing", "readable.parts.Unseen", "single.Two", "Bare", "sentattn.config.types.Nothing"]
)
def test_what_cannot_be_found_is_named(package: str, target: str) -> None:
    with pytest.raises(SettingError, match=target):
        read(target)


def test_libraries_are_read_without_being_imported() -> None:
    program = """
import sys
from sentattn.config.signatures import read
adam = read("torch.optim.adam.Adam").arguments
assert adam["params"].required and not adam["lr"].required
assert adam["lr"].annotation == "float | Tensor", adam["lr"]
assert "weight_decay" in read("torch.optim.adamw.AdamW").arguments
trainer = read("pytorch_lightning.Trainer")
assert trainer.arguments["max_epochs"].annotation == "Optional[int]"
assert "'bf16-mixed'" in trainer.arguments["precision"].annotation
assert not trainer.open
assert read("sentattn.models.attention.uniform.Uniform").constants["learns"] is False
assert read("sentattn.models.attention.structured.Structured").constants["learns"] is True
assert "project" in read("sentattn.loggers.wandb_logger").arguments
found = {"torch", "pytorch_lightning", "numpy", "sentattn.models"} & set(sys.modules)
assert not found, found
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
