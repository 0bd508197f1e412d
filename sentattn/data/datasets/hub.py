"""`data=hub`: a data set of the Hugging Face Hub, or a folder in one of its formats."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentattn.config.types import Tree, checked
from sentattn.data.cache import Progress
from sentattn.data.corpus import Source
from sentattn.data.datasets.table import RecordData, TableSource, name_of
from sentattn.data.readers.hub import DATASET_KEY, find
from sentattn.data.readers.tables import Record, label_name, steps
from sentattn.errors import DataError, Fault

ROWS = 1000
"""Rows that are read at once."""


class HubSource(TableSource):
    """Labelled texts of a data set of the Hub.

    Args:
        dataset: Its name, for messages.
        splits: The rows of each split (`datasets.Dataset`).
        notes: Messages about them for the user.
        settings: Those of `TableSource`. The classes are in the order of the named classes of the column of labels.
    """

    def __init__(self, dataset: str, splits: Tree, notes: tuple[str, ...] = (), **settings: Any) -> None:
        names = {split: getattr(rows.features[settings["label"]], "names", []) for split, rows in splits.items()}
        self._class_names = {split: [label_name(name) or name for name in names[split]] for split in splits}
        first = next(iter(self._class_names.values()))
        super().__init__({}, names=first, **{"ordered": bool(steps(first)) or None, **settings})
        columns = [*self._text, self._label, *([] if self._group is None else [self._group])]
        self._rows = {split: rows.select_columns(columns).with_format("arrow") for split, rows in splits.items()}
        self._files = {split: [Path(dataset, split)] for split in splits}
        self.splits, self.notes = tuple(splits), notes

    def fingerprint(self) -> str:
        """Returns a hash over texts, labels, groups and classes."""
        content = [self._text, self._label, self._group, self._classes, self._is_ordered, self._class_names]
        content += ["skip_unlabeled"] if self._skip_unlabeled else []
        digest = hashlib.sha256(json.dumps(content).encode())
        for rows in self._rows.values():
            for table in rows.iter(ROWS):
                digest.update(table.combine_chunks().to_batches()[0].serialize())
        return digest.hexdigest()

    def _records(self, split: str) -> Iterator[tuple[Path, Record, str]]:
        names, [path] = self._class_names[split], self._files[split]
        tables = (table.to_pylist() for table in self._rows[split].iter(ROWS))
        try:
            for number, values in enumerate(itertools.chain.from_iterable(tables), start=1):
                record, label = Record(f"row {number}", values), values[self._label]
                named = names[label] if names and label is not None and label >= 0 else ""  # -1 is a missing label
                yield path, record, named if names else name_of(record, "label", self._label, path)
        except UnicodeDecodeError as error:
            raise DataError(Fault(DATASET_KEY, "damaged", f"{path}: a text is not UTF-8 ({error}).")) from error


class Hub(RecordData):
    """A data set of the Hugging Face Hub, or a folder in one of its formats.

    Args:
        dataset: A name such as `fancyzhx/ag_news`; a folder that `save_to_disk` of `datasets` has written; or a folder
            of data files that its `load_dataset` reads. A folder goes before a name.
        config: Its configuration, such as `sst2` of `nyu-mll/glue`; null for the only one.
        revision: Branch, tag or commit; null for the newest.
        text: Name of the column of texts, or a list of names such as `[title,content]`, whose texts are joined by line
            breaks; null for `text` or the only column of strings.
        label: Name of the column of labels; null for the only one with named classes, or `label`.
        settings: Those of `RecordData`.
    """

    @checked
    def __init__(
        self,
        *,
        name: str = "hub",
        dataset: str | None = None,
        config: str | None = None,
        revision: str | None = None,
        text: str | list[str] | None = None,
        label: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        self.dataset, self.config, self.revision = dataset, config, revision
        self.text, self.label = text, label

    def source(self, progress: Progress) -> Source:
        """Returns the rows of the data set; only the evaluated split after `test_only`."""
        found, columns, notes = find(vars(self))
        message = f"only the split {' and '.join(found)} has rows with a label in {columns['label']!r}"
        splits, read = self.choose(found, Fault("data.label", "missing", f"{message}; training needs a split train."))
        return HubSource(str(self.dataset), splits, notes, **{**read, **columns}, progress=progress)
