"""The interface of a data set: labelled rows, split by split, and a fingerprint of its content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text.

    Attributes:
        text: The text, unchanged.
        label: Index of its class in `Source.labels`.
        group: What rows may share besides their label (a film), or "".
        rationale: Character spans that decide the label, where that is known.
    """

    text: str
    label: int
    group: str = ""
    rationale: tuple[tuple[int, int], ...] = ()


class Source(ABC):
    """Labelled texts in their original order and splits.

    Attributes:
        labels: Names of the classes, by index. A source that infers them from its rows sets them, and `ordered`, with
            the first row that is read.
        ordered: Whether the classes are steps of a scale, such as stars.
        splits: The original splits: `train`, and maybe `val` and `test`.
    """

    labels: tuple[str, ...]
    ordered: bool = False
    splits: tuple[str, ...]

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns a hash of the content, cheap enough for every start."""

    @abstractmethod
    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of an original split, in order.

        Raises:
            DataError: If the data is missing, damaged or unusable.
        """
