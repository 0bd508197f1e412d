"""What a model's attention does over many texts: figures for each text, and their means over texts and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sentattn.data.text import Encoded, Span
from sentattn.insight.forward import Ints, read
from sentattn.insight.shape import Floats, shape
from sentattn.models.classifier import TextClassifier

Progress: TypeAlias = Callable[[str, int, int], None]

SEED = 0
"""Of the sample of texts and of everything that is drawn."""
FORMAT = "1"
"""Of a stored file; it changes with the definition of a figure."""
WEIGHTS = "weights"


@dataclass(frozen=True)
class Texts:
    """Labelled texts as a model reads them.

    Attributes:
        encoded: The texts' tokens, at least one each.
        labels_N: The true classes.
        rationales: For each text the character spans that decide its label; empty where they are unknown.
    """

    encoded: Sequence[Encoded]
    labels_N: Ints
    rationales: Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Diagnostics:
    """The figures of one model.

    Attributes:
        figures: A value for each text, (N,), by name; NaN where a figure is not applicable.
        weights: The attention to each text's tokens, mean over the hops.
    """

    figures: Mapping[str, Floats]
    weights: Sequence[Floats]

    def mean(self, name: str) -> float:
        """Returns the mean over the texts to which a figure applies; NaN where there are none."""
        values_N = self.figures[name]
        values_N = values_N[~np.isnan(values_N)]
        return float(values_N.mean()) if len(values_N) else np.nan

    def save(self, path: Path) -> None:
        """Writes a Parquet file: a column for each figure, and one of lists with the weights."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from sentattn.run import replacing

        weights = pa.array([row.astype(np.float32) for row in self.weights], pa.list_(pa.float32()))
        table = pa.table({**self.figures, WEIGHTS: weights}).replace_schema_metadata({"format": FORMAT})
        with replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> Diagnostics | None:
        """Reads what `save` wrote; None where there is none, or one of another format."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException):
            return None
        if (table.schema.metadata or {}).get(b"format") != FORMAT.encode():
            return None
        weights = [np.asarray(row, dtype=np.float64) for row in table[WEIGHTS].to_pylist()]
        figures = {name: table[name].to_numpy() for name in table.column_names if name != WEIGHTS}
        return cls(figures, weights)


def sample(count: int, rows: int | None) -> Ints:
    """Returns the indices of a sample, ascending, the same for all models; all where `rows` is None or not fewer."""
    if rows is None or rows >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, rows, replace=False))


def diagnose(model: TextClassifier, texts: Texts, progress: Progress = lambda stage, done, total: None) -> Diagnostics:
    """Returns the figures of a model on texts.

    Args:
        model: The model, in evaluation mode.
        texts: The texts.
        progress: Called with the progress of the work.
    """
    progress("reading", 0, len(texts.encoded))
    readings = read(model, [one.ids for one in texts.encoded], seed=SEED)
    rows = [shape(one.weights_RL, encoded.tokens) for one, encoded in zip(readings, texts.encoded, strict=True)]
    figures = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Diagnostics(figures, [one.weights_RL.mean(axis=0) for one in readings])
