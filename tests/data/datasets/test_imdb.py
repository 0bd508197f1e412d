"""Reading the Large Movie Review Dataset, whole and damaged."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import assert_refused, fault_of

from sentattn.data.corpus import Row
from sentattn.data.datasets.imdb import ImdbSource

TRAIN = [
    Row("Dull.<br /><br />I slept.", 0, "tt11"),
    Row("Not a good film!", 0, "tt13"),
    Row("Awful, awful film.", 0, ""),
    Row("A good film.", 1, "tt21"),
    Row("Ein schöner Film…", 1, "tt22"),
    Row("A good film.", 1, "tt23"),
]
TEST = [Row("Awful, awful film.", 0), Row("I was moved; 8/10.", 1)]


def all_rows(path: Path) -> tuple[list[Row], list[Row]]:
    source = ImdbSource(str(path))
    return list(source.read("train")), list(source.read("test"))


def add(path: Path, name: str, content: bytes = b"text", **fields: object) -> None:
    """Writes an archive with one member more."""
    with tarfile.open(path) as archive:
        old = [(member, archive.extractfile(member)) for member in archive]
        members = [(member, file.read() if file else b"") for member, file in old]
    extra = tarfile.TarInfo(name)
    extra.size = len(content)
    for field, value in fields.items():
        setattr(extra, field, value)
    with tarfile.open(path, "w:gz") as archive:
        for member, data in [*members, (extra, content)]:
            archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("inner", ["", "aclImdb"])
def test_a_folder_gives_the_same_rows(imdb_folder: Path, inner: str) -> None:
    assert all_rows(imdb_folder / inner) == (TRAIN, TEST)


@pytest.mark.parametrize("mode", ["w", "w:xz", "w:bz2"])
def test_archives_of_any_compression_are_read(imdb_folder: Path, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "renamed.tar"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        archive.add(imdb_folder / "aclImdb", arcname="./aclImdb")
    assert all_rows(path) == (TRAIN, TEST)


def test_splits_may_be_read_again_and_in_any_order(imdb_archive: Path) -> None:
    source = ImdbSource(str(imdb_archive))
    assert list(source.read("test")) == TEST
    assert list(source.read("test")) == TEST
    assert list(source.read("train")) == TRAIN


def test_fingerprint_follows_the_content(imdb_archive: Path, imdb_folder: Path) -> None:
    archive, folder = (
        (lambda: ImdbSource(str(imdb_archive)).fingerprint()),
        (lambda: ImdbSource(str(imdb_folder)).fingerprint()),
    )
    before = archive(), folder()
    assert before == (archive(), folder())
    add(imdb_archive, "aclImdb/train/pos/7_7.txt")
    (imdb_folder / "aclImdb/train/pos/2_7.txt").write_text("longer than it was")
    assert before[0] != archive()
    assert before[1] != folder()


def _truncate(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: _truncate(path, 0.0),
        lambda path: _truncate(path, 0.3),
        lambda path: path.write_bytes(path.read_bytes()[:-4]),
        lambda path: path.write_bytes(path.read_bytes()[:-8] + b"wrongsum"),
        lambda path: path.write_text("no archive"),
    ],
)
def test_a_truncated_archive_is_refused_by_name(imdb_archive: Path, harm: Callable[[Path], object]) -> None:
    harm(imdb_archive)
    fault = fault_of(lambda: all_rows(imdb_archive))
    assert fault.key == "data.path"
    assert fault.kind in ("damaged", "missing", "unreadable")
    assert "aclImdb_v1.tar.gz" in fault.message


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_no_reviews(imdb_archive: Path, kind: bytes) -> None:
    add(imdb_archive, "aclImdb/train/pos/9_9.txt", b"", type=kind, linkname="/etc/passwd")
    assert all_rows(imdb_archive) == (TRAIN, TEST)


def test_a_wrong_encoding_names_the_file(imdb_archive: Path, imdb_folder: Path) -> None:
    add(imdb_archive, "aclImdb/test/pos/9_9.txt", "schön".encode("latin-1"))
    assert_refused(lambda: all_rows(imdb_archive), "data.path", "damaged", "test/pos/9_9.txt", "byte 3")
    (imdb_folder / "aclImdb/test/neg/1_1.txt").write_bytes(b"\xff")
    assert "test/neg/1_1.txt" in fault_of(lambda: all_rows(imdb_folder)).message


@pytest.mark.parametrize("missing", ["test", "train/neg"])
def test_a_missing_folder_is_refused(imdb_folder: Path, missing: str) -> None:
    shutil.rmtree(imdb_folder / "aclImdb" / missing)
    assert_refused(lambda: all_rows(imdb_folder), "data.path", "missing", missing)


def test_a_missing_list_of_films_leaves_the_groups_empty(imdb_folder: Path) -> None:
    for file in (imdb_folder / "aclImdb/train").glob("urls_*"):
        file.unlink()
    assert {row.group for row in all_rows(imdb_folder)[0]} == {""}


def test_stars_are_in_the_order_of_the_rows(imdb_archive: Path, imdb_folder: Path) -> None:
    for path in (imdb_archive, imdb_folder):
        source = ImdbSource(str(path))
        assert source.stars("train") == [3, 1, 2, 9, 10, 7]
        assert source.stars("test") == [4, 8]
