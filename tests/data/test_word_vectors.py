"""Vectors of a vocabulary: exact in every format, looked up, cached and reported."""

from __future__ import annotations

import gzip
import os
import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_source import GivenData
from numpy.typing import NDArray
from refusals import assert_refused, refused

from sentattn.data.corpus import Row
from sentattn.data.word_vectors import VectorFile, WordVectors, read_vectors

TEXT = "The 1 2 3\nthe 4 5 6\nfilm 7 8 9\nbad -1 -2 -3\nfilm 0 0 0\n! 0.5 0.25 0.125\n"


def read(path: Path | str, *words: str, cache: Path, mirror: str | None = None) -> WordVectors:
    return read_vectors(str(path), words, cache=cache, mirror=mirror, progress=lambda stage, done, total: None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "v.txt"
    path.write_text(TEXT)
    return path


def written(table: dict[str, NDArray[np.float32]], folder: Path, layout: str, packing: str) -> Path:
    """Writes a table of vectors, each number with as many digits as tell it from all others; `bin` is a zip."""
    end = " \n" if layout == "word2vec" else "\n"
    lines = [f"{word} {' '.join(str(number) for number in row)}{end}" for word, row in table.items()]
    if layout == "word2vec":
        lines.insert(0, f"{len(table)} {len(next(iter(table.values())))}\n")
    text = "".join(lines).encode()
    path = folder / f"vectors.{packing}"
    if packing == "bin":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("vectors.txt", text)
    else:
        path.write_bytes(gzip.compress(text) if packing == "vec.gz" else text)
    return path


words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
numbers = st.floats(-(2.0**127), 2.0**127, width=32, allow_subnormal=False)
tables = st.integers(3, 6).flatmap(
    lambda width: st.dictionaries(words, st.lists(numbers, min_size=width, max_size=width), min_size=1, max_size=8)
)


@settings(max_examples=60)
@given(tables, st.sampled_from(["glove", "word2vec"]), st.sampled_from(["vec", "vec.gz", "bin"]))
def test_vectors_of_any_table_round_trip(table: dict[str, list[float]], layout: str, packing: str) -> None:
    expected = {word: np.array(row, dtype=np.float32) for word, row in table.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = written(expected, Path(folder), layout, packing)
        for _ in ("read", "kept"):
            found = read(path, *table, cache=Path(folder) / "cache")
            assert found.found_V.tolist() == [False, False] + [True] * len(table)
            assert np.array_equal(found.vectors_VE.numpy()[2:], np.stack(list(expected.values())))
            assert not found.vectors_VE[:2].any()


def test_words_are_looked_up_as_written_then_in_lower_case(file: Path, tmp_path: Path) -> None:
    found = read(file, "The", "THE", "the", "Film", "unheard", "a b", cache=tmp_path / "cache")
    assert found.vectors_VE[2:].tolist() == [[1, 2, 3], [4, 5, 6], [4, 5, 6], [7, 8, 9], [0, 0, 0], [0, 0, 0]]
    assert found.found_V.tolist() == [False, False, True, True, True, True, False, False]
    assert found.name == "v.txt"


def test_only_the_cached_vectors_are_left(file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    read(file, "the", "bad", cache=tmp_path / "cache")
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".lock", ".safetensors"]
    assert capfd.readouterr() == ("", "")


def test_vectors_are_cached_until_file_or_vocabulary_change(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, opened = tmp_path / "cache", []
    lines = VectorFile.lines

    def counted(self: VectorFile, *arguments: Any) -> Any:
        opened.append(str(self))
        return lines(self, *arguments)

    monkeypatch.setattr(VectorFile, "lines", counted)
    first = read(file, "the", "bad", cache=cache)
    again = read(file, "bad", "the", cache=cache)
    assert len(opened) == 1
    assert again.vectors_VE[[3, 2]].tolist() == first.vectors_VE[2:].tolist()
    read(file, "the", "bad", "!", cache=cache)
    assert len(opened) == 2
    file.write_text(TEXT.replace("bad -1", "bad -9"))
    os.utime(file, ns=(0, 0))
    assert read(file, "the", "bad", cache=cache).vectors_VE[3].tolist() == [-9, -2, -3]
    assert len(opened) == 3


def test_damaged_cached_vectors_are_read_again(file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    whole = read(file, "the", "bad", cache=cache)
    (kept,) = cache.glob("*.safetensors")
    for damaged in (kept.read_bytes()[:-40], b"", b"not it"):
        kept.write_bytes(damaged)
        (cache / f".{kept.name}.left").mkdir()  # by a process that was killed
        assert read(file, "the", "bad", cache=cache).fingerprint == whole.fingerprint
        assert not list(cache.glob(".*"))
    assert kept.stat().st_size > 40


def test_named_vectors_are_read_once_from_their_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "glove.6B.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("glove.6B.50d.txt", "the " + "0 " * 49 + "0\n")
        packed.writestr("glove.6B.100d.txt", "the " + "0.5 " * 99 + "0.5\n")
    asked: list[tuple[str, Path, str | None]] = []

    def fetch(name: str, *, folder: Path, mirror: str | None, progress: object) -> Path:
        asked.append((name, folder, mirror))
        return archive

    monkeypatch.setattr("sentattn.data.word_vectors.fetch", fetch)
    for _ in range(2):
        found = read("glove.6B.100d", "the", cache=tmp_path / "cache", mirror="http://mirror")
        assert found.vectors_VE[2].tolist() == [0.5] * 100
        assert found.name == "glove.6B.100d"
    assert asked == [("glove.6B.zip", tmp_path / "cache", "http://mirror")]


@pytest.mark.parametrize("damage", ["bad 1 2", "bad 1 2 x"])
def test_a_faulty_file_leaves_no_cache(file: Path, tmp_path: Path, damage: str) -> None:
    file.write_text(TEXT + damage)
    assert_refused(lambda: read(file, "the", "bad", cache=tmp_path / "cache"), "data.vectors", "damaged", "line 7")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_file_without_any_of_the_words_is_refused(file: Path, tmp_path: Path) -> None:
    assert refused(lambda: read(file, "der", "die", cache=tmp_path / "cache")) == [("data.vectors", "missing")]


def test_the_fingerprint_depends_on_the_vectors_only(file: Path, tmp_path: Path) -> None:
    def fingerprint(name: str, text: str) -> str:
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        return read(tmp_path / name, "the", "bad", "unheard", cache=tmp_path / "cache").fingerprint

    first = fingerprint("a.txt", TEXT)
    assert fingerprint("b.gz", "6 3\n" + TEXT.replace("4 5 6", "4.0 5e0 6")) == first
    assert fingerprint("c.txt", TEXT.replace("4 5 6", "4 5 7")) != first
    assert fingerprint("d.txt", TEXT + "unheard 0 0 0\n") != first


ROWS = {
    "train": [Row("The film the film", 0), Row("bad bad Bad unheard unheard", 1)],
    "val": [Row("the play", 0)],
    "test": [Row("a play", 0)],
}


def test_data_reports_the_coverage_of_the_vectors(file: Path, data_of: Callable[..., GivenData]) -> None:
    data = data_of(ROWS, vectors=str(file))
    data.prepare()
    assert data.word_vectors is not None
    assert data.tokenizer.words == ["bad", "film", "the", "unheard"]
    assert data.word_vectors.found_V.tolist() == [False, False, True, True, True, False]
    assert re.findall(r"[\d.]+%", data.report[-1]) == ["75.0%", "77.8%"]


def test_data_warns_of_few_words_with_a_vector(tmp_path: Path, data_of: Callable[..., GivenData]) -> None:
    (tmp_path / "v.txt").write_text("film 1 2 3\nFILM 1 2 3\nBAD 1 2 3\n")
    data = data_of(ROWS, vectors=str(tmp_path / "v.txt"))
    data.prepare()
    assert re.findall(r"[\d.]+%", data.report[-2]) == ["25.0%", "22.2%"]
    assert "data.lowercase" in data.report[-1]


def test_a_trained_model_needs_no_vectors(tmp_path: Path, data_of: Callable[..., GivenData]) -> None:
    data = data_of(ROWS, vectors=str(tmp_path / "nowhere.txt"))
    data.prepare(words=["bad", "film"])
    assert data.word_vectors is None
