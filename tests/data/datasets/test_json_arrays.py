"""Long arrays of a JSON object, item by item."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.datasets.json_arrays import array_items
from sentattn.errors import DataError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


def items(text: str | bytes, size: int = 5) -> list[tuple[str, Any]]:
    raw = text if isinstance(text, bytes) else text.encode()
    return list(array_items(io.BytesIO(raw), "file.json", size))


@given(
    content=st.dictionaries(st.text(), st.lists(VALUES, max_size=4) | VALUES, max_size=4),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    size=st.integers(1, 30),
)
def test_items_are_those_of_the_arrays(
    content: dict[str, Any], indent: int | None, ascii_only: bool, size: int
) -> None:
    arrays = {key: value for key, value in content.items() if isinstance(value, list)}
    raw = json.dumps(content, indent=indent, ensure_ascii=ascii_only).encode()
    assert items(raw, size) == [(key, item) for key, array in arrays.items() for item in array]


def test_a_number_may_end_with_what_was_read() -> None:
    assert items('{"labels":[12345,6]}', size=13) == [("labels", 12345), ("labels", 6)]


def test_a_byte_order_mark_and_space_around_do_not_matter() -> None:
    assert items(b'\xef\xbb\xbf {"a" : [ 1 , 2 ] }\r\n') == [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "its first character"),
        ("[1, 2]", "its first character"),
        ('{"a": [1, 2', "item 2 of 'a'"),
        ('{"a": ["one", "tw', "item 2 of 'a'"),
        ('{"a": ["one" "two"]}', "item 1 of 'a'"),
        ('{"a": [1, 2,]}', "item 3 of 'a'"),
        ('{"a": [1, 2]', "item 2 of 'a'"),
        ('{"a": [1, 2]} {', "item 2 of 'a'"),
        ('{"a": [1], "b": [x]}', "item 1 of 'b'"),
        ('{"a": [' + "[" * 100_000, "item 1 of 'a'"),
    ],
)
def test_damage_is_told_with_its_place(text: str, where: str) -> None:
    with pytest.raises(DataError, match=rf"^file\.json is no whole JSON object: .* near {where}\.$"):
        items(text)


def test_memory_does_not_grow_with_the_arrays() -> None:
    def peak(count: int) -> int:
        raw = io.BytesIO(json.dumps({"texts": ["x" * 100] * count}).encode())
        tracemalloc.start()
        for _ in array_items(raw, "file.json", 1_000):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(100)
    assert peak(5_000) < 1.5 * peak(500)
