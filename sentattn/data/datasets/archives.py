"""Files as streams, whether plain, compressed or inside an archive; nothing is unpacked on the disk."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Literal, TypeAlias, cast

from sentattn.errors import DataError

Container: TypeAlias = Literal["plain", "gzip", "tar", "zip"]

DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError)
ZIP, GZIP = (b"PK\x03\x04", b"PK\x05\x06"), b"\x1f\x8b"


@contextmanager
def readable(path: Path, hint: str) -> Iterator[None]:
    """Makes one sentence of whatever is raised while a file is read that is damaged or not there.

    Args:
        path: The file.
        hint: A sentence to end with: what is legal and where it is to be had.

    Raises:
        DataError: With the reason.
    """
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"{path} cannot be read ({error.strerror}). {hint}") from error
        reason = (str(error) or "it ends too early").splitlines()[0].rstrip(".:")
        raise DataError(
            f"{path} cannot be read to its end ({reason}); it is damaged or the download is incomplete. {hint}"
        ) from error


def container(path: Path) -> Container:
    """Returns what a file is by its content, whatever its name."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic.startswith(ZIP):
        return "zip"
    if tarfile.is_tarfile(path):
        return "tar"
    return "gzip" if magic.startswith(GZIP) else "plain"


@contextmanager
def opened(path: Path, member: str, hint: str) -> Iterator[io.BufferedReader]:
    """Opens a file, or a member of an archive.

    Args:
        path: The file or archive.
        member: The member's name, in a tar archive without its folders; "" for a file that is no archive.
        hint: A sentence to end errors with.

    Raises:
        DataError: If it is damaged, or the archive does not hold the member.
    """
    with readable(path, hint), _raw(path, member, hint) as file:
        yield file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))


def _raw(path: Path, member: str, hint: str) -> AbstractContextManager[IO[bytes]]:
    match container(path):
        case "zip":
            return _of_zip(path, member)
        case "tar":
            return _of_tar(path, member, hint)
        case "gzip":
            return cast("AbstractContextManager[IO[bytes]]", gzip.open(path))
        case "plain":
            return path.open("rb")


def tar_files(path: Path, hint: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields names and contents of the files of a tar archive, one after another, and reads it to its end.

    Args:
        path: The archive, with any compression that `tarfile` reads.
        hint: A sentence to end errors with.

    Raises:
        DataError: If a member is a link or a device, or would leave the archive.
    """
    with tarfile.open(path) as archive:
        for member in archive:
            _require_harmless(path, member, hint)
            file = archive.extractfile(member)
            if file is not None:
                yield member.name, file
        while archive.fileobj is not None and archive.fileobj.read(1 << 20):
            pass


@contextmanager
def _of_tar(path: Path, member: str, hint: str) -> Iterator[IO[bytes]]:
    files = tar_files(path, hint)
    file = next((file for name, file in files if PurePosixPath(name).name == member), None)
    if file is None:
        raise DataError(f"{path} holds no {member}. {hint}")
    yield file
    for _ in files:
        pass


@contextmanager
def _of_zip(path: Path, member: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive:
        try:
            file = archive.open(member)
        except RuntimeError as error:  # encrypted, or compressed in a way that `zipfile` does not know
            raise DataError(
                f"{member} in {path} cannot be read ({error}); unpack it and give the file itself."
            ) from error
        with file:
            yield file


def _require_harmless(path: Path, member: tarfile.TarInfo, hint: str) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise DataError(f"{path} is refused: its member {member.name!r} would leave the archive. {hint}")
    if not (member.isfile() or member.isdir()):
        raise DataError(f"{path} is refused: its member {member.name!r} is a link or a device, no file. {hint}")
