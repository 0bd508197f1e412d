"""A table of the user's own, whole and faulty."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from refusals import assert_refused, fault_of, refused

from sentattn.data.corpus import Row
from sentattn.data.datasets.table import TableSource

ROWS = [("Good, so good!", "good"), ('Sagt "schön";\naber teuer', "ok"), ("", "bad"), ("Bad.", "bad")]


def write(path: Path, rows: Sequence[tuple[Any, ...]] = ROWS, columns: Sequence[str] = ("text", "label")) -> Path:
    """Writes rows in the format of the ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)}), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, *rows])
    return path


def table(files: Path | Mapping[str, Path], **settings: Any) -> TableSource:
    files = {"train": files} if isinstance(files, Path) else files
    return TableSource(files, **{"text": "text", "label": "label", **settings})


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_rows_and_classes(tmp_path: Path, ending: str) -> None:
    source = table(write(tmp_path / f"train{ending}"))
    assert [(row.text, row.label) for row in source.read("train")] == [
        ("Good, so good!", 1),
        ('Sagt "schön";\naber teuer', 2),
        ("", 0),
        ("Bad.", 0),
    ]
    assert source.labels == ("bad", "good", "ok")
    assert not source.ordered


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("word", ["nan", "NaN", "None", "null", "NULL", "<NA>", " "])
def test_missing_labels_are_the_same_in_every_format(word: str, ending: str, tmp_path: Path) -> None:
    rows = [*ROWS, ("Really?", word)]
    fault = fault_of(lambda: list(table(write(tmp_path / f"train{ending}", rows)).read("train")))
    assert (fault.key, fault.kind) == ("data.label", "missing")
    rows = [(*row, row[1]) for row in ROWS] + [("Really?", "bad", word)]
    source = table(write(tmp_path / f"groups{ending}", rows, ("text", "label", "film")), group="film")
    assert [row.group for row in source.read("train")][-1] == ""


def test_equal_numbers_are_one_class(tmp_path: Path) -> None:
    source = table(write(tmp_path / "train.jsonl", [("a", 10), ("b", "2"), ("c", 2.0), ("d", 9.5), ("e", 10.0)]))
    assert [row.label for row in source.read("train")] == [2, 0, 0, 1, 2]
    assert source.labels == ("2", "9.5", "10")
    assert source.ordered


def test_given_classes_keep_their_order(tmp_path: Path) -> None:
    source = table(write(tmp_path / "train.csv"), classes=["bad", "ok", "good"])
    assert [row.label for row in source.read("train")] == [2, 1, 0, 0]
    assert source.labels == ("bad", "ok", "good")
    assert source.ordered
    digits = table(write(tmp_path / "digits.csv", [("a", "1.0"), ("b", "0")]), classes=[1, 0])
    assert [row.label for row in digits.read("train")] == [0, 1]


def test_classes_of_all_files_are_those_of_training(tmp_path: Path) -> None:
    files = {"train": write(tmp_path / "a.csv"), "val": write(tmp_path / "b.jsonl", ROWS[:1])}
    source = table({**files, "test": write(tmp_path / "c.csv", ROWS[3:])})
    assert source.splits == ("train", "val", "test")
    assert list(source.read("test")) == [Row("Bad.", 0)]
    assert list(source.read("val")) == [Row("Good, so good!", 1)]


def test_a_test_file_alone_needs_classes(tmp_path: Path) -> None:
    source = table({"test": write(tmp_path / "c.csv", ROWS[3:])}, classes=["bad", "good", "ok"], ordered=False)
    assert list(source.read("test")) == [Row("Bad.", 0)]
    assert not source.ordered


STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")


def test_numbers_are_labels_of_a_model_of_stars(tmp_path: Path) -> None:
    file = write(tmp_path / "test.csv", [("a", "5"), ("b", "1.0"), ("c", "4 stars")])
    assert [row.label for row in table({"test": file}, classes=STARS, ordered=True).read("test")] == [4, 0, 3]
    write(file, [("a", "5"), ("b", "0")])
    fault = fault_of(lambda: list(table({"test": file}, classes=STARS, ordered=True).read("test")))
    assert (fault.key, fault.kind) == ("data.label", "unknown")
    assert f"the model ({', '.join(STARS)})" in fault.message


def test_a_missing_text_is_an_empty_one(tmp_path: Path) -> None:
    for name in ("train.jsonl", "train.parquet"):
        source = table(write(tmp_path / name, [("a", "x"), (None, "y"), ("b", "y")]))
        assert [row.text for row in source.read("train")] == ["a", "", "b"]


PARTS = [("Good", "So good!", "x"), (None, "b", "y"), ("a", None, "y"), ("c", "", "x"), (None, None, "y")]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_texts_of_several_columns_are_joined(tmp_path: Path, ending: str) -> None:
    source = table(write(tmp_path / f"train{ending}", PARTS, ("title", "body", "label")), text=["title", "body"])
    assert [row.text for row in source.read("train")] == ["Good\nSo good!", "b", "a", "c", ""]


def test_a_part_of_a_text_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", [("a", "b", "x"), ("a", 7, "y")], ("title", "body", "label"))
    fault = fault_of(lambda: list(table(path, text=["title", "body"]).read("train")))
    assert (fault.key, fault.kind) == ("data.text", "type")
    assert "line 2: 'body'" in fault.message


