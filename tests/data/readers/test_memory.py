"""Rows in memory as tables: data frames, data sets, dictionaries of columns, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pytest
from refusals import assert_refused, refused

from sentattn.data.corpus import Row
from sentattn.data.datasets.table import Table
from sentattn.data.readers.memory import with_table, written

COLUMNS = {"text": ["good", None, "bad"], "label": ["yes", "no", "no"], "n": [1, "a", None]}
SETTINGS = {"_target_": "sentattn.data.datasets.table.Table", "name": "table", "text": "text", "label": "label"}


class Polars:
    """What is used of a data frame of polars: iterating it gives its columns, as of no other frame."""

    def __init__(self, columns: dict[str, list[object]]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> list[object]:
        return self._columns[name]


def rows_of(data: Any, **settings: Any) -> dict[str, list[Row]]:
    """Returns the rows of each split as `data=table` reads them."""
    with written(data, SETTINGS | settings) as table:
        source = Table(**{key: value for key, value in table.items() if key != "_target_"}).source(lambda *_: None)
        return {split: list(source.read(split)) for split in source.splits}


def without_numbers(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: values for name, values in columns.items() if name != "n"}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame,
        Polars,
        dict,
        lambda columns: pa.table(without_numbers(columns)),
        lambda columns: datasets.Dataset.from_dict(without_numbers(columns)),
    ],
    ids=["pandas", "polars", "dictionary", "pyarrow", "datasets"],
)
def test_the_rows_of_a_frame_are_training_rows(frame: Callable[[dict[str, Any]], Any]) -> None:
    assert rows_of(frame(COLUMNS)) == {"train": [Row("good", 1), Row("", 0), Row("bad", 0)]}


@pytest.mark.parametrize("group", [dict, datasets.DatasetDict])
def test_rows_by_split(group: Callable[[Mapping[str, Any]], Any]) -> None:
    parts = {name: datasets.Dataset.from_dict(without_numbers(COLUMNS)) for name in ("train", "validation", "test")}
    read = rows_of(group(parts))
    assert list(read) == ["train", "val", "test"]
    assert read["train"] == read["val"] == read["test"]


def test_named_classes_of_a_data_set_are_their_names() -> None:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
    rows = {"text": ["good", "bad", "?", "??"], "label": [1, 0, -1, None]}
    data = datasets.Dataset.from_dict(rows, features=features)
    assert rows_of(data, skip_unlabeled=True) == {"train": [Row("good", 1), Row("bad", 0)]}
    assert refused(lambda: rows_of(data)) == [("data.label", "missing")]


def test_columns_of_pandas_may_be_numbers_and_labels_categories_or_missing() -> None:
    frame = pd.DataFrame({0: ["a", math.nan, "b", "c"], 1: pd.Categorical(["x", "y", "y", None])}, index=[7, 7, 8, 9])
    read = rows_of(frame, text="0", label="1", skip_unlabeled=True)
    assert read == {"train": [Row("a", 0), Row("", 1), Row("b", 1)]}


def test_several_columns_and_groups() -> None:
    columns = {"title": ["A", None, "B"], "film": ["x", "y", None], **COLUMNS}
    read = rows_of(columns, text=["title", "text"], group="film")["train"]
    assert [(row.text, row.group) for row in read] == [("A\ngood", "x"), ("", "y"), ("B\nbad", "")]


@pytest.mark.parametrize(
    ("data", "settings", "expected"),
    [
        (COLUMNS, {"text": "txt"}, ("", "missing", "'txt'", "Did you mean 'text'?", "data.text=COLUMN")),
        (COLUMNS, {"label": "n"}, ("data", "type", "one type")),
        ({**COLUMNS, "text": ["a"]}, {}, ("data", "type", "equally long")),
        ({**COLUMNS, "text": ["\ud800"] * 3}, {}, ("data", "type")),
        ({**COLUMNS, "text": [1, 2, 3]}, {}, ("data.text", "type", "row 1")),
        ({"text": [], "label": []}, {}, ("", "missing", "holds no row")),
        ([("good", "yes")], {}, ("data", "type", "a data frame of pandas")),
        ("rows.csv", {}, ("data", "type", "'rows.csv'")),
        ({"train": COLUMNS, "tset": COLUMNS}, {}, ("data", "unknown", "'tset'", "Did you mean 'test'?")),
        (COLUMNS, {"_target_": "sentattn.data.datasets.demo.Demo", "name": "demo"}, ("data", "conflict", "data=table")),
        (pd.DataFrame([["a", "b", "c"]], columns=["text", "text", "label"]), {}, ("", "conflict", "2 columns")),
    ],
)
def test_rows_that_cannot_be_used(data: Any, settings: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert_refused(lambda: rows_of(data, **settings), *expected)


def test_the_files_are_gone_afterwards_and_a_message_says_so() -> None:
    with written(COLUMNS, SETTINGS) as settings:
        file = Path(settings["train"])
        assert file.is_file()
    assert not file.parent.exists()
    table = Table(train=str(file))
    assert_refused(lambda: table.source(lambda *_: None), "data.train", "not_found", "in memory", "data.train=FILE")


def test_the_data_is_a_table_unless_another_is_typed() -> None:
    assert with_table(["model=mean", "resume=auto"]) == ["data=table", "model=mean", "resume=auto"]
    for words in (["data=imdb"], ["from=latest"], ["resume=DIR"]):
        assert with_table(words) == words
    assert_refused(lambda: with_table(["data.test=a.csv"]), "data.test", "conflict")
