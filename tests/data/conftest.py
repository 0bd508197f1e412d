"""Tiny data: corpora of rows, and an IMDB tree of a few reviews."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from list_source import ROWS, GivenData, ListSource

from sentattn.data.corpus import Corpus, Row, open_corpus
from sentattn.data.tokenizer import WordTypes

FILMS = {"train/neg": ["tt11", "tt12", "tt13"], "train/pos": ["tt21", "tt22", "tt23"]}
REVIEWS = {
    "train/neg/0_3.txt": "Dull.<br /><br />I slept.",
    "train/neg/2_1.txt": "Not a good film!",
    "train/neg/10_2.txt": "Awful, awful film.",
    "train/pos/0_9.txt": "A good film.",
    "train/pos/1_10.txt": "Ein schöner Film…",
    "train/pos/2_7.txt": "A good film.",
    "train/unsup/0_0.txt": "Nobody has rated this.",
    "test/neg/0_4.txt": "Awful, awful film.",
    "test/pos/0_8.txt": "I was moved; 8/10.",
}


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[..., Corpus]:
    """Makes a corpus of rows by split; a bare text stands for a row of class 0."""

    def make(**rows: list[Row | str]) -> Corpus:
        given = {split: [Row(r, 0) if isinstance(r, str) else r for r in listed] for split, listed in rows.items()}
        source = ListSource(given)
        most = max((row.label for listed in given.values() for row in listed), default=0)
        source.labels = (*ListSource.labels, *(f"class {i}" for i in range(2, most + 1)))
        return open_corpus(source, tmp_path / "cache", name="given", types=WordTypes())[0]

    return make


@pytest.fixture
def data_of(tmp_path: Path) -> Callable[..., GivenData]:
    """Makes a data module of rows by split, with each of their words in the vocabulary."""

    def make(rows: dict[str, list[Row]] = ROWS, **settings: Any) -> GivenData:
        cache = str(tmp_path / "cache")
        return GivenData(ListSource(rows), **{"name": "given", "cache_dir": cache, "min_count": 1, **settings})

    return make


@pytest.fixture
def imdb_folder(tmp_path: Path) -> Path:
    """A folder with the tree of the IMDB archive."""
    root = tmp_path / "unpacked" / "aclImdb"
    for name, text in REVIEWS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    for name, films in FILMS.items():
        split, kind = name.split("/")
        lines = "".join(f"http://www.imdb.com/title/{film}/usercomments\n" for film in films)
        (root / split / f"urls_{kind}.txt").write_text(lines)
    (root / "README").write_text("not a review")
    return root.parent


@pytest.fixture
def imdb_archive(imdb_folder: Path, tmp_path: Path) -> Path:
    """The same as an archive; its members do not stand in the order of the rows."""
    path = tmp_path / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted((f for f in imdb_folder.rglob("*") if f.is_file()), reverse=True):
            archive.add(file, arcname=str(file.relative_to(imdb_folder)))
    return path
