"""`data=hub`: a data set of the Hugging Face Hub, or a folder in one of its formats."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from sentattn.config.types import Count, Fraction, Tree, Whole, checked
from sentattn.data.cache import Progress
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData
from sentattn.data.readers.hub import KEY, HubData, find, listed
from sentattn.data.readers.tables import is_scale, joined, label_name, require_labels, sort_names, steps
from sentattn.errors import DataError, Fault, suggestion

ROWS = 1000
"""Rows that are read at once."""
Evaluated: TypeAlias = tuple[str, Sequence[str], bool]
"""The only split that is read, if it has labels; the classes of the model; whether they are steps of a scale."""


class HubSource(Source):
    """Labelled texts of a data set of the Hub. Rows and splits without labels are left out.

    The classes are `classes`, or those that the column of labels names, or else the labels of the training rows.

    Raises:
        DataError: If there are no labels, or one is none of the classes.
    """

    def __init__(
        self,
        data: HubData,
        *,
        group: str | None = None,
        classes: Sequence[str | float] | None = None,
        evaluated: Evaluated | None = None,
    ) -> None:
        self._data, self._group = data, group
        found = {split: _read_labels(rows, data.label) for split, rows in data.splits.items()}
        unlabelled = {split: len(rows) - found[split][1].total() for split, rows in data.splits.items()}
        dropped = [f"{rows:,} of {len(data.splits[split]):,} in {split}" for split, rows in unlabelled.items() if rows]
        self.notes = (f"Dropped rows without a label: {', '.join(dropped)}.",) if dropped else ()
        self.splits = tuple(split for split, (labels, _) in found.items() if labels)
        if evaluated and evaluated[0] in self.splits:
            self.splits, self.labels, self.ordered = (evaluated[0],), tuple(evaluated[1]), evaluated[2]
        elif "train" in self.splits:
            counts = found["train"][1]
            require_labels(counts, data.label, KEY)
            names = getattr(data.splits["train"].features[data.label], "names", None)
            self.labels = tuple(label_name(name) or str(name) for name in classes or names or sort_names(counts))
            if classes and (missing := [name for name in self.labels if name not in counts]):
                message = f"data.classes names {listed(missing)}, which no training row has."
                raise DataError(Fault("data.classes", "unknown", message + suggestion(missing[0], counts)))
            self.ordered = is_scale(self.labels, typed=bool(classes)) or bool(names and steps(self.labels))
        else:
            message = f"No training row has a label in {data.label!r}; splits with labels: "
            raise DataError(Fault("data.label", "missing", f"{message}{listed(self.splits) or 'none'}."))
        indices = {name: index for index, name in enumerate(self.labels)}
        indices |= steps(self.labels) if evaluated and self.ordered else {}
        self._indices: dict[str, dict[object, int]] = {}
        for split in self.splits:
            labels = found[split][0]
            if unknown := sorted({*labels.values()} - {*indices}):
                message = f"The labels of {split} must be {listed(self.labels)}, got {unknown[0]!r}."
                raise DataError(Fault("data.label", "unknown", message + suggestion(unknown[0], self.labels)))
            self._indices[split] = {value: indices[name] for value, name in labels.items()}

    def fingerprint(self) -> str:
        """Returns a hash over texts, labels, groups and classes."""
        indices = [sorted(map(str, of_split.items())) for of_split in self._indices.values()]
        digest = hashlib.sha256(json.dumps([self.labels, self.ordered, indices, len(self._data.texts)]).encode())
        for split in self.splits:
            for table in self._tables(split):
                for batch in table.combine_chunks().to_batches():
                    digest.update(batch.serialize())
        return digest.hexdigest()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows that have a label, in order."""
        indices = self._indices[split]
        for table in self._tables(split):
            columns = [_values(column) for column in table.columns]
            groups = map(label_name, columns.pop()) if self._group else [None] * len(table)
            labels = map(indices.get, columns.pop())
            for text, label, group in zip(map(joined, zip(*columns, strict=True)), labels, groups, strict=True):
                if label is not None:
                    yield Row(text, label, group or "")

    def _tables(self, split: str) -> Iterator[Any]:
        """Yields columns of texts, of labels and of groups, a few rows (`pyarrow.Table`) at a time."""
        columns = [*self._data.texts, self._data.label, *([self._group] if self._group else [])]
        yield from self._data.splits[split].select_columns(columns).with_format("arrow").iter(batch_size=ROWS)


