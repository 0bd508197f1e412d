"""A table of the user's own in every form, whole and faulty: the same rows are one corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import assert_refused, fault_of, faults_of, refused
from table_files import write_table

from sentattn.data.corpus import Row
from sentattn.data.datasets.table import TableSource
from sentattn.data.readers.tables import Options, label_name, table_paths

ROWS = [("Good, so good!", "good"), ('Sagt "schön";\naber teuer', "ok"), ("", "bad"), ("Bad.", "bad")]


def write(path: Path, rows: Sequence[Sequence[Any]] = ROWS, columns: Sequence[str] = ("text", "label")) -> Path:
    return write_table(path, rows, columns)


def table(files: Path | Mapping[str, Path], **settings: Any) -> TableSource:
    files = {"train": files} if isinstance(files, Path) else files
    return TableSource(files, **{"text": "text", "label": "label", **settings})


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("word", ["NaN", " "])
def test_missing_labels_are_the_same_in_every_format(word: str, ending: str, tmp_path: Path) -> None:
    rows = [*ROWS, ("Really?", word)]
    unlabelled = table(write(tmp_path / f"train{ending}", rows))
    assert refused(lambda: list(unlabelled.read("train"))) == [("data.label", "missing")]
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
    assert not digits.ordered


def test_classes_of_all_files_are_those_of_training(tmp_path: Path) -> None:
    files = {"train": write(tmp_path / "a.csv"), "val": write(tmp_path / "b.jsonl", ROWS[:1])}
    source = table({**files, "test": write(tmp_path / "c.csv", ROWS[3:])})
    assert source.splits == ("train", "val", "test")
    assert list(source.read("test")) == [Row("Bad.", 0)]
    assert list(source.read("val")) == [Row("Good, so good!", 1)]


STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")


def test_numbers_are_labels_of_a_model_of_stars(tmp_path: Path) -> None:
    file = write(tmp_path / "test.csv", [("a", "5"), ("b", "1.0"), ("c", "4 stars")])
    assert [row.label for row in table({"test": file}, classes=STARS, ordered=True).read("test")] == [4, 0, 3]
    write(file, [("a", "5"), ("b", "0")])
    source = table({"test": file}, classes=STARS, ordered=True)
    legal = f"the model ({', '.join(STARS)})"
    assert_refused(lambda: list(source.read("test")), "data.label", "unknown", legal)


PARTS = [("Good", "So good!", "x"), (None, "b", "y"), ("a", None, "y"), ("c", "", "x"), (None, None, "y")]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_texts_of_several_columns_are_joined(tmp_path: Path, ending: str) -> None:
    source = table(write(tmp_path / f"train{ending}", PARTS, ("title", "body", "label")), text=["title", "body"])
    assert [row.text for row in source.read("train")] == ["Good\nSo good!", "b", "a", "c", ""]


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
        ([("a", "x"), (7, "y")], "data.text", "type", "line 3: 'text' "),
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
    assert_refused(lambda: list(table(path).read("train")), key, kind, f"{path}", fragment)


@pytest.mark.parametrize(
    ("classes", "key", "part"),
    [
        (["bad", "good"], "data.label", "data.classes (bad, good), got 'ok'."),
        (["bad", "good", "ok", "god"], "data.classes", "'god'"),
    ],
)
def test_classes_that_are_not_those_of_the_file(tmp_path: Path, classes: list[str], key: str, part: str) -> None:
    source = table(write(tmp_path / "train.csv"), classes=classes)
    assert_refused(lambda: list(source.read("train")), key, "unknown", part)


@pytest.mark.parametrize("skip", [True, False])
def test_unknown_labels_of_a_test_file(tmp_path: Path, skip: bool) -> None:
    files = {"train": write(tmp_path / "a.csv"), "test": write(tmp_path / "b.csv", [ROWS[0], ("Fine.", "great")])}
    source = table(files, skip_unlabeled=skip)
    assert_refused(lambda: list(source.read("test")), "data.label", "unknown", f"{files['test']}, line 3: ")


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


NAMES = ("title", "body", "label")
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
Rows = list[tuple[str, str, Any]]


def write_parts(path: Path, rows: Rows, encoding: str = "utf-8", *, header: bool = True) -> Path:
    return write_table(path, rows, NAMES, encoding, header=header)


def read(files: object, columns: Sequence[str] = NAMES, **options: Any) -> tuple[tuple[str, ...], list[Row]]:
    *text, label = columns
    source = TableSource({"train": files}, text=text, label=label, options=Options(**options))  # type: ignore[dict-item]
    rows = list(source.read("train"))
    return source.labels, rows


FORMS = ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "a.tsv.bz2", "a.json.xz", "a.jsonl.zst"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forms")


@settings(max_examples=25, deadline=None)
@given(
    labels=st.one_of(
        *(
            st.lists(kind, min_size=2, max_size=2, unique_by=label_name)
            for kind in (st.booleans(), st.dates(), st.datetimes(), st.integers(-9, 9))
        )
    ),
    texts=st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=9),
)
def test_every_form_is_the_same_corpus(folder: Path, labels: list[Any], texts: list[tuple[str, str]]) -> None:
    rows: Rows = [(title, body, labels[i % 2]) for i, (title, body) in enumerate(texts)]
    expected = read(write_parts(folder / "a.csv", rows))
    assert [row.text for row in expected[1]] == ["\n".join(filter(None, row[:2])) for row in rows]
    for name in FORMS[1:]:
        assert read(write_parts(folder / name, rows)) == expected, name
    parts = filter(None, (rows[:1], rows[1:2], rows[2:]))
    shards = [str(write_parts(folder / f"part-{i}.csv", part)) for i, part in enumerate(parts)]
    assert read(shards) == expected
    assert read(write_parts(folder / "bare.csv", rows, header=False), ("1", "2", "3"), header=False) == expected
    assert read(write_parts(folder / "utf16.csv", rows, "utf-16"), encoding="utf-16") == expected


PARTED: Rows = [("Schön", "a", "good"), ("", "b", "bad"), ("c", "", "good")]


def test_files_of_a_pattern_are_sorted_and_those_of_a_list_are_not(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c[1].csv"):
        write_parts(tmp_path / name, PARTED)
    assert [path.name for path in table_paths(f"{tmp_path}/?.csv", "data.train")] == ["a.csv", "b.csv"]
    assert [path.name for path in table_paths([f"{tmp_path}/b.csv", f"{tmp_path}/a.*"], "k")] == ["b.csv", "a.csv"]
    assert [path.name for path in table_paths(str(tmp_path / "c[1].csv"), "k")] == ["c[1].csv"]
    assert_refused(lambda: table_paths(f"{tmp_path}/*.tsv", "data.train"), "data.train", "not_found")


def test_fingerprint_of_several_files_follows_their_content_and_how_they_are_read(tmp_path: Path) -> None:
    one, two = (str(write_parts(tmp_path / name, PARTED[i:])) for i, name in enumerate(("a.csv", "b.csv")))

    def fingerprint(files: object, **options: Any) -> str:
        return TableSource({"train": files}, text="body", label="label", options=Options(**options)).fingerprint()  # type: ignore[dict-item]

    assert fingerprint([one]) == fingerprint(one)
    assert fingerprint([one, two]) == fingerprint(f"{tmp_path}/*.csv")
    others = [fingerprint([one, two]), fingerprint([two, one]), fingerprint(one), fingerprint(one, encoding="latin-1")]
    assert len({*others, fingerprint(one, header=False)}) == 5
    before = fingerprint([one, two])
    write_parts(Path(two), PARTED)
    assert fingerprint([one, two]) != before


@pytest.mark.parametrize("content", ["", "\n\n", "title,body,label\n", "label\nx\n"])
def test_each_file_must_have_the_columns_and_rows(tmp_path: Path, content: str) -> None:
    first, second = write_parts(tmp_path / "first.csv", PARTED), tmp_path / "second.csv"
    second.write_text(content)
    assert_refused(lambda: read([str(first), str(second)], ("title", "label")), "", "missing", str(second))


@pytest.mark.parametrize(
    ("name", "content", "options", "kind", "part"),
    [
        ("a.json", '["a", "b"]', {}, "damaged", "row 1"),
        ("a.json", '[{"title": "a", "label": "x"}, 3]', {}, "damaged", "row 2"),
        ("a.json", '[{"title": "a",\n "label": ]', {}, "damaged", "line 2"),
        ("a.json", '{\n"data": [{"title": "a", "label": "x"}]}', {}, "damaged", "line 1"),
        ("a.json", '{"data": [{"title": "a", "label": "x"}]}', {}, "missing", "'data'"),
        ("a.json", '[{"title": "a", "label": ["x"]}]', {}, "type", "row 1"),
        ("a.json", "[]", {}, "missing", "no row"),
        ("a.csv", "title,label\nSch\xf6n,x\n", {}, "damaged", "line 2: byte 0xf6"),
        ("a.csv", "title,label\nSch\xf6n,x\n", {"encoding": "utf-16"}, "damaged", "a.csv cannot be read"),
        ("a.csv", "\xff\xfet\0i\0", {}, "damaged", "encoding=utf-16"),
        ("a.csv", "title,label\na,x\n", {"encoding": "lattin1"}, "unknown", "Did you mean 'latin1'"),
        ("a.csv", "title,label\na,x\n", {"encoding": "rot13"}, "unknown", "utf-8"),
        ("a.csv.zst", "no zstd", {}, "damaged", "a.csv.zst"),
        ("a.csv.xz", "no xz", {}, "damaged", "a.csv.xz"),
        ("a.parquet.zst", "", {}, "unsupported", ".parquet"),
        ("a.csv", "a,x\nb,y\n", {"header": False}, "missing", "'1', '2'"),
    ],
)
def test_faulty_files_are_named(
    tmp_path: Path, name: str, content: str, options: dict[str, Any], kind: str, part: str
) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    fault = faults_of(lambda: read(tmp_path / name, ("title", "label"), **options))[0]
    assert fault.kind == kind
    assert part in fault.message


def test_a_damaged_end_of_zstd_is_found(tmp_path: Path) -> None:
    path = write_parts(tmp_path / "a.csv.zst", PARTED * 1000)
    path.write_bytes(path.read_bytes()[:-5])
    assert fault_of(lambda: read(path)).kind == "damaged"
