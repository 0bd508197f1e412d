"""Files as streams: plain, compressed or inside an archive. Nothing is unpacked on the disk."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Literal, TypeAlias, cast

from sentattn.errors import DataError, Fault, suggestion

Container: TypeAlias = Literal["plain", "gzip", "tar", "zip"]

DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError)
ZIP, GZIP = (b"PK\x03\x04", b"PK\x05\x06"), b"\x1f\x8b"
PATH = "data.path"


def neighbour(path: Path) -> str:
    """Returns ` Did you mean 'x'?` for the file of the same folder with the closest name, or an empty string."""
    return suggestion(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""


@contextmanager
def reading(path: Path, hint: str) -> Iterator[None]:
    """Turns any exception raised for a damaged or missing file into one message.

    Args:
        path: The file.
        hint: The end of the message: what is legal and where to get it.

    Raises:
        DataError: Of kind `unreadable` or `damaged`.
    """
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            message = f"{path} cannot be read ({error.strerror}). {hint}"
            raise DataError(Fault(PATH, "unreadable", message)) from error
        reason = (str(error) or "it ends too early").splitlines()[0].rstrip(".:")
        message = f"{path} cannot be read to its end ({reason}); it is damaged or the download is incomplete. {hint}"
        raise DataError(Fault(PATH, "damaged", message)) from error


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
def open_member(path: Path, member: str, hint: str) -> Iterator[io.BufferedReader]:
    """Opens a file, or a member of an archive, decompressed.

    Args:
        path: The file or archive.
        member: The member's name, in a tar archive without its folders; "" for a file that is no archive.
        hint: The end of messages.

    Raises:
        DataError: If it is damaged, or the archive does not hold the member.
    """
    with reading(path, hint), _open(path, member, hint) as file:
        yield file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))


def _open(path: Path, member: str, hint: str) -> AbstractContextManager[IO[bytes]]:
    match container(path):
        case "zip":
            return _open_zip(path, member)
        case "tar":
            return _open_tar(path, member, hint)
        case "gzip":
            return cast("AbstractContextManager[IO[bytes]]", gzip.open(path))
        case "plain":
            return path.open("rb")


def tar_files(path: Path, hint: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields names and contents of the files of a tar archive, one after another, and reads it to its end.

    Args:
        path: The archive, with any compression that `tarfile` reads.
        hint: The end of messages.

    Raises:
        DataError: If a member is a link or a device, or its name points outside the archive; kind `unsafe`.
    """
    with tarfile.open(path) as archive:
        for member in archive:
            _require_safe(path, member, hint)
            file = archive.extractfile(member)
            if file is not None:
                yield member.name, file
        while archive.fileobj is not None and archive.fileobj.read(1 << 20):
            pass  # only the end of a compressed file shows that it is complete


@contextmanager
def _open_tar(path: Path, member: str, hint: str) -> Iterator[IO[bytes]]:
    files = tar_files(path, hint)
    file = next((file for name, file in files if PurePosixPath(name).name == member), None)
    if file is None:
        raise DataError(Fault(PATH, "missing", f"{path} holds no {member}. {hint}"))
    yield file
    for _ in files:
        pass


@contextmanager
def _open_zip(path: Path, member: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive:
        try:
            file = archive.open(member)
        except RuntimeError as error:  # encrypted, or compressed by a method that `zipfile` does not know
            message = f"{member} in {path} cannot be read ({error}); unpack it and give the file itself."
            raise DataError(Fault(PATH, "unsupported", message)) from error
        with file:
            yield file


def _require_safe(path: Path, member: tarfile.TarInfo, hint: str) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        message = f"{path} is refused: its member {member.name!r} points outside the archive. {hint}"
        raise DataError(Fault(PATH, "unsafe", message))
    if not (member.isfile() or member.isdir()):
        message = f"{path} is refused: its member {member.name!r} is a link or a device, no file. {hint}"
        raise DataError(Fault(PATH, "unsafe", message))
