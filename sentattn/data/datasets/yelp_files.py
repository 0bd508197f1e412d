"""In which files Yelp's reviews are, split by split, whatever form somebody has them in."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Literal, NamedTuple, TypeAlias

from sentattn.data.datasets.archives import container, opened, readable
from sentattn.errors import DataError, suggestion

Form: TypeAlias = Literal["lines", "arrays", "csv", "parquet"]
"""JSON lines, one JSON object of arrays, CSV without a header, or parquet."""

ARCHIVE = "yelp_review_full_csv.tgz"
WHERE = (
    "data.path takes the Yelp Open Dataset's JSON lines (yelp_academic_dataset_review.json, or .gz), the GluonNLP "
    f"tutorial's ZIP, or yelp_review_full as {ARCHIVE}, as a folder of CSV or as a folder of parquet; leave it out to "
    "have the last downloaded. data=table reads other tables."
)
# train.csv, or train-00000-of-00001.parquet
TABLE = re.compile(r"(train|test)([-_.].*)?\.(csv|parquet)")
JSON = re.compile(r"(?!\.).*\.(json|jsonl|ndjson)(\.gz)?")
BEGINNINGS: dict[Form, re.Pattern[bytes]] = {
    "parquet": re.compile(rb"PAR1"),
    "arrays": re.compile(rb'\{\s*"(texts|labels)"\s*:'),
    "lines": re.compile(rb"\{"),
    "csv": re.compile(rb'"?-?\d+(\.\d+)?"?\s*,'),
}
"""How the forms begin, behind what `BEFORE` takes off."""
# In UTF-16 there are zeros in between; that it is no UTF-8 is told when it is read.
BEFORE = re.compile(rb"^(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*|\0")
SAMPLE = 1 << 16
SHOWN = 20


class Piece(NamedTuple):
    """Reviews of a split: a file, or a member of an archive."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return f"{self.member} in {self.path}" if self.member else str(self.path)

    @contextmanager
    def opened(self) -> Iterator[tuple[IO[bytes], Form]]:
        """Opens it, decompressed, and tells its form by its content.

        Raises:
            DataError: If it is damaged, or of no form that is known.
        """
        with opened(self.path, self.member, WHERE) as stream:
            yield stream, _form(stream.peek(), self.name)


def find(path: Path) -> dict[str, list[Piece]]:
    """Returns the pieces of each split: `train`, and `test` where there are test rows of their own.

    Raises:
        DataError: If nothing is there, or nothing that holds reviews.
    """
    if not path.exists():
        near = suggestion(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
        raise DataError(f"data.path={path}: there is no such file or folder.{near} {WHERE}")
    with readable(path, WHERE):
        if path.is_dir():
            return _in_folder(path)
        match container(path):
            case "tar":
                return {split: [Piece(path, f"{split}.csv")] for split in ("train", "test")}
            case "zip":
                with zipfile.ZipFile(path) as archive:
                    return {"train": [Piece(path, _only_json(archive.namelist(), path))]}
            case _:
                return {"train": [Piece(path)]}


def fingerprint(pieces: Iterable[Piece]) -> str:
    """Returns a hash over size and time of each file, and over its beginning and its end: 5 GB are too many to read."""
    digest = hashlib.sha256()
    for piece in pieces:
        with readable(piece.path, WHERE), piece.path.open("rb") as file:
            stat = os.fstat(file.fileno())
            digest.update(f"{piece.member} {stat.st_size} {stat.st_mtime_ns}\n".encode())
            digest.update(file.read(SAMPLE))
            file.seek(max(0, stat.st_size - SAMPLE))
            digest.update(file.read(SAMPLE))
    return digest.hexdigest()


def _in_folder(folder: Path) -> dict[str, list[Piece]]:
    """Finds `train` and `test` as CSV or parquet, here or one folder deeper, or else a file of JSON lines."""
    candidates: dict[tuple[Path, str], dict[str, list[Piece]]] = {}
    for root in (folder, *sorted(inner for inner in folder.iterdir() if inner.is_dir())):
        for file in sorted(root.iterdir()):
            if match := TABLE.fullmatch(file.name):
                candidates.setdefault((root, match[3]), {}).setdefault(match[1], []).append(Piece(file))
    if len(candidates) > 1:
        found = ", ".join(f"{ending} in {root}" for root, ending in candidates)
        raise DataError(f"data.path={folder} holds reviews more than once ({found}); give one folder that holds one.")
    if not candidates:
        return {"train": [Piece(folder / _only_json(sorted(os.listdir(folder)), folder))]}
    (((root, ending), splits),) = candidates.items()
    for split in ("train", "test"):
        if split not in splits:
            other = next(iter(splits.values()))[0]
            raise DataError(
                f"{root} holds no {split}.{ending} beside {other.path.name}; to draw test rows from a single file type "
                f"data.path={other.path}."
            )
    return {split: splits[split] for split in ("train", "test")}


def _only_json(names: Sequence[str], place: Path) -> str:
    """Returns the one file with reviews; the Open Dataset has four others beside it."""
    found = [name for name in names if JSON.fullmatch(PurePosixPath(name).name)]
    reviews = [name for name in found if "review" in PurePosixPath(name).name] if len(found) > 1 else found
    if len(reviews) != 1:
        listed = f"it holds {', '.join(names[:SHOWN])}{', ...' * (len(names) > SHOWN)}" if names else "it is empty"
        number = "more than one JSON with reviews" if reviews else "no JSON with reviews"
        raise DataError(f"{place} holds {number}; {listed}. {WHERE}")
    return reviews[0]


def _form(head: bytes, name: str) -> Form:
    if not head:
        raise DataError(f"{name} is empty. {WHERE}")
    start = BEFORE.sub(b"", head)
    for form, beginning in BEGINNINGS.items():
        if beginning.match(start):
            return form
    shown = head[:SHOWN].decode(errors="replace")
    raise DataError(f"{name} holds no reviews in a form that is known; it begins with {shown!r}. {WHERE}")