def test_fingerprint_follows_content_and_settings(tmp_path: Path) -> None:
    train, test = write(tmp_path / "train.csv"), write(tmp_path / "test.csv", ROWS[:2])
    (tmp_path / "moved").mkdir()
    same = table({"train": write(tmp_path / "moved" / "other.csv"), "test": test})
    first = table({"train": train, "test": test})
    others = [
        table(train),
        table({"train": test, "test": train}),
        table({"train": train, "test": test}, classes=["bad", "good", "ok"]),
        table({"train": train, "test": test}, classes=["bad", "ok", "good"]),
        table({"train": train, "test": test}, text="label", label="text"),
        table({"train": train, "test": test}, text=["text", "label"]),
    ]
    assert first.fingerprint() == same.fingerprint()
    before = first.fingerprint()
    write(test, ROWS[1:3])
    assert len({before, first.fingerprint(), *(other.fingerprint() for other in others)}) == 8


@pytest.mark.parametrize(
    ("rows", "key", "kind", "fragment"),
    [
        ([("a", "x"), (7, "y")], "data.text", "type", "line 3: "),
        ([("a", "x"), (True, "y")], "data.text", "type", "line 3: "),
        ([("a", "x"), (["b"], "y")], "data.text", "type", "line 3: "),
        ([("a", "x"), ("b", ["y"])], "data.label", "type", "line 3: "),
        ([("a", "x"), ("b", {"y": 1})], "data.label", "type", "line 3: "),
        ([("a", "x"), ("b", "x")], "data.label", "range", "1 different values"),
        ([("a", f"user {i}") for i in range(50)], "data.label", "type", "50 different values"),
        ([], "", "missing", "holds no row."),
    ],
)
def test_faulty_rows_are_named(tmp_path: Path, rows: list[tuple[Any, ...]], key: str, kind: str, fragment: str) -> None:
    path = write(tmp_path / "train.jsonl", rows)
    path.write_text("\n" + path.read_text())
    fault = fault_of(lambda: list(table(path).read("train")))
    assert (fault.key, fault.kind) == (key, kind)
    assert fault.message.startswith(f"{path}")
    assert fragment in fault.message


@pytest.mark.parametrize(
    ("settings", "kind", "fragment"),
    [
        ({"classes": ["bad", "good"]}, "unknown", "data.classes (bad, good), got 'ok'."),
        ({"classes": ["bad", "good", "ok", "god"]}, "unknown", "'god'"),
        ({"text": "txt"}, "missing", "Did you mean 'text'?"),
        ({"label": "stars"}, "missing", "'stars'"),
    ],
)
def test_columns_and_classes_that_the_file_lacks(
    tmp_path: Path, settings: dict[str, Any], kind: str, fragment: str
) -> None:
    fault = fault_of(lambda: list(table(write(tmp_path / "train.csv"), **settings).read("train")))
    assert fault.kind == kind
    assert fragment in fault.message


@pytest.mark.parametrize("skip", [True, False])
def test_unknown_labels_of_a_test_file(tmp_path: Path, skip: bool) -> None:
    files = {"train": write(tmp_path / "a.csv"), "test": write(tmp_path / "b.csv", [ROWS[0], ("Fine.", "great")])}
    fault = fault_of(lambda: list(table(files, skip_unlabeled=skip).read("test")))
    assert (fault.key, fault.kind) == ("data.label", "unknown")
    assert fault.message.startswith(f"{files['test']}, line 3: ")


@pytest.mark.parametrize("split", ["train", "test"])
def test_rows_without_a_label_are_refused_with_their_number_or_skipped(tmp_path: Path, split: str) -> None:
    gaps = [row for pair in zip(ROWS, [("?", word) for word in ("", "nan", " ", "NULL")], strict=True) for row in pair]
    files = {"train": write(tmp_path / "train.csv"), "test": write(tmp_path / "test.csv")}
    write(files[split], gaps)
    assert_refused(
        lambda: list(table(files).read(split)),
        *("data.label", "missing"),
        *(f"4 of 8 {split} rows", "line 3; ", "line 6; ", "line 8; ...", "data.skip_unlabeled=true"),
    )
    source = table(files, skip_unlabeled=True)
    assert [row.text for row in source.read(split)] == [text for text, _ in ROWS]
    assert source.skipped[split] == 4
    assert source.fingerprint() != table(files).fingerprint()


def test_a_file_without_any_label_is_refused_in_any_case(tmp_path: Path) -> None:
    files = {"train": write(tmp_path / "train.csv"), "test": write(tmp_path / "test.csv", [("a", ""), ("b", "")])}
    fault = fault_of(lambda: list(table(files, skip_unlabeled=True).read("test")))
    assert (fault.key, fault.kind) == ("data.label", "missing")
    assert "skip_unlabeled" not in fault.message


def test_missing_files_are_reported_with_their_setting(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv")
    fault = fault_of(lambda: table({"train": train, "test": tmp_path / "trian.csv"}))
    assert (fault.key, fault.kind) == ("data.test", "not_found")
    assert "Did you mean 'train.csv'?" in fault.message
    (tmp_path / "book.ods").touch()
    assert refused(lambda: table(tmp_path / "book.ods")) == [("data.train", "unsupported")]
