"""The data modules, one a data set: where its texts come from, and what only it can be told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from sentattn.config.types import Count, Fraction, Whole, checked
from sentattn.data.building import Progress
from sentattn.data.cache import cache_folder
from sentattn.data.datasets.base import Source
from sentattn.data.datasets.classes import class_faults
from sentattn.data.download.fetching import fetch
from sentattn.data.text_data import TextData
from sentattn.errors import DataError, SettingError

TENTH = 0.1


class Demo(TextData):
    """The embedded corpus of short made-up reviews; it has validation rows of its own."""

    classes: ClassVar[int] = 2

    def __init__(self, *, name: str = "demo", **settings: Any) -> None:
        super().__init__(name=name, **settings)

    def source(self, progress: Progress) -> Source:
        """Returns the grammar's reviews."""
        from sentattn.data.datasets.demo import Demo as DemoSource

        return DemoSource()


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
        from sentattn.data.datasets.imdb import ARCHIVE
        from sentattn.data.datasets.imdb import Imdb as ImdbSource

        folder = cache_folder(self.cache_dir)
        path = self.path or fetch(ARCHIVE, folder=folder, mirror=self.mirror, progress=progress)
        return ImdbSource(path)


class Yelp(TextData):
    """Yelp's reviews with one to five stars.

    Args:
        path: The Open Dataset's JSON lines, the GluonNLP tutorial's ZIP or the JSON in it, or `yelp_review_full` as an
            archive or folder of CSV or as a folder of parquet; null downloads the last.
        train_size: Training rows, each class in its share; null is all.
        val_size: Training rows set aside for validation: their number, or a share below 1.
        split_seed: Seed of which rows train and which validate.
        test_size: Test rows, their number or a share below 1; null is the test rows of `yelp_review_full`, or else a
            tenth of all rows, 10,000 at most.
        test_seed: Seed of which rows these are, each class in its share; null takes the last.
        settings: Those of `TextData`.
    """

    classes: ClassVar[int] = 5

    @checked
    def __init__(
        self,
        *,
        name: str = "yelp",
        path: str | None = None,
        train_size: Count | None = None,
        val_size: Count | Fraction = 0.05,
        split_seed: Whole = 0,
        test_size: Count | Fraction | None = None,
        test_seed: Whole | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        self.path = path
        self.train_size = train_size
        self.val_size = val_size
        self.split_seed = split_seed
        self.test_size = test_size
        self.test_seed = test_seed

    def source(self, progress: Progress) -> Source:
        """Returns the reviews at `path`, or those downloaded."""
        from sentattn.data.datasets.yelp import Yelp as YelpSource
        from sentattn.data.datasets.yelp_files import ARCHIVE

        folder = cache_folder(self.cache_dir)
        path = self.path or fetch(ARCHIVE, folder=folder, mirror=self.mirror, progress=progress)
        return YelpSource(path)


class Table(TextData):
    """A table of one's own, in CSV, TSV, JSON lines or parquet.

    Args:
        train: File of the training rows.
        val: File of validation rows; null sets training rows aside for them.
        test: File of test rows; null likewise.
        text: Name of the column of texts.
        label: Name of the column of labels, which are words or numbers.
        classes: The labels in their order; null takes those of the training rows, sorted, numbers as numbers.
        val_size: Training rows set aside for validation, their number or a share below 1; null is a tenth, or none
            beside `val`.
        split_seed: Seed of which rows these are.
        test_size: Rows of `test` that are taken, or of `train` without it, their number or a share below 1; null is
            all of `test`, or else a tenth of `train`, 10,000 at most.
        test_seed: Seed of which rows these are.
        settings: Those of `TextData`.

    Raises:
        SettingError: If an argument is out of range, or two do not go together.
    """

    @checked
    def __init__(
        self,
        *,
        name: str = "table",
        train: str | None = None,
        val: str | None = None,
        test: str | None = None,
        text: str = "text",
        label: str = "label",
        classes: list[str | int | float | bool] | None = None,
        val_size: Count | Fraction | None = None,
        split_seed: Whole = 0,
        test_size: Count | Fraction | None = None,
        test_seed: Whole = 0,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        faults = class_faults(classes or ())
        if text == label:
            faults.append(f"data.text and data.label both name the column {text!r}; they are two columns.")
        if val is not None and val_size is not None:
            faults.append(f"data.val_size={val_size} does nothing beside data.val={val}: leave one of them out.")
        if faults:
            raise SettingError(*faults)
        self.files = {split: file for split, file in (("train", train), ("val", val), ("test", test)) if file}
        self.text = text
        self.label = label
        self.class_names = classes
        self.val_size = TENTH if val is None and val_size is None else val_size
        self.split_seed = split_seed
        self.test_size = test_size
        self.test_seed = None if test is not None and test_size is None else test_seed
        self._tested: tuple[str, Sequence[str], bool] | None = None

    def test_only(self, split: str, labels: Sequence[str], *, ordered: bool) -> None:
        """Takes a model's classes, and reads no other file, where the split has one of its own."""
        # Which rows validate depends on the other files where repeated texts are dropped.
        if split in self.files and (split == "test" or not self.drop_duplicates):
            self._tested = split, labels, ordered

    def source(self, progress: Progress) -> Source:
        """Returns the rows of the files."""
        from sentattn.data.datasets.table import Table as TableSource

        files = {split: Path(file) for split, file in self.files.items()}
        if self._tested:
            split, labels, ordered = self._tested
            own = {split: files[split]}
            return TableSource(own, text=self.text, label=self.label, classes=labels, ordered=ordered)
        if "train" not in files:
            raise DataError(
                f"data={self.name} has no rows: type data.train=FILE data.text=COLUMN data.label=COLUMN, "
                "with a .csv, .tsv, .jsonl or .parquet file; to test a model, data.test=FILE."
            )
        return TableSource(files, text=self.text, label=self.label, classes=self.class_names, progress=progress)
