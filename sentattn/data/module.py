"""The data modules, one a data set: where its texts come from, and what only it can be told."""

from __future__ import annotations

from typing import Any, ClassVar

from sentattn.data.sources.base import Source
from sentattn.data.text_data import TextData
from sentattn.kinds import Count, Fraction, Whole, checked


class Demo(TextData):
    """The embedded corpus of short made-up reviews; it has validation rows of its own."""

    classes: ClassVar[int] = 2

    def __init__(self, *, name: str = "demo", **settings: Any) -> None:
        super().__init__(name=name, **settings)

    def source(self) -> Source:
        """Returns the grammar's reviews."""
        from sentattn.data.sources.demo import Demo as DemoSource

        return DemoSource()


class Imdb(TextData):
    """The Large Movie Review Dataset, with its official test split.

    Args:
        path: The archive `aclImdb_v1.tar.gz`, or a folder with its content.
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

    def source(self) -> Source:
        """Returns the reviews at `path`."""
        from sentattn.data.sources.imdb import Imdb as ImdbSource

        return ImdbSource(self.path)
