"""Files that are downloaded once: from their official address, from a mirror, or not at all where they are at hand."""

from __future__ import annotations

import errno
import logging
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from sentattn.data.building import Progress
from sentattn.data.cache import locked
from sentattn.data.download.checksums import difference, is_right, remember
from sentattn.data.download.registry import REMOTE, Remote
from sentattn.data.download.transfer import OtherFileError, Patience, Transfer, TransferError
from sentattn.errors import DataError, suggestion

FOLDER = "downloads"
SERVER = re.compile(r"https?://[^/[\]]")
PATIENCE = Patience()


def fetch(
    name: str,
    *,
    folder: Path,
    mirror: str | None = None,
    progress: Progress = lambda stage, done, total: None,
    patience: Patience = PATIENCE,
) -> Path:
    """Returns a file of the registry, which is downloaded where it is not at hand.

    Args:
        name: Its name in `REMOTE`.
        folder: The cache folder, as `cache_folder` gives it; downloads are kept in a folder of their own inside.
        mirror: Where files of the same names are: the address of a server, or a local folder, from which files are
            used without being copied. None is each file's official address.
        progress: Is told how far the work is.
        patience: How long a server is waited for.

    Raises:
        DataError: If the file cannot be had, or is not the one that it should be.
    """
    remote = REMOTE[name]
    downloads = folder / FOLDER
    file = downloads / name
    try:
        if is_right(file, remote, downloads):
            return file
        if mirror is not None and "://" not in mirror:
            return _of_folder(name, remote, Path(mirror).expanduser(), downloads)
        address = remote.address if mirror is None else _address(mirror, name)
        downloads.mkdir(parents=True, exist_ok=True)
        with locked(downloads / f"{name}.lock", progress):
            if not is_right(file, remote, downloads):  # another process may have brought it meanwhile
                _download(file, remote, address, progress, patience)
                remember(file, remote, downloads)
        return file
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise DataError(
            f"{error.filename or downloads} cannot be used for {name} ({reason}): name another cache folder with "
            f"data.cache_dir=FOLDER, or type {remote.setting}=FILE for a copy of your own."
        ) from error


def _download(file: Path, remote: Remote, address: str, progress: Progress, patience: Patience) -> None:
    """Downloads a file; one that is not the right one is deleted and fetched once more, from its start."""
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)
    part = file.with_name(f"{file.name}.part")
    transfer = Transfer(
        part=part, size=remote.size, stage=f"Downloading {file.name} (MB)", progress=progress, patience=patience
    )
    for is_last in (False, True):
        try:
            pooch.retrieve(
                address, known_hash=f"sha256:{remote.sha256}", fname=file.name, path=file.parent, downloader=transfer
            )
            return
        except (OtherFileError, ValueError) as error:  # pooch has a ValueError for another checksum
            part.unlink(missing_ok=True)
            if is_last:
                told = str(error).partition(". ")[0]
                raise DataError(f"{address} is not the official {file.name}: {told}. {_trusted(remote)}") from error
        except TransferError as error:
            raise DataError(
                f"{file.name} cannot be downloaded from {urlsplit(address).netloc}: {error}.{_kept(part, remote)} "
                f"{_by_hand(remote)}"
            ) from error


def _of_folder(name: str, remote: Remote, mirror: Path, downloads: Path) -> Path:
    """Returns a file in a local folder, where it stays."""
    file = mirror / name
    if not mirror.is_dir():
        raise DataError(
            f"data.mirror={mirror}: there is no such folder, and an address begins with http:// or https://."
        )
    if not file.is_file():
        raise DataError(f"data.mirror={mirror} has no {name}.{suggestion(name, os.listdir(mirror))} {_by_hand(remote)}")
    if not is_right(file, remote, downloads):
        raise DataError(f"{file} is not the official {name}: {difference(file, remote)}. {_trusted(remote, file)}")
    return file


def _address(mirror: str, name: str) -> str:
    if not SERVER.match(mirror):
        raise DataError(
            f"data.mirror={mirror} is neither a folder nor an address that begins with http:// or https://."
        )
    return f"{mirror.rstrip('/')}/{name}"


def _kept(part: Path, remote: Remote) -> str:
    done = part.stat().st_size if part.exists() else 0
    return (
        f" The {done:,} of {remote.size:,} bytes that came are kept, and the next start goes on from there."
        if done
        else ""
    )


def _by_hand(remote: Remote) -> str:
    return (
        f"Fetch {remote.address} by hand and type {remote.setting}=FILE, or name a server or a folder that has it "
        "with data.mirror=PLACE."
    )


def _trusted(remote: Remote, file: Path | None = None) -> str:
    how = f"type {remote.setting}={file}" if file else f"fetch it by hand and type {remote.setting}=FILE"
    return f"If you trust it all the same, {how}."
