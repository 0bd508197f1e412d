"""What a source of labelled texts gives: rows, split by split, and a fingerprint of its content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text.

    Attributes:
        text: The text as it stands in the source.
        label: Index of its class in `Source.labels`.
        group: What rows may share beside their label (a film), or "".
        rationale: Character spans that decide the label, where that is known.
    """

    text: str
    label: int
    group: str = ""
    rationale: tuple[tuple[int, int], ...] = ()


class Source(ABC):
    """Labelled texts in the source's own order and splits.

    Attributes:
        labels: Names of the classes, by index. A source that finds them in its texts has them, like `ordered`, once
            a split is being read.
        ordered: Whether the classes are steps of a scale, such as stars.
        splits: The splits that the source itself has: `train`, and where it has them `val` and `test`.
    """

    labels: tuple[str, ...]
    ordered: bool = False
    splits: tuple[str, ...]

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns a hash of the content, cheap enough for every start."""

    @abstractmethod
    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of one of the source's own splits, in the source's order.

        Raises:
            DataError: If the data is missing, damaged or unusable.
        """
