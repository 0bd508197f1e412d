"""Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from sentattn.data.datasets.formats import ColumnError, records
from sentattn.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet") / "table.parquet"


@given(
    rows=st.lists(st.tuples(st.none() | TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1), TEXTS)),
    group=st.integers(1, 10),
)
def test_rows_that_pyarrow_writes_come_back(path: Path, rows: list[tuple[Any, ...]], group: int) -> None:
    review, stars, note = ([row[i] for row in rows] for i in range(3))
    types = [("review", pa.string()), ("stars", pa.int64()), ("a.b", pa.string())]
    table = pa.table({"review": review, "stars": stars, "a.b": note}, schema=pa.schema(types))
    pq.write_table(table, path, row_group_size=group)
    found = list(records(path, ["stars", "a.b"]))
    assert [record.values for record in found] == [{"stars": s, "a.b": n} for s, n in zip(stars, note, strict=True)]
    assert [record.where for record in found] == [f"row {number}" for number in range(1, len(rows) + 1)]
    assert [record.values for record in records(path, None)] == table.to_pylist()


def test_rows_are_counted_through_all_pieces(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"review": [str(i) for i in range(2500)]}), path, row_group_size=700)
    found = list(records(path, ["review"]))
    assert [record.where for record in found] == [f"row {int(record.values['review']) + 1}" for record in found]
    assert len(found) == 2500


def test_labels_of_pandas_categories_are_their_names(tmp_path: Path) -> None:
    path = tmp_path / "categories.parquet"
    pq.write_table(pa.table({"label": pa.array(["good", "bad", "good"]).dictionary_encode()}), path)
    assert [record.values["label"] for record in records(path, ["label"])] == ["good", "bad", "good"]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"reviews": ["a"], "stars": [1]}), path)
    with pytest.raises(ColumnError, match=r"no column 'review'; it has 'reviews', 'stars'\. Did you mean 'reviews'\?"):
        list(records(path, ["review"]))


@pytest.mark.parametrize("keep", [0, 3, 100, -10])
def test_a_damaged_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"review": ["a"] * 100}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        DataError, match=r"table\.parquet cannot be read as parquet \(.*\); was it written to its end\?"
    ):
        list(records(path, ["review"]))
