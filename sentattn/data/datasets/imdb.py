"""`data=imdb`: the Large Movie Review Dataset v1.0 (Maas et al. 2011), 25,000 reviews each for training and test."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sentattn.config.types import Count, Fraction, Whole, checked
from sentattn.data.cache import Progress, cache_folder, no_progress, sha256
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData
from sentattn.data.readers.archives import existing, read_to_end, reading
from sentattn.data.readers.download import fetch
from sentattn.errors import DataError, Fault

KEY = "data.path"
ARCHIVE = "aclImdb_v1.tar.gz"
WHERE = (
    f"data.path=FILE takes the Large Movie Review Dataset v1.0 ({ARCHIVE} from "
    "https://ai.stanford.edu/~amaas/data/sentiment/) or a folder with its content; leave it out to have it downloaded."
)
# Reviews are <number>_<stars>.txt; train/unsup holds unlabelled ones, which are no third class.
FILE = re.compile(r"(?:^|(?<=/))(train|test)/(?:(neg|pos)/(\d+)_(\d+)|urls_(neg|pos))\.txt$")
FILM = re.compile(rb"/title/(tt\d+)/")
CLASSES = ("neg", "pos")


class ImdbSource(Source):
    """Film reviews, grouped by film, from the archive in any compression or from a folder with its content."""

    labels = ("negative", "positive")
    splits = ("train", "test")

    def __init__(self, path: str | Path) -> None:
        self._path = existing(Path(path), KEY, WHERE)
        self._rows: dict[str, list[Row]] = {}

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the archive, or a hash over names, sizes and times of a folder's files."""
        with reading(self._path, KEY, WHERE):
            if not self._path.is_dir():
                return sha256(self._path)
            listing = [(match[0], file.stat()) for match, file in self._files()]
        lines = "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in sorted(listing))
        return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the negative reviews, then the positive ones, each by number."""
        if split not in self._rows:
            self._rows = self._read_all()
        yield from self._rows.pop(split)

    def stars(self, split: str) -> list[int]:
        """Returns the stars of the rows of a split, in order, from the names of the files."""
        matches = (match for match, _ in self._contents() if match[1] == split and match[2])
        reviews = ((CLASSES.index(match[2]), int(match[3]), int(match[4])) for match in matches)
        return [stars for *_, stars in sorted(reviews)]

    def _read_all(self) -> dict[str, list[Row]]:
        """Reads both splits, since an archive can only be read sequentially."""
        reviews: dict[tuple[str, str], dict[tuple[int, int], str]] = {}
        films: dict[tuple[str, str], list[str]] = {}
        for match, content in self._contents():
            if match[5]:
                matches = (FILM.search(line) for line in content.splitlines())
                films[match[1], match[5]] = [film[1].decode() if film else "" for film in matches]
            else:
                review = int(match[3]), int(match[4])
                reviews.setdefault((match[1], match[2]), {})[review] = self._decode(match[0], content)
        for split in self.splits:
            for kind in CLASSES:
                if (split, kind) not in reviews:
                    message = f"{self._path} must hold reviews in {split}/{kind}, got none. {WHERE}"
                    raise DataError(Fault(KEY, "missing", message))
        return {
            split: [
                # Line N of the list, counted from 0, has the address of the film of review N.
                Row(text, label, group="".join(films.get((split, kind), [])[number : number + 1]))
                for label, kind in enumerate(CLASSES)
                for (number, _), text in sorted(reviews[split, kind].items())
            ]
            for split in self.splits
        }

    def _files(self) -> Iterator[tuple[re.Match[str], Path]]:
        """Yields the files of a folder with reviews or film addresses, each with its name as in the archive."""
        for file in self._path.rglob("*.txt"):
            if match := FILE.search(file.relative_to(self._path).as_posix()):
                yield match, file

    def _contents(self) -> Iterator[tuple[re.Match[str], bytes]]:
        """Yields name and content of the files with reviews or film addresses."""
        with reading(self._path, KEY, WHERE):
            if self._path.is_dir():
                for match, path in self._files():
                    yield match, path.read_bytes()
                return
            with tarfile.open(self._path) as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.isfile() else None
                    if file and (found := FILE.search(member.name)):
                        yield found, file.read()
                read_to_end(archive)

    def _decode(self, name: str, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            message = f"{name} in {self._path} is not UTF-8 (byte {error.start}); the data is damaged or was changed."
            raise DataError(Fault(KEY, "damaged", f"{message} {WHERE}")) from error


class Imdb(TextData):
    """The Large Movie Review Dataset, with its official test split.

    Args:
        path: The archive `aclImdb_v1.tar.gz`, or a folder with its content; null downloads it.
        val_size: Training rows set aside for validation: their number, or a share below 1.
        val_by: Whether to set all reviews of a film aside together (`group`), or single reviews (`row`). The test set
            has other films than training, so validation by film is closer to it.
        split_seed: Seed of the selection of validation rows, independent of `seed`, so that runs share them.
        settings: Those of `TextData`.
    """

    @checked
    def __init__(
        self,
        *,
        name: str = "imdb",
        path: str | None = None,
        val_size: Count | Fraction = 0.1,
        val_by: Literal["group", "row"] = "row",
        split_seed: Whole = 0,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        self.path = path
        self.val_size, self.val_by, self.split_seed = val_size, val_by, split_seed

    def source(self, progress: Progress) -> ImdbSource:
        """Returns the reviews at `path`; downloads them if it is null."""
        folder = cache_folder(self.cache_dir)
        return ImdbSource(self.path or fetch(ARCHIVE, folder=folder, mirror=self.mirror, progress=progress))

    def stars(self, split: str) -> NDArray[np.int64]:
        """Returns the stars of each row of a split, 1 to 4 and 7 to 10, which no model reads."""
        rows = self.split(split)
        all_stars = self.source(no_progress).stars("test" if split == "test" else "train")
        return np.array(all_stars, dtype=np.int64)[rows.row]
