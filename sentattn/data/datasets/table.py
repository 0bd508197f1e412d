"""`data=table`: your own table, with a column of texts and a column of labels, which are words or numbers."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from sentattn.config.types import Count, Fraction, Tree, Whole, checked
from sentattn.data.cache import Progress, no_progress, sha256
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData
from sentattn.data.readers import tables
from sentattn.data.readers.archives import reading
from sentattn.data.readers.tables import MAX_COUNTED, Record, is_scale, label_name, require_labels, sort_names, steps
from sentattn.errors import DataError, Fault, SettingError, suggestion

ROWS_BETWEEN_REPORTS = 1000
SHOWN, SHOWN_ROWS = 20, 3
"""Most classes, and rows without a label, that a message names."""


class TableSource(Source):
    """Labelled texts in tables, one or several per split.

    The classes are those of the training rows; without training rows they must be passed. A missing text is read as "",
    and such a row is dropped later. Rows without a label are refused or skipped.

    Args:
        files: The file of each split, a pattern of files, or a list.
        text: Name of the column of texts, or of several, which are joined.
        label: Name of the column of labels.
        group: Name of the column that says which rows belong together, or None. Its values are optional.
        classes: The labels in their order; None takes the distinct labels of the training rows, sorted. Without
            training rows, those of the model that is evaluated; the label 5 then matches `5 stars`.
        ordered: Whether the classes are steps of a scale; None infers it from numbers or from `classes`.
        names: Order of the labels, of which those of the training rows are the classes; () sorts them.
        skip_unlabeled: Whether to skip rows without a label.
        options: How the files are read.
        progress: Receives the number of rows whose labels were read.

    Raises:
        DataError: If a file is missing or cannot be a table.
    """

    def __init__(
        self,
        files: Mapping[str, str | Path | Sequence[str]],
        *,
        text: str | Sequence[str],
        label: str,
        group: str | None = None,
        classes: Sequence[str | float] | None = None,
        ordered: bool | None = None,
        names: Sequence[str] = (),
        skip_unlabeled: bool = False,
        options: tables.Options = tables.DEFAULT,
        progress: Progress = no_progress,
    ) -> None:
        self._files = {split: tables.table_paths(source, f"data.{split}") for split, source in files.items()}
        self.splits, self._options = tuple(files), options
        self._text, self._label, self._group = tables.as_columns(text), label, group
        self._classes = None if classes is None else tuple(label_name(name) or str(name) for name in classes)
        self._is_ordered, self._names, self._progress = ordered, names, progress
        self._skip_unlabeled = skip_unlabeled
        self._indices: dict[str, int] = {}
        owner = "data.classes" if classes else "data.train"
        self._owner = owner if "train" in files else "the model"

    def fingerprint(self) -> str:
        """Returns a hash over the content of all files and the settings that change how it is read."""
        content = {}
        for split, paths in self._files.items():
            with reading(paths[0], f"data.{split}"):
                hashes = [(path.suffix, sha256(path)) for path in paths]
            content[split] = hashes[0] if len(hashes) == 1 else hashes
        text = self._text[0] if len(self._text) == 1 else self._text
        parts = [content, text, self._label, self._classes, self._is_ordered]
        parts += [] if self._group is None else [self._group]
        parts += [] if self._options == tables.DEFAULT else self._options
        parts += ["skip_unlabeled"] if self._skip_unlabeled else []
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of a split; before the first one, the classes are set.

        Raises:
            DataError: If the file is damaged or empty, a label is unknown, or a text, label or group has another type,
                with file and line; after the last row if labels are missing, with their number and the first lines.
        """
        if not self._indices:
            self._find_classes()
        for path, record, name in self._labelled(split):
            if name not in self._indices:
                legal = ", ".join(self.labels[:SHOWN]) + ", ..." * (len(self.labels) > SHOWN)
                message = f"the label must be one of the classes of {self._owner} ({legal}), got {reprlib.repr(name)}."
                message = f"{path}, {record.where}: {message}{suggestion(name, self.labels)}"
                raise DataError(Fault("data.label", "unknown", message))
            yield self._row(split, path, record, self._indices[name])

    def _row(self, split: str, path: Path, record: Record, label: int) -> Row:
        group = "" if self._group is None else name_of(record, "group", self._group, path)
        return Row(tables.text_of(record, self._text, path), label, group)

    def _find_classes(self) -> None:
        classes = self._classes
        if "train" in self._files:
            where = ", ".join(map(str, self._files["train"]))
            counts: Counter[str] = Counter()
            for number, (*_, name) in enumerate(self._labelled("train"), start=1):
                if number % ROWS_BETWEEN_REPORTS == 0:
                    self._progress("Finding the classes", number, None)
                counts[name] += 1
                if len(counts) > MAX_COUNTED:
                    break
            if classes is None:
                require_labels(counts, self._label, where)
                classes = tuple(name for name in self._names if name in counts) or sort_names(counts)
            if missing := [name for name in classes if name not in counts]:
                close = suggestion(missing[0], counts)
                message = f"data.classes names {', '.join(map(repr, missing))}, which no row of {where} has.{close}"
                raise DataError(Fault("data.classes", "unknown", message))
        assert classes is not None, "classes come from the training rows or are passed"
        self.labels = classes
        is_typed = self._classes is not None
        self.ordered = is_scale(classes, typed=is_typed) if self._is_ordered is None else self._is_ordered
        self._indices = {name: index for index, name in enumerate(classes)}
        if "train" not in self._files and self.ordered:
            self._indices |= steps(classes)

    def _labelled(self, split: str) -> Iterator[tuple[Path, Record, str]]:
        """Yields the records of a split that have a label; after them it refuses the others, or counts the skipped."""
        rows, without = 0, list[str]()
        for path, record, name in self._records(split):
            rows += 1
            if name:
                yield path, record, name
            else:
                without.append(f"{path}, {record.where}" if len(without) < SHOWN_ROWS else "")
        self.skipped = {**self.skipped, split: len(without)}
        if without and (len(without) == rows or not self._skip_unlabeled):
            places = f"{'; '.join(filter(None, without))}{'; ...' if len(without) > SHOWN_ROWS else ''}"
            message = f"{len(without):,} of {rows:,} {split} rows have no label in {self._label!r} ({places})."
            advice = "skip them with data.skip_unlabeled=true, or name another column with data.label=COLUMN."
            advice = advice if len(without) < rows else "name the column of labels with data.label=COLUMN."
            raise DataError(Fault("data.label", "missing", f"{message} Label them, {advice}"))

    def _records(self, split: str) -> Iterator[tuple[Path, Record, str]]:
        """Yields the records of a split, each with its file and the name of its class, "" where it has no label."""
        columns = [*self._text, self._label, *([] if self._group is None else [self._group])]
        for path, record in tables.all_records(self._files[split], columns, tables.COLUMNS_HINT, self._options):
            yield path, record, name_of(record, "label", self._label, path)


