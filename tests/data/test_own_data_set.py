"""A data set class of one's own: the guide's example as it stands there, and the faults of others."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from list_source import GivenData, ListSource
from refusals import kinds, refused

from sentattn import train
from sentattn.data.corpus import Row

GUIDE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
LABELS = ("private", "work")
SMALL = ["trainer.max_epochs=1", "model.encoder.hidden=4", "model.embedding.size=4", "logger=none", "threads=1"]


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)
    return str(found)


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The guide's files and a database, in the working directory."""
    (tmp_path / "notes.py").write_text(block("python"))
    (tmp_path / "my_conf" / "data").mkdir(parents=True)
    (tmp_path / "my_conf" / "data" / "notes.yaml").write_text(block("yaml"))
    with sqlite3.connect(tmp_path / "notes.db") as database:
        database.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, label TEXT, author TEXT)")
        rows = [(f"a {LABELS[i % 2]} note {i}", LABELS[i % 2], f"author {i // 4}") for i in range(60)]
        database.executemany("INSERT INTO notes (text, label, author) VALUES (?, ?, ?)", rows)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTATTN_CACHE", str(tmp_path / "cache"))
    sys.modules.pop("notes", None)
    return tmp_path


def test_the_example_of_the_guide_is_trained(guide: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--config-dir", "my_conf", "data=notes", "data.path=notes.db", "data.min_count=1"]
    assert train.main([*own, *SMALL]) == 0
    assert "49 train, 5 val, 6 test" in capsys.readouterr().out
    assert list(guide.glob("outputs/notes/structured/*/result.json"))


def test_its_settings_are_checked(guide: Path) -> None:
    faulty = ["data.val_size=2", "data.valsize=0.1", "data.lowercase=7"]
    assert sorted(kinds([f"--config-dir={guide / 'my_conf'}", "data=notes", "data.path=notes.db", *faulty])) == [
        ("data.lowercase", "type"),
        ("data.val_size", "range"),
        ("data.valsize", "unknown"),
    ]


class OwnSource(ListSource):
    """A source whose attributes may be anything."""

    def __init__(self, *, rows: list[Any] | None = None, **attributes: Any) -> None:
        super().__init__({"train": [Row(f"text {i}", i % 2) for i in range(20)] if rows is None else rows})
        for name, value in attributes.items():
            setattr(self, name, value)

    def read(self, split: str) -> Iterator[Row]:
        yield from self.rows["train"]


@pytest.mark.parametrize(
    ("made", "key", "kind"),
    [
        (OwnSource(), "data.val_size", "missing"),
        (OwnSource(rows=[Row(f"text {i}", np.int64(i % 2)) for i in range(20)]), "data.val_size", "missing"),  # type: ignore[arg-type]
        (None, "data", "type"),
        (OwnSource(splits=("train", "valid")), "data", "type"),
        (OwnSource(splits="train"), "data", "type"),
        (OwnSource(splits=()), "data", "type"),
        (OwnSource(labels=("one",)), "data", "type"),
        (OwnSource(labels=(0, 1)), "data", "type"),
        (OwnSource(labels=None), "data", "type"),
        (OwnSource(rows=[Row("a", 0), Row("b", 2)]), "data", "type"),
        (OwnSource(rows=[Row("a", 0), Row("b", -1)]), "data", "type"),
        (OwnSource(rows=[Row("a", "negative")]), "data", "type"),  # type: ignore[arg-type]
        (OwnSource(rows=[Row(b"a", 0)]), "data", "type"),  # type: ignore[arg-type]
        (OwnSource(rows=[("a", 0)]), "data", "type"),
        (OwnSource(rows=[Row("a", 0, group=0)]), "data", "type"),  # type: ignore[arg-type]
        (OwnSource(rows=[Row("half \ud800", 0)]), "text", "unreadable"),
    ],
)
@pytest.mark.parametrize("limit", [None, 10])
def test_attributes_are_checked(made: object, key: str, kind: str, limit: int | None, tmp_path: Path) -> None:
    assert refused(GivenData(made, name="own", cache_dir=str(tmp_path), limit=limit).prepare) == [(key, kind)]
    assert not list(tmp_path.glob(".own*"))


def test_validation_rows_may_be_a_split_or_set_aside(tmp_path: Path) -> None:
    data = GivenData(OwnSource(splits=("train", "val")), name="own", cache_dir=str(tmp_path), min_count=1)
    assert len(data.split("val")) == 20
    data = GivenData(OwnSource(), name="own", cache_dir=str(tmp_path), min_count=1)
    data.val_size = 0.1
    assert len(data.split("val")) == 2


@pytest.mark.parametrize("name", ["../../x", ""])
def test_names_with_paths_are_refused(name: str) -> None:
    assert refused(lambda: GivenData(None, name=name)) == [("data.name", "range")]
