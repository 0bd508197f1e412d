"""JSON lines."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.datasets.formats import ColumnError, Record, read_json_lines
from sentattn.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_subnormal=False), TEXTS)


def read(content: str | bytes, columns: Sequence[str] | None = ("review", "stars")) -> list[Record]:
    return list(
        read_json_lines(io.BytesIO(content if isinstance(content, bytes) else content.encode()), "table", columns)
    )


@given(
    rows=st.lists(st.fixed_dictionaries({"review": VALUES, "stars": VALUES, "note": VALUES})),
    escaped=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_objects_that_json_writes_come_back(rows: list[dict[str, Any]], escaped: bool, end: str) -> None:
    content = "".join(json.dumps(row, ensure_ascii=escaped) + end for row in rows)
    found = read(content)
    assert [record.values for record in found] == [{"review": row["review"], "stars": row["stars"]} for row in rows]
    assert [record.where for record in found] == [
        f"line {len(end.split()) + i * end.count(chr(10)) + 1}" for i in range(len(rows))
    ]
    assert [record.values for record in read(content, None)] == rows


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("no json at all", "table, line 3 is no JSON, 'no json at all'; each line must hold one whole object, {...}."),
        ('{"review": "cut', "table, line 3 is no JSON"),
        ('[{"review": "a"},', "table, line 3 is no JSON"),
        ('["a", 1]', "table, line 3 holds no JSON object; each line must hold one"),
        ("[" * 100_000, "table, line 3 is no JSON"),
        (f'{{"review": "a", "stars": {"1" * 5000}}}', "table, line 3 is no JSON"),
        ('{"review": "\\ud83d", "stars": 1}', "table, line 3: 'review' holds half a character (position 1)."),
        (b'{"review": "sch\xf6n", "stars": 1}', 'table, line 3: byte 0xf6 behind \'{"review": "sch\' is not UTF-8'),
    ],
)
def test_a_line_that_is_none_is_named(line: str | bytes, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        read(b'{"review": "a", "stars": 1}\n\n' + (line if isinstance(line, bytes) else line.encode()))
    assert str(caught.value).startswith(sentence)


def test_a_line_without_the_key_is_named() -> None:
    with pytest.raises(
        ColumnError, match=r"table, line 2 has no column 'stars'; it has 'review', 'star'\. Did you mean 'star'"
    ):
        read('{"review": "a", "stars": 1}\n{"review": "b", "star": 1}\n')
