"""A table of one's own: a column of texts, and one of labels that are words or numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sentattn.data.datasets.base import Row, Source
from sentattn.data.datasets.classes import (
    MOST_COUNTED,
    Seen,
    in_order,
    is_scale,
    label_name,
    require_labels,
    unknown,
)
from sentattn.data.datasets.digests import sha256
from sentattn.data.datasets.formats import ColumnError, Record, kind, records, require_table, text_of
from sentattn.errors import DataError, suggestion

CHUNK = 1000
TRAIN = "train"
NONE = ""


class Table(Source):
    """Labelled texts in files of one's own, a file a split.

    The classes are those of the training rows; without training rows they have to be given. A row without a text has
    the text "", which nothing is learned from; a row without a label is refused.

    Args:
        files: The file of each split.
        text: Name of the column of texts.
        label: Name of the column of labels.
        classes: The labels in their order; None takes the distinct labels of the training rows, sorted. Without
            training rows, those of the model that is tested.
        ordered: Whether they are steps of a scale; None takes numbers, and classes that are given, for such.
        progress: Is told how far the search for the classes is.

    Raises:
        DataError: If a file is not there or cannot be a table.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        *,
        text: str,
        label: str,
        classes: Sequence[str | float] | None = None,
        ordered: bool | None = None,
        progress: Callable[[str, int, None], None] = lambda stage, done, total: None,
    ) -> None:
        assert TRAIN in files or classes is not None, "classes come from the training rows or are given"
        self._files = {split: path.expanduser() for split, path in files.items()}
        for split, path in self._files.items():
            require_table(path, f"data.{split}={files[split]}")
        self.splits = tuple(files)
        self._text = text
        self._label = label
        self._given = None if classes is None else tuple(label_name(name) or NONE for name in classes)
        self._whose = "the model" if TRAIN not in files else "data.train" if classes is None else "data.classes"
        self._ordered = ordered
        self._progress = progress
        self._indices: dict[str, int] = {}

    def fingerprint(self) -> str:
        """Returns a hash over the content of all files and over the settings that say how it is read."""
        content = {split: (path.suffix, _sha256(path)) for split, path in self._files.items()}
        parts = [content, self._text, self._label, self._given, self._ordered]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of a file; with the first one the classes are known.

        Raises:
            DataError: If the file is damaged, holds no row, or a row has no label, an unknown one or a text that is
                none; the sentence names file and line.
        """
        if not self._indices:
            self._find_classes()
        path = self._files[split]
        for record in self._records(path):
            name = self._name(record, path)
            if name == NONE:
                raise self._unlabelled(path, record.where)
            if name not in self._indices:
                raise DataError(f"{path}, {record.where}: {unknown(name, self.labels, self._whose)}")
            yield Row(text_of(record, self._text, path), self._indices[name])

    def _find_classes(self) -> None:
        classes = self._given
        if TRAIN in self._files:
            path = self._files[TRAIN]
            seen = self._labels(path)
            if classes is None:
                require_labels(seen, self._label, str(path))
                classes = in_order(seen)
            else:
                _require_given(seen, classes, path)
        assert classes is not None
        self.labels = classes
        self.ordered = is_scale(classes, typed=self._given is not None) if self._ordered is None else self._ordered
        self._indices = {name: index for index, name in enumerate(classes)}

    def _labels(self, path: Path) -> dict[str, Seen]:
        """Returns the labels of a file by their first row; of far too many only the first."""
        seen: dict[str, Seen] = {}
        for number, record in enumerate(self._records(path), start=1):
            if number % CHUNK == 0:
                self._progress("Finding the classes", number, None)
            name = self._name(record, path)
            rows, where = seen.get(name, Seen(0, record.where))
            seen[name] = Seen(rows + 1, where)
            if len(seen) > MOST_COUNTED:
                break
        if without := seen.get(NONE):
            raise self._unlabelled(path, without.where, without.rows)
        return seen

    def _records(self, path: Path) -> Iterator[Record]:
        record = None
        try:
            for record in records(path, [self._text, self._label]):
                yield record
        except ColumnError as error:
            raise DataError(f"{error} Name its columns with data.text=COLUMN data.label=COLUMN.") from error
        if record is None:
            raise DataError(f"{path} holds no row.")

    def _name(self, record: Record, path: Path) -> str:
        """Returns the name of a record's class, `NONE` where there is no label."""
        value = record.values[self._label]
        try:
            return label_name(value) or NONE
        except TypeError as error:
            raise DataError(
                f"{path}, {record.where}: the label in {self._label!r} is {kind(value)}; it must be a word or a number."
            ) from error

    def _unlabelled(self, path: Path, where: str, rows: int = 1) -> DataError:
        others = f" (rows without one: {rows:,})" if rows > 1 else ""
        return DataError(
            f"{path}, {where}: there is no label in {self._label!r}{others}; write it in, or take the row out."
        )


def _require_given(seen: Mapping[str, Seen], classes: Sequence[str], path: Path) -> None:
    """Refuses labels that are not among the classes given, and classes that no row has."""
    for name, (_, where) in seen.items():
        if name not in classes:
            raise DataError(f"{path}, {where}: {unknown(name, classes, 'data.classes')}")
    if missing := [name for name in classes if name not in seen]:
        close = suggestion(missing[0], seen)
        raise DataError(f"data.classes names {', '.join(map(repr, missing))}, which no row of {path} has.{close}")


def _sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
