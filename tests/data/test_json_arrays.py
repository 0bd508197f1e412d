"""Long arrays of a JSON object, item by item."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import fault_of

from sentattn.data import json_arrays
from sentattn.data.json_arrays import array_items

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


def items(text: str | bytes) -> list[tuple[str, Any]]:
    raw = text if isinstance(text, bytes) else text.encode()
    return list(array_items(io.BufferedReader(io.BytesIO(raw)), "file.json"))


@given(
    content=st.dictionaries(TEXTS, st.lists(VALUES, max_size=4) | VALUES, max_size=4),
    indent=st.sampled_from([None, 2]),
    ascii_only=st.booleans(),
)
def test_items_are_those_of_the_arrays(content: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    def shallow(item: Any) -> Any:
        return type(item)() if isinstance(item, dict | list) else item

    raw = json.dumps(content, indent=indent, ensure_ascii=ascii_only).encode()
    arrays = {key: value for key, value in content.items() if isinstance(value, list)}
    assert items(raw) == [(key, shallow(item)) for key, array in arrays.items() for item in array]


def test_a_byte_order_mark_and_space_around_do_not_matter() -> None:
    assert items(b'\xef\xbb\xbf {"a" : [ 1 , 2 ] }\r\n') == [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "at its beginning"),
        ("[1, 2", "at its beginning"),
        ('{"a": [1, 2', "after item 2 of 'a'"),
        ('{"a": ["one", "tw', "after item 1 of 'a'"),
        ('{"a": ["one" "two"]}', "after item 1 of 'a'"),
        ('{"a": [1, 2,]}', "after item 2 of 'a'"),
        ('{"a": [1, 2]', "after item 2 of 'a'"),
        ('{"a": [1, 2]} {', "after item 2 of 'a'"),
        ('{"a": [1], "b": [x]}', "after item 0 of 'b'"),
        (b'{"a": ["one", "sch\xf6n"]}', "after item 1 of 'a'"),
        ('{"a": [' + "[" * 1_000_000, "after item 1 of 'a'"),
        ('{"a": ["one", "' + "two" * 1_000_000, "after item 1 of 'a'"),
    ],
)
def test_damage_is_reported_with_its_place(monkeypatch: pytest.MonkeyPatch, text: str | bytes, place: str) -> None:
    monkeypatch.setattr(json_arrays, "MAX_CHARACTERS", 1 << 20)
    fault = fault_of(lambda: items(text))
    assert (fault.key, fault.kind) == ("data.path", "damaged")
    assert fault.message.startswith("file.json is no whole JSON object in UTF-8 (")
    assert place in fault.message


def test_memory_does_not_grow_with_the_arrays() -> None:
    def peak(count: int) -> int:
        raw = io.BufferedReader(io.BytesIO(json.dumps({"texts": ["x" * 100] * count}).encode()))
        tracemalloc.start()
        for _ in array_items(raw, "file.json"):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(100)
    assert peak(50_000) < 1.5 * peak(5_000)