def _values(column: Any) -> list[Any]:
    """Returns the values of a column of Arrow."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise DataError(Fault(KEY, "damaged", f"{KEY}: a text is not UTF-8 ({error}).")) from error
    return values


def _read_labels(dataset: Any, column: str) -> tuple[dict[object, str], Counter[str]]:
    """Returns the label of each value of a column that is one, and the number of rows of each label."""
    labels, counts = dict[object, str](), Counter[str]()
    if column not in dataset.features:
        return labels, counts
    names = getattr(dataset.features[column], "names", None)
    for entry in _values(dataset.select_columns(column).with_format("arrow")[:][column].value_counts()):
        value = entry["values"]
        if names:  # by convention, -1 is a missing label
            name = names[value] if value is not None and 0 <= value < len(names) else None
            name = name and (label_name(name) or name)
        else:
            name = label_name(value)
        if name is not None:
            labels[value] = name
            counts[name] += entry["counts"]
    return labels, counts


class Hub(TextData):
    """A data set of the Hugging Face Hub, or a folder in one of its formats.

    Args:
        dataset: A name such as `fancyzhx/ag_news`; a folder that `save_to_disk` of `datasets` has written; or a folder
            of data files that its `load_dataset` reads. A folder goes before a name.
        config: Its configuration, such as `sst2` of `nyu-mll/glue`; null for the only one.
        revision: Branch, tag or commit; null for the newest.
        text: Name of the column of texts, or a list of names such as `[title,content]`, whose texts are joined by line
            breaks; null for `text` or the only column of strings.
        label: Name of the column of labels; null for the only one with named classes, or `label`.
        group: Name of a column that says which rows belong together, such as their product or author; null for none.
        classes: The labels in their order; null takes the classes of the data set, or the sorted labels of the training
            rows.
        val_size: Training rows set aside for validation, their number or a share below 1; null for a tenth, or none
            with a split `validation`.
        val_by: Whether to set whole groups aside for validation and testing (`group`), or single rows (`row`); null
            for `group` with `data.group`, else `row`.
        split_seed: Seed of the selection of validation rows.
        test_size: Test rows, their number or a share below 1; null for the whole split `test`, or else a tenth of the
            training rows, at most 10,000. 0 selects none, with `test=false`.
        test_seed: Seed of the selection of test rows.
        settings: Those of `TextData`.
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
        group: str | None = None,
        classes: list[str | int | float | bool] | None = None,
        val_size: Count | Fraction | None = None,
        val_by: Literal["group", "row"] | None = None,
        split_seed: Whole = 0,
        test_size: Count | Fraction | None = None,
        test_seed: Whole = 0,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        self.choice: Tree = {"dataset": dataset, "config": config, "revision": revision, "text": text, "label": label}
        self.choice |= {"group": group, "classes": classes, "val_size": val_size, "val_by": val_by}
        self.val_size, self.split_seed = val_size, split_seed
        self.val_by = val_by or ("row" if group is None else "group")
        self.test_size, self.test_seed = test_size, test_seed
        self._evaluated: Evaluated | None = None

    def test_only(self, split: str, labels: Sequence[str], *, ordered: bool) -> None:
        """Uses the classes of a model and reads no other split, if this one has labels."""
        # Dropping repeated texts makes the validation rows depend on the other splits.
        if split == "test" or not self.drop_duplicates:
            self._evaluated = split, labels, ordered

    def source(self, progress: Progress) -> Source:
        """Returns the rows of the data set; only the evaluated split after `test_only`."""
        group, classes = self.choice["group"], self.choice["classes"]
        source = HubSource(find(self.choice), group=group, classes=classes, evaluated=self._evaluated)
        if "val" not in source.splits:
            self.val_size = 0.1 if self.val_size is None else self.val_size
        elif self.val_size is not None:
            message = f"data.val_size={self.val_size} has no effect: {self.name} has validation rows; leave it out."
            raise DataError(Fault("data.val_size", "no_effect", message))
        if self.test_size is None and "test" in source.splits:
            self.test_seed = None
        return source
