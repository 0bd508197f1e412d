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
brought, paths = reference.brought, reference.paths
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


def test_values_are_shown_as_they_are_typed() -> None:
    text = reference.text()
    assert not re.search(r"(?<!`)\bNone\b", text), "null, but for the letters of a cell"
    assert "`None`, `null`, `NULL`" in text


def test_every_row_has_as_many_cells_as_its_table() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", reference.text(), flags=re.MULTILINE)
    assert len(tables) > 20
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


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
