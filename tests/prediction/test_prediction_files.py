"""Files of texts in, files of predictions out."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from refusals import assert_refused, fault_of, refused

from sentattn.errors import DataError, Fault
from sentattn.predict import Row, predict_rows, read_rows, to_json, write_predictions
from sentattn.prediction.prediction import Prediction

TEXTS = ['Good, "really" good!', "Schön; aber\tlang", "7/10"]


def write(path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        match path.suffix:
            case ".txt":
                file.write("".join(f"{text}\n" for text in TEXTS))
            case ".jsonl":
                file.write("".join(json.dumps({"text": text, "stars": 3}) + "\n" for text in TEXTS))
            case suffix:
                writer = csv.writer(file, delimiter="," if suffix == ".csv" else "\t")
                writer.writerows([["stars", "text"], *([3, text] for text in TEXTS)])
    return path


def prediction(text: str) -> Prediction:
    return Prediction(
        text=text,
        label="positive",
        probabilities={"negative": 0.25, "positive": 0.75},
        tokens=[text[:1]],
        spans=[(0, 1)],
        attention=[[1.0]],
        unknown=[0],
    )


LABELS = ("negative", "positive")
ADDED = ["label", "probability_negative", "probability_positive", "unknown_words", "error"]


def texts(path: Path, **settings: str) -> list[str]:
    return [row.text for row in read_rows(str(path), **settings)[1]]


def predict(stream: Iterator[str]) -> Iterator[Prediction]:
    """Reads ahead, as a classifier does."""
    yield from [prediction(text) if text.strip() else Prediction.empty(text) for text in stream]


def write_all(source: Path, output: Path, column: str = "text") -> None:
    columns, rows = read_rows(str(source), column=column)
    write_predictions(output, predict_rows(rows, predict), columns=columns, labels=LABELS)


def read_table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".tsv", ".jsonl"])
def test_texts_are_read_in_order(tmp_path: Path, suffix: str) -> None:
    assert texts(write(tmp_path / f"texts{suffix}")) == TEXTS


def test_rows_without_a_text_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("stars;review\n1;good\n2;\n3;<br /> <br>\n\n4;bad\n")
    columns, rows = read_rows(str(tmp_path / "a.csv"), column="review")
    assert columns == ["stars", "review"]
    assert [(row.where, row.text) for row in rows] == [
        ("line 2", "good"),
        ("line 3", ""),
        ("line 4", "<br /> <br>"),
        ("line 6", "bad"),
    ]
    (tmp_path / "a.txt").write_text("good\n\nbad\n")
    assert texts(tmp_path / "a.txt") == ["good", "", "bad"]


def test_standard_input_is_lines_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("good\n\nSch\u00f6n\n".encode())))
    columns, rows = read_rows("-")
    assert columns == ["text"]
    assert [(row.where, row.text) for row in rows] == [("line 1", "good"), ("line 2", ""), ("line 3", "Sch\u00f6n")]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", b"good\nb\xe4d\n", "damaged"),
        ("a.csv", b"review,stars\nx,1\n", "missing"),
        ("a.jsonl", b'{"text": "x"}\n{"review": "y"}\n', "missing"),
        ("a.jsonl", b'{"text": "x"}\nnonsense\n', "damaged"),
        ("a.jsonl", b'{"text": 7}\n', "type"),
        ("a.pdf", b"x", "unsupported"),
    ],
)
def test_errors_of_files(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert fault_of(lambda: texts(tmp_path / name)).kind == kind


def test_missing_columns_and_files_have_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("review,stars\nx,1\n")
    assert_refused(lambda: texts(tmp_path / "mine.csv"), "", "missing", "'text'", "'review', 'stars'", "column=NAME")
    assert_refused(lambda: texts(tmp_path / "none.csv"), "input", "not_found", "'mine.csv'")


def test_json_lines_have_all_fields(tmp_path: Path) -> None:
    write_all(write(tmp_path / "in.jsonl"), tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["text"], row["stars"]) for row in rows] == [(text, 3) for text in TEXTS]
    assert rows[0]["attention"] == [[1.0]]
    own = ["label", "probabilities", "tokens", "spans", "unknown", "attention", "cut"]
    assert list(rows[0]) == ["text", "stars", *own]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_any_row_can_be_written(tmp_path: Path, ending: str) -> None:
    lines = [
        '{"text": "a", "n": NaN, "meta": {"in\\ud800": ["\\udc00 x", {"y": -Infinity}]}}',
        '{"text": "b", "n": 1.5, "meta": "\\ud83d\\ude00"}',  # a whole pair is a character
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    write_all(tmp_path / "in.jsonl", tmp_path / f"out.{ending}")
    content = (tmp_path / f"out.{ending}").read_bytes().decode()
    assert "NaN" not in content
    assert "Infinity" not in content
    expected = {"in\ufffd": ["\ufffd x", {"y": None}]}
    if ending == "jsonl":
        first, second = (json.loads(line) for line in content.splitlines())
        assert (first["n"], first["meta"]) == (None, expected)
        assert (second["n"], second["meta"]) == (1.5, "\U0001f600")
    else:
        _, first, second = read_table(tmp_path / f"out.{ending}")
        assert (first[1], json.loads(first[2])) == ("", expected)
        assert second[1:3] == ["1.5", "\U0001f600"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_table_keeps_all_columns_and_rows_in_their_order(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "in.csv").write_text('id,review,label,\n1,"good, ""really""",x,\n2,,y,\n,bad,,z\n', encoding="utf-8")
    write_all(tmp_path / "in.csv", tmp_path / f"out{suffix}", "review")
    header, *rows = read_table(tmp_path / f"out{suffix}")
    assert header == ["id", "review", "label", "", "predicted_label", *ADDED[1:]]
    assert [row[:4] for row in rows] == [["1", 'good, "really"', "x", ""], ["2", "", "y", ""], ["", "bad", "", "z"]]
    assert rows[0][4:] == ["positive", "0.250000", "0.750000", "g", ""]
    assert rows[1][4:] == ["", "", "", "", "no text"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("in.csv", "text,a,a,a (2)\ngood,1,2,3\n", [["text", "a", "a (3)", "a (2)"], ["good", "1", "2", "3"]]),
        (
            "in.jsonl",
            '{"text": "a", "n": 1}\n{"text": null, "more": [1, true]}\n{"text": "b", "n": null}\n',
            [["text", "n", "more"], ["a", "1", ""], ["", "", "[1, true]"], ["b", "", ""]],
        ),
    ],
    ids=["columns of the same name", "objects with different keys"],
)
def test_all_columns_are_one_table(tmp_path: Path, name: str, content: str, expected: list[list[str]]) -> None:
    (tmp_path / name).write_text(content)
    write_all(tmp_path / name, tmp_path / "out.csv")
    assert [row[: len(expected[0])] for row in read_table(tmp_path / "out.csv")] == expected