def name_of(record: Record, setting: str, column: str, path: Path) -> str:
    """Returns the label or group of a record; "" where it is missing."""
    try:
        return label_name(record.values[column]) or ""
    except TypeError as error:
        got = reprlib.repr(record.values[column])
        message = f"the {setting} in {column!r} must be a word, a number or a date, got {got}."
        raise DataError(Fault(f"data.{setting}", "type", f"{path}, {record.where}: {message}")) from error


class RecordData(TextData):
    """Rows with a column of labels, and maybe one of groups.

    Args:
        group: Name of a column that says which rows belong together, such as their product or author; null for none.
        classes: The labels in their order; null takes the named classes of `data=hub`, or the labels of the training
            rows, sorted, numbers as numbers.
        skip_unlabeled: Whether to skip rows without a label; false refuses them. Labels that the training rows do not
            have are refused in any case.
        val_size: Training rows set aside for validation, their number or a share below 1; null for a tenth, or none if
            there are validation rows.
        val_by: Whether to set whole groups aside for validation and testing (`group`), or single rows (`row`); null
            for `group` with `data.group`, else `row`.
        split_seed: Seed of the selection of validation rows.
        test_size: Test rows, their number or a share below 1; null for all test rows, or else a tenth of the training
            rows, at most 10,000. 0 selects none, with `test=false`.
        test_seed: Seed of the selection of test rows.
        folds: Number of folds into which all rows are divided, by class and, with `val_by=group`, in whole groups, with
            `split_seed` plus `seed`; null for none. Each fold is the test set of a training on the others.
        fold: Which fold is the test set, from 0; null trains with each in turn.
        settings: Those of `TextData`.
    """

    text: str | list[str] | None
    label: str | None

    @checked
    def __init__(
        self,
        *,
        group: str | None = None,
        classes: list[str | int | float | bool] | None = None,
        skip_unlabeled: bool = False,
        val_size: Count | Fraction | None = None,
        val_by: Literal["group", "row"] | None = None,
        split_seed: Whole = 0,
        test_size: Count | Fraction | None = None,
        test_seed: Whole = 0,
        folds: Annotated[int, Ge(2), Le(20)] | None = None,
        fold: Whole | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.group, self.classes, self.skip_unlabeled = group, classes, skip_unlabeled
        self.val_size, self.split_seed = val_size, split_seed
        self.val_by = val_by or ("row" if group is None else "group")
        self.test_size, self.test_seed = test_size, test_seed
        self.folds, self.fold = folds, fold or 0
        self._evaluated: tuple[str, Sequence[str], bool] | None = None

    def test_only(self, split: str, labels: Sequence[str], *, ordered: bool) -> None:
        """Uses the classes of a model and reads no other split, if this one has rows of its own."""
        # Dropping repeated texts makes the validation rows depend on the other splits.
        if split == "test" or not self.drop_duplicates:
            self._evaluated = split, labels, ordered

    def choose(self, splits: Tree, missing: Fault) -> tuple[Tree, Tree]:
        """Returns which of the splits are read, and how: only the evaluated one after `test_only`.

        Raises:
            DataError: The fault, if there are no training rows.
        """
        read = {"text": self.text, "label": self.label, "skip_unlabeled": self.skip_unlabeled}
        if self._evaluated and self._evaluated[0] in splits:
            split, labels, ordered = self._evaluated
            return {split: splits[split]}, {**read, "classes": labels, "ordered": ordered}
        if "train" not in splits:
            raise DataError(missing)
        if "val" not in splits and self.val_size is None:
            self.val_size = 0.1
        return splits, {**read, "classes": self.classes, "group": self.group}


class Table(RecordData):
    """Your own table in CSV, TSV, JSON, parquet or Excel.

    Args:
        train: File of the training rows; several as a list such as `[a.csv,b.csv]`, or as a pattern such as
            `shards/*.parquet`, whose files are read in the order of their names.
        val: File or files of validation rows; null sets training rows aside for validation.
        test: File or files of test rows; null sets training rows aside for testing.
        text: Name of the column of texts; of a list such as `[title,body]` the texts are joined by line breaks, without
            missing ones.
        label: Name of the column of labels, which are words, numbers, dates, or true and false. Empty, `nan`, `NaN`,
            `NAN`, `None`, `null`, `NULL` and `<NA>` are missing labels.
        header: Whether CSV and TSV begin with the names of their columns; without, columns are numbers from 1 on, such
            as `data.text=2`.
        encoding: Encoding of CSV, TSV and JSON by Python's name, such as `latin-1` or `cp1252`.
        quotes: Whether quotes enclose texts of a CSV or TSV, which may have line breaks then; false reads quotes as
            text. null: they do, and a text of a TSV with a line break is refused.
        settings: Those of `RecordData`.

    Raises:
        SettingError: If an argument is out of range, or two arguments exclude each other.
    """

    @checked
    def __init__(
        self,
        *,
        name: str = "table",
        train: str | list[str] | None = None,
        val: str | list[str] | None = None,
        test: str | list[str] | None = None,
        text: str | list[str] = "text",
        label: str = "label",
        header: bool = True,
        encoding: str = "utf-8",
        quotes: bool | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        self.text, self.label, self.options = text, label, tables.Options(header, encoding, quotes)
        self.files = {split: file for split, file in (("train", train), ("val", val), ("test", test)) if file}
        if faults := tables.setting_faults({**vars(self), **self.files}):
            raise SettingError(*faults)

    def source(self, progress: Progress) -> Source:
        """Returns the rows of the files; only the evaluated split after `test_only`."""
        files, read = self.choose(self.files, tables.missing_file({"name": self.name}))
        return self._rows(files, **read, options=self.options, progress=progress)

    def _rows(self, files: Mapping[str, Any], **arguments: Any) -> Source:
        """Returns the rows of some of the files."""
        return TableSource(files, **arguments)
