"""Files of vectors: found by name, opened in every format, refused in one message."""

from __future__ import annotations

import gzip
import os
import zipfile
from functools import partial
from pathlib import Path

import pytest
from refusals import assert_refused, fault_of

from sentattn.data.cache import no_progress
from sentattn.data.readers.download import REGISTRY
from sentattn.data.word_vectors import VECTOR_NAMES, VectorFile, width

TEXT = "the 0.1 0.2 0.3\ncat 1 2 3\n"


def words(vectors: str | Path) -> list[str]:
    wanted = {"the", "cat", "dog"}
    return [word for word, _ in VectorFile.named(str(vectors)).lines(wanted, no_progress)]


def zipped(path: Path, members: dict[str, str], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_named_vectors_are_in_archives_that_can_be_downloaded() -> None:
    assert {archive for archive, _ in VECTOR_NAMES.values()} <= set(REGISTRY)
    assert VECTOR_NAMES["glove.6B.300d"] == ("glove.6B.zip", 300)


def test_width_of_names_and_files(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(TEXT)
    assert (width("glove.6B.300d"), width("glove.twitter.27B.25d"), width(str(tmp_path / "v.txt"))) == (300, 25, 3)


def test_every_format_is_opened(tmp_path: Path) -> None:
    plain, packed = tmp_path / "v.vec", tmp_path / "v.vec.gz"
    plain.write_text(TEXT)
    packed.write_bytes(gzip.compress(TEXT.encode()))
    for path in (plain, packed, zipped(tmp_path / "v.bin", {"v.txt": TEXT})):
        assert words(path) == ["the", "cat"]


def test_the_text_in_a_zip_is_found(tmp_path: Path) -> None:
    one = zipped(tmp_path / "one.zip", {"README.md": "Vectors.", "inner/v.txt": TEXT, "__MACOSX/inner/._v.txt": "x"})
    assert VectorFile.named(str(one)).member == "inner/v.txt"
    both = {"glove.6B.50d.txt": TEXT, "glove.6B.100d.txt": "dog 1 2 3 4"}
    several = zipped(tmp_path / "glove.6B.zip", both)
    assert words(several / "glove.6B.100d.txt") == ["dog"]
    fault = fault_of(lambda: words(several))
    assert fault.kind == "not_found"
    assert "glove.6B.50d.txt" in fault.message
    fault = fault_of(lambda: words(several / "glove.6B.10d.txt"))
    assert fault.kind == "not_found"
    assert "Did you mean 'glove.6B." in fault.message
    assert_refused(lambda: words(zipped(tmp_path / "none.zip", {})), "data.vectors", "not_found", "none.zip")


def test_a_missing_file_suggests_the_closest_name(tmp_path: Path) -> None:
    (tmp_path / "reviews.vec").write_text(TEXT)
    for vectors, fragment in (
        (str(tmp_path / "review.vec"), "'reviews.vec'?"),
        ("glove6B.300d", "'glove.6B.300d'?"),
        ("fasttext", "glove.twitter.27B.200d"),
        (str(tmp_path), "the name of known vectors"),
    ):
        assert_refused(partial(width, vectors), "data.vectors", "not_found", fragment)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    text = "".join(f"w{i} 0.{i} 0.{i * 7} 0.{i * 11}\n" for i in range(3000))
    whole = zipped(tmp_path / "v.zip", {"v.txt": text}).read_bytes()
    lzma = zipped(tmp_path / "lzma.zip", {"v.txt": text}, zipfile.ZIP_LZMA).read_bytes()
    for name, content in (
        ("v.txt.gz", gzip.compress(text.encode())[:-2000]),
        ("cut.zip", whole[:-200]),
        ("changed.zip", whole[:5000] + bytes(50) + whole[5050:]),
        ("lzma.zip", lzma[:100] + b"\xff" * 500 + lzma[600:]),
    ):
        (tmp_path / name).write_bytes(content)
        assert_refused(partial(words, tmp_path / name), "data.vectors", "damaged", name)


@pytest.mark.parametrize(("place", "value", "reason"), [(8, 1, "encrypted"), (10, 99, "compression")])
def test_an_archive_that_cannot_be_opened_is_refused(tmp_path: Path, place: int, value: int, reason: str) -> None:
    """Byte 8 of the central directory holds flags, byte 10 the method; the header at the start has both two earlier."""
    path = zipped(tmp_path / "v.zip", {"v.txt": TEXT})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + place] = value
    content[place - 2] = value
    path.write_bytes(content)
    assert_refused(lambda: words(path), "data.vectors", "damaged", str(path), reason)


def test_other_exceptions_are_not_reported_as_damage(tmp_path: Path) -> None:
    def breaks(stage: str, done: int, total: int | None) -> None:
        raise ZeroDivisionError

    archive = zipped(tmp_path / "v.zip", {"v.txt": "".join(f"w{i} 1 2 3\n" for i in range(20_000))})
    with pytest.raises(ZeroDivisionError):
        list(VectorFile.named(str(archive)).lines({"w1"}, breaks))


def test_identity_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text(TEXT)
    before = VectorFile.named(str(path)).identity
    assert VectorFile.named(str(path)).identity == before
    path.write_text(TEXT + "dog 1 1 1\n")
    assert VectorFile.named(str(path)).identity != before
    archive = zipped(tmp_path / "two.zip", {"a.txt": TEXT, "b.txt": TEXT})
    assert VectorFile.named(f"{archive}/a.txt").identity != VectorFile.named(f"{archive}/b.txt").identity


@pytest.mark.parametrize("place", [0, -1])
def test_identity_depends_on_both_ends_of_a_file(place: int, tmp_path: Path) -> None:
    rows = [f"w{i:05} 1 2 3\n" for i in range(20_000)]
    others = [*rows]
    others[place] = others[place].replace("1 2 3", "9 9 9")
    files = [tmp_path / folder / "v.txt" for folder in ("a", "b")]
    for file, lines in zip(files, (rows, others), strict=True):
        file.parent.mkdir()
        file.write_text("".join(lines))
        os.utime(file, ns=(5, 5))
    one, other = (VectorFile.named(str(file)).identity for file in files)
    assert one[:4] == other[:4]
    assert one != other
