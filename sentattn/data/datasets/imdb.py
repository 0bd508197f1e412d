"""`data=imdb`: the Large Movie Review Dataset v1.0 (Maas et al. 2011), 25,000 reviews each for training and test."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from sentattn.config.types import Count, Fraction, Whole, checked
from sentattn.data.archives import neighbour, reading, tar_files
from sentattn.data.cache import Progress, cache_folder, sha256
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData
from sentattn.data.download import fetch
from sentattn.errors import DataError, Fault

ARCHIVE = "aclImdb_v1.tar.gz"
WHERE = (
    f"data.path=FILE takes the Large Movie Review Dataset v1.0 ({ARCHIVE} from "
    "https://ai.stanford.edu/~amaas/data/sentiment/) or a folder with its content; leave it out to have it downloaded."
)
# Reviews are <number>_<stars>.txt; train/unsup holds unlabelled ones, which are no third class.
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")
URLS = re.compile(r"(?:.*/)?(train|test)/urls_(neg|pos)\.txt")
FILM = re.compile(rb"/title/(tt\d+)/")
CLASSES = ("neg", "pos")


class ImdbSource(Source):
    """Film reviews, each with the film as its group.

    Args:
        path: The archive `aclImdb_v1.tar.gz` (any compression that `tarfile` reads), or a folder with its content.

    Raises:
        DataError: If there is no such file or folder.
    """

    labels = ("negative", "positive")
    splits = ("train", "test")

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).expanduser()
        if not self._path.exists():
            message = f"data.path={path}: there is no such file or folder.{neighbour(self._path)} {WHERE}"
            raise DataError(Fault("data.path", "not_found", message))
        self._rows: dict[str, list[Row]] = {}

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the archive, or a hash over names, sizes and times of a folder's files."""
        try:
            if not self._path.is_dir():
                return sha256(self._path)
            listing = [(name, entry.stat()) for name, entry in _files(self._path)]
        except OSError as error:
            message = f"data.path={self._path} cannot be read: {error.strerror}."
            raise DataError(Fault("data.path", "unreadable", message)) from error
        lines = "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in sorted(listing))
        return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the negative reviews by their numbers, then the positive ones."""
        if split not in self._rows:
            self._rows = self._read_all()
        yield from self._rows.pop(split)

    def _read_all(self) -> dict[str, list[Row]]:
        """Reads both splits: an archive can only be read from its start to its end."""
        reviews: dict[tuple[str, str], dict[tuple[int, int], str]] = {}
        films: dict[tuple[str, str], list[str]] = {}
        for name, content in _members(self._path) if not self._path.is_dir() else _contents(self._path):
            if match := REVIEW.fullmatch(name):
                split, kind, number, stars = match.groups()
                reviews.setdefault((split, kind), {})[int(number), int(stars)] = self._decode(name, content)
            elif match := URLS.fullmatch(name):
                films[match[1], match[2]] = [_film(line) for line in content.splitlines()]
        for split in self.splits:
            for kind in CLASSES:
                if (split, kind) not in reviews:
                    message = (
                        f"{self._path} holds no review in {split}/{kind}; it must hold train and test, each with "
                        f"neg and pos. {WHERE}"
                    )
                    raise DataError(Fault("data.path", "missing", message))
        return {
            split: [
                Row(text, label, group=_film_of(films.get((split, kind), []), number))
                for label, kind in enumerate(CLASSES)
                for (number, _), text in sorted(reviews[split, kind].items())
            ]
            for split in self.splits
        }

    def _decode(self, name: str, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            message = f"{name} in {self._path} is not UTF-8 (byte {error.start}); the data is damaged or was changed."
            raise DataError(Fault("data.path", "damaged", f"{message} {WHERE}")) from error


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yields name and content of the files of an archive that hold reviews or film addresses."""
    with reading(path, WHERE):
        for name, file in tar_files(path, WHERE):
            if _wanted(name):
                yield name, file.read()


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for name, entry in _files(folder):
        try:
            yield name, Path(entry.path).read_bytes()
        except OSError as error:
            raise DataError(
                Fault("data.path", "unreadable", f"{entry.path} cannot be read: {error.strerror}.")
            ) from error


def _files(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yields the files that hold reviews or film addresses, with their names as in the archive."""
    root = folder / "aclImdb" if (folder / "aclImdb").is_dir() else folder
    for inner in ("train", "train/neg", "train/pos", "test", "test/neg", "test/pos"):
        if (root / inner).is_dir():
            with os.scandir(root / inner) as entries:
                for entry in entries:
                    if _wanted(f"{inner}/{entry.name}") and entry.is_file():
                        yield f"{inner}/{entry.name}", entry


def _wanted(name: str) -> bool:
    return bool(REVIEW.fullmatch(name) or URLS.fullmatch(name))


def _film(line: bytes) -> str:
    match = FILM.search(line)
    return match[1].decode() if match else ""


def _film_of(films: list[str], number: int) -> str:
    """Returns the film of review `number`: its address is in that line, counted from 0."""
    return films[number] if number < len(films) else ""


class Imdb(TextData):
    """The Large Movie Review Dataset, with its official test split.

    Args:
        path: The archive `aclImdb_v1.tar.gz`, or a folder with its content; null downloads it.
        val_size: Training rows set aside for validation: their number, or a share below 1.
        split_seed: Seed of which rows these are. It is not the run's, so that runs share their validation rows.
        settings: Those of `TextData`.
    """

    classes: ClassVar[int] = 2

    @checked
    def __init__(
        self,
        *,
        name: str = "imdb",
        path: str | None = None,
        val_size: Count | Fraction = 0.1,
        split_seed: Whole = 0,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        self.path = path
        self.val_size = val_size
        self.split_seed = split_seed

    def source(self, progress: Progress) -> Source:
        """Returns the reviews at `path`, or those downloaded."""
        folder = cache_folder(self.cache_dir)
        return ImdbSource(self.path or fetch(ARCHIVE, folder=folder, mirror=self.mirror, progress=progress))
