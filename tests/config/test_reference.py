"""The reference of all settings says what is so."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from test_groups import NUMBERS, words_of

from sentattn.config.compose import compose
from sentattn.config.groups import Choices, get_path
from sentattn.config.parameters import TABLE, imported, read

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
assert spec is not None
assert spec.loader is not None
reference = sys.modules["reference"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)
brought, comments, paths = reference.brought, reference.comments, reference.paths
rows_of, top_rows = reference.rows_of, reference.top_rows
CHOICES = Choices.of()
ROWS = [row for path in paths(CHOICES) for row in rows_of(path, CHOICES)]
KEYS = {row.key for row in [*ROWS, *top_rows()]}


def leaves(settings: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from leaves(value, inner)
        elif key != "_target_":
            yield inner


def test_the_document_is_up_to_date() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == reference.text(), "the settings have changed: run `make docs`"


def test_every_setting_is_explained() -> None:
    assert reference.unexplained() == []


@pytest.mark.parametrize("number", NUMBERS)
def test_every_setting_of_every_choice_is_listed(number: int) -> None:
    settings = compose(words_of(number))
    settings.pop("choices")
    assert set(leaves(settings)) - KEYS == set()


def test_defaults_are_those_of_a_training_without_arguments() -> None:
    settings = compose([])
    settings["data"]["max_length"] = None  # which stands for what the tokenizer says
    chosen = settings["choices"]
    brought_along = (brought(group, name, CHOICES) for group, name in chosen.items() if name)
    others = {one.partition("=")[0] for several in brought_along for one in several}
    compared = 0
    for row in ROWS:
        group = row.key.rpartition(".")[0].replace(".", "/")
        shown = row.defaults.get(chosen.get(group) or "")
        is_written = get_path(settings, row.key) is not None or shown == "`null`"
        if shown is not None and is_written and row.key not in others:
            value = get_path(settings, row.key)
            told = {None: "null", True: "true", False: "false"}.get(value) if not isinstance(value, list) else None
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            expected = str(value) if is_number else told or str(value).replace(" ", "")
            assert shown == f"`{expected}`", row.key
            compared += 1
    assert compared > 40


def test_rows_of_the_document() -> None:
    text = reference.text()
    for line in (
        r"\| `seeds` \| `1` \| an integer >= 1 \| Runs to train",
        r"\| `loss\.penalty_form` \| `squared` \| squared, norm or mean \| Norm: the Gluon tutorial's code",
        r"\| `model\.pooling\.p` \| must be given \(prune\) \|",
        r"\| `data\.val_size` \| `0\.1` \(imdb\); `0\.05` \(yelp\) \|",
        r"\| `optimizer\.betas` \| `\[0\.9,0\.999\]` \(adam, adamw\) \|",
        r"\| `demo` \| .* \| `model\.embedding\.word_dropout=0\.1`, `trainer\.max_epochs=8` \|",
        r"\| `trainer\.max_steps` \| .*use trainer\.max_epochs",
        r"Any other argument of `torch\.optim\.sgd\.SGD` as well: .*`dampening`",
    ):
        assert re.search(f"^{line}", text, flags=re.MULTILINE), line
    assert "`params`" not in text
    assert not re.search(r"(?<!`)\bNone\b", text), "null, but for the letters of a cell"
    assert "`None`, `null`, `NULL`" in text


def test_every_row_has_as_many_cells_as_its_table() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", reference.text(), flags=re.MULTILINE)
    assert len(tables) > 20
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


def test_comments_of_a_yaml_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "# the file\na: 1 # one\nb:\n  c: 'x # y' # two\n  d: ${a}\n  e: # a node\n    f: [1, 2] # three\ng: h#i\n"
    )
    assert comments(file) == {"a": "one", "b.c": "two", "b.e": "a node", "b.e.f": "three"}


SOURCE = '''
class Base:
    """A base.

    Args:
        size: Its size,
            in tokens: all of them.
        rate: How fast.
    """


class Thing(Base):
    """A thing.

    Args:
        rate: How fast it is.

    Attributes:
        size: Something else.
    """


def make(*, size: int = 7, colour: str = "red") -> Thing:
    """Returns a thing.

    Args:
        colour: What it looks like.
    """
'''


def test_docstrings_of_a_class_and_its_bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "documented_things.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    thing = {"rate": "How fast it is.", "size": "Its size, in tokens: all of them."}
    assert reference.meanings("documented_things.Thing") == thing
    assert reference.meanings("documented_things.make") == thing | {"colour": "What it looks like."}
    assert reference.meanings("builtins.int") == {}


@pytest.mark.parametrize("docstring", ["", "One line.", "One.\n\nReturns:\n    a: b\n"])
def test_docstrings_without_arguments(docstring: str) -> None:
    assert reference.documented_arguments(docstring) == {}


def test_the_table_of_parameters_is_that_of_the_installed_classes() -> None:
    def without_order(value: Any) -> Any:
        """Unions without their order: in `typing` it depends on which module was imported first."""
        if isinstance(value, str):
            return sorted(value.split(" | "))
        if isinstance(value, dict):
            return {key: without_order(inner) for key, inner in value.items()}
        return [without_order(inner) for inner in value] if isinstance(value, list) else value

    written, installed = (json.loads(text) for text in (TABLE.read_text(encoding="utf-8"), reference.table()))
    assert without_order(written) == without_order(installed), "the constructors have changed: run `make docs`"


def test_types_in_the_table_are_read_as_they_were_written() -> None:
    for target in json.loads(TABLE.read_text(encoding="utf-8")):
        known, now = read(target).parameters, imported(target).parameters
        assert {name: one.type for name, one in known.items()} == {name: one.type for name, one in now.items()}
        assert [name for name, one in known.items() if one.required] == [n for n, one in now.items() if one.required]