def test_a_table_in_parquet_keeps_its_columns(tmp_path: Path) -> None:
    table = pa.table({"n": [1.5, math.nan], "text": ["good", None], "day": [datetime.date(2026, 1, 2)] * 2})
    pq.write_table(table, tmp_path / "in.parquet")
    write_all(tmp_path / "in.parquet", tmp_path / "out.csv")
    rows = [row[:3] for row in read_table(tmp_path / "out.csv")]
    assert rows == [["n", "text", "day"], ["1.5", "good", "2026-01-02"], ["", "", "2026-01-02"]]
    write_all(tmp_path / "in.parquet", tmp_path / "out.jsonl")
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["day"], first["label"]) == ("2026-01-02", "positive")
    assert (second["label"], second["error"], second["n"]) == (None, "no text", None)


def test_words_that_are_added_are_no_formula(tmp_path: Path) -> None:
    for sign in "=+-@":
        (tmp_path / "in.csv").write_text(f"text\n{sign}HYPERLINK\n")
        write_all(tmp_path / "in.csv", tmp_path / "out.csv")
        _, [text, *_, unknown, _] = read_table(tmp_path / "out.csv")
        assert (text, unknown) == (f"{sign}HYPERLINK", f" {sign}")  # the cells of the input stay


def test_predictions_replace_no_columns() -> None:
    row = Row(
        "line 1", {"review": "good", "text": "other", "label": 1, "predicted_label": 2}, "good", prediction("good")
    )
    record = json.loads(to_json(row, list(row.values)))
    assert (record["text"], record["label"], record["predicted_label"]) == ("other", 1, 2)
    assert record["predicted_predicted_label"] == "positive"


def test_an_error_while_writing_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> Iterator[Row]:
        yield Row("line 1", {"text": "a"}, "a", prediction("a"))
        raise DataError(Fault("", "failed", "line 2 is damaged"))

    with pytest.raises(DataError):
        write_predictions(tmp_path / "out.jsonl", failing(), columns=["text"], labels=LABELS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "kind"), [("out.xls", "unsupported"), ("none/out.csv", "unwritable")])
def test_errors_of_outputs(tmp_path: Path, name: str, kind: str) -> None:
    write = partial(write_predictions, tmp_path / name, [], columns=["text"], labels=LABELS)
    assert refused(write) == [("output", kind)]
