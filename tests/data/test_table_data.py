"""The data module of a table of one's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import assert_refused, refused

from sentattn.data.datasets.table import Table

SHARES = {"bad": 20, "good": 30, "ok": 10}


@pytest.fixture
def table_of(tmp_path: Path) -> Callable[..., Table]:
    def make(**settings: Any) -> Table:
        cache = str(tmp_path / "cache")
        return Table(**{"train": write(tmp_path / "train.csv"), "min_count": 1, "cache_dir": cache, **settings})

    return make


def write(path: Path, prefix: str = "text", *, shares: dict[str, int] = SHARES) -> str:
    """Writes a table sorted by label, as spreadsheets often are, and returns its path."""
    rows = [f"{prefix} {label} {i},{label}\n" for label, count in shares.items() for i in range(count)]
    path.write_text("text,label\n" + "".join(rows))
    return str(path)


def counts(data: Table, split: str) -> list[int]:
    labels = data.split(split).labels.tolist()
    return [labels.count(i) for i in range(len(data.labels))]


def test_a_tenth_of_each_class_is_for_val_and_test(table_of: Callable[..., Table]) -> None:
    data = table_of()
    assert counts(data, "test") == [2, 3, 1]
    assert counts(data, "val") == [2, 2, 1]  # a tenth of the 54 rows left is 5; by share 1.67, 2.5 and 0.83
    assert counts(data, "train") == [16, 25, 8]
    assert data.labels == ("bad", "good", "ok")
    assert data.report[1].startswith("table: 49 train, 5 val, 6 test ")
    assert data.report[1].endswith(": bad, good, ok.")
    rows = [set(data.split(split).row.tolist()) for split in ("train", "val", "test")]
    assert sorted(set.union(*rows)) == list(range(60))


def test_sizes_and_seeds_of_the_splits(table_of: Callable[..., Table]) -> None:
    data = table_of(val_size=6, test_size=0.5)
    assert [len(data.split(split)) for split in ("train", "val", "test")] == [24, 6, 30]
    other = table_of(val_size=6, test_size=0.5, test_seed=1)
    assert data.split("test").row.tolist() != other.split("test").row.tolist()


def test_val_and_test_files_are_used_whole(table_of: Callable[..., Table], tmp_path: Path) -> None:
    val, test = write(tmp_path / "val.csv", "other"), write(tmp_path / "test.csv", "third", shares={"ok": 7})
    data = table_of(val=val, test=test)
    assert [len(data.split(split)) for split in ("train", "val", "test")] == [60, 60, 7]
    assert data.split("test").texts(0) == "third ok 0"
    assert len(table_of(test=test, test_size=3).split("test")) == 3


def test_rows_without_a_label_are_skipped_and_counted_each_time(table_of: Callable[..., Table], tmp_path: Path) -> None:
    path = Path(write(tmp_path / "gaps.csv"))
    path.write_text(path.read_text() + "new,\nnewer,\n")
    for _ in range(2):  # the second time from the cache
        data = table_of(train=str(path), skip_unlabeled=True)
        data.prepare()
        assert [re.findall(r"\d+", line) for line in data.report if line.startswith("Skipped")] == [["2"]]
    assert refused(table_of(train=str(path)).prepare) == [("data.label", "missing")]


def test_a_cached_table_is_not_read_again(table_of: Callable[..., Table], monkeypatch: pytest.MonkeyPatch) -> None:
    first = table_of(classes=["bad", "ok", "good"])
    first.prepare()
    monkeypatch.setattr("sentattn.data.readers.tables.records", lambda *given: pytest.fail("read again"))
    second = table_of(classes=["bad", "ok", "good"], val_size=9)
    assert counts(second, "test") == [2, 1, 3]
    assert (second.labels, second.ordered) == (first.labels, first.ordered) == (("bad", "ok", "good"), True)


@pytest.mark.parametrize(
    ("settings", "key", "kind"),
    [
        ({"group": "label"}, "data.label", "conflict"),
        ({"val_by": "group"}, "data.group", "missing"),
        ({"classes": "bad"}, "classes", "type"),
        ({"test_seed": None}, "test_seed", "type"),
    ],
)
def test_faulty_settings(table_of: Callable[..., Table], settings: dict[str, Any], key: str, kind: str) -> None:
    assert refused(lambda: table_of(**settings)) == [(key, kind)]


def test_a_table_needs_a_file() -> None:
    assert_refused(Table().prepare, "data.train", "missing", "data.train=FILE")


def test_a_model_is_tested_on_one_file(table_of: Callable[..., Table], tmp_path: Path) -> None:
    test = write(tmp_path / "test.csv", "other", shares={"ok": 7, "good": 2})
    data = table_of(train=None, test=test)
    data.test_only("test", ("bad", "ok", "good"), ordered=False)
    data.prepare(words=["other", "ok"])
    assert counts(data, "test") == [0, 7, 2]
    assert not data.ordered
    [line] = data.report[1:]
    assert line.startswith("table: 9 test ")
    assert line.endswith(": bad, ok, good.")
    assert_refused(lambda: data.split("train"), "train", "missing", "it has test")


def test_a_model_is_tested_on_one_validation_file(table_of: Callable[..., Table], tmp_path: Path) -> None:
    data = table_of(train=None, val=write(tmp_path / "val.csv"))
    data.test_only("val", tuple(SHARES), ordered=False)
    data.prepare(words=["bad"])
    assert counts(data, "val") == [20, 30, 10]


def test_validation_rows_depend_on_the_test_file_where_repeats_are_dropped(
    table_of: Callable[..., Table], tmp_path: Path
) -> None:
    val, test = write(tmp_path / "val.csv"), write(tmp_path / "test.csv", shares={"bad": 4, "good": 4, "ok": 4})
    data = table_of(train=write(tmp_path / "a.csv", "other"), val=val, test=test, drop_duplicates=True)
    data.test_only("val", tuple(SHARES), ordered=False)
    assert len(data.split("val")) == 60 - 12


def write_grouped(path: Path, *, groups: int = 12, each: int = 5) -> str:
    """Writes a table in which each product has reviews of two classes, and two reviews have none."""
    rows = [f"text {g} {i},{'good' if i % 2 else 'bad'},{g}\n" for g in range(groups) for i in range(each)]
    path.write_text("text,label,product\n" + "".join(rows) + "one,good,\ntwo,bad, \n")
    return str(path)


def test_rows_of_a_group_are_in_one_split(table_of: Callable[..., Table], tmp_path: Path) -> None:
    data = table_of(train=write_grouped(tmp_path / "grouped.csv"), group="product", val_size=0.2, test_size=0.2)
    groups = [set(data.split(split).group) - {""} for split in ("train", "val", "test")]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 12
    assert all(groups)
    assert sum("data.val_by=group" in line for line in data.report) == 2


def test_rows_of_a_group_may_be_divided(table_of: Callable[..., Table], tmp_path: Path) -> None:
    files = {"train": write_grouped(tmp_path / "grouped.csv"), "val_size": 0.4}
    divided, plain = (table_of(**files, group="product", val_by="row"), table_of(**files))
    assert set(divided.split("train").group) & set(divided.split("val").group) - {""}
    assert divided.split("val").row.tolist() == plain.split("val").row.tolist()
    assert set(plain.split("train").group) == {""}


def test_test_rows_of_training_rows_are_whole_groups_with_a_validation_file(
    table_of: Callable[..., Table], tmp_path: Path
) -> None:
    train, val = write_grouped(tmp_path / "grouped.csv"), write_grouped(tmp_path / "val.csv", groups=2)
    data = table_of(train=train, val=val, group="product", test_size=0.3)
    assert not set(data.split("train").group) & set(data.split("test").group) - {""}


def test_a_model_is_tested_on_a_file_without_groups(table_of: Callable[..., Table], tmp_path: Path) -> None:
    data = table_of(train=None, test=write(tmp_path / "test.csv"), group="product")
    data.test_only("test", tuple(SHARES), ordered=False)
    data.prepare(words=["bad"])
    assert set(data.split("test").group) == {""}


def test_a_missing_column_of_groups_is_named(table_of: Callable[..., Table]) -> None:
    assert_refused(lambda: table_of(group="product").prepare(), "", "missing", "data.group=COLUMN")


def test_each_row_of_a_table_is_tested_in_one_fold(table_of: Callable[..., Table]) -> None:
    data = [table_of(folds=5, fold=fold) for fold in range(5)]
    assert [counts(each, "test") for each in data] == [[4, 6, 2]] * 5
    assert sorted(row for each in data for row in each.split("test").row.tolist()) == list(range(60))
    assert [len(data[0].split(split)) for split in ("train", "val", "test")] == [43, 5, 12]
    assert "data.fold=3 of 5, drawn with seed 0: 12 rows" in "\n".join(data[3].report)
    assert len({each.fingerprint for each in data}) == 5
    with_seed, with_split_seed = table_of(folds=5, fold=3, seed=2), table_of(folds=5, fold=3, split_seed=2)
    assert with_seed.split("test").row.tolist() == with_split_seed.split("test").row.tolist()
    assert with_seed.split("test").row.tolist() != data[3].split("test").row.tolist()
