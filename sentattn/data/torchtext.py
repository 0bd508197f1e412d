"""Datasets of torchtext 0.6.0, its last release in pure Python, as tables and a data module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentattn.config.types import Tree
from sentattn.data.datasets.table import Table
from sentattn.errors import DataError, Fault


def from_torchtext(
    train: Any,
    val: Any = None,
    test: Any = None,
    *,
    folder: str | Path,
    text: str = "text",
    label: str = "label",
    tokenizer: str = "basic_english",
    **settings: Any,
) -> Table:
    """Writes torchtext's datasets as tables, and returns the data module of these tables.

    Its attribute `files` has the paths, so that any command can read the same rows: `data=table data.train=FILE ...`.

    Args:
        train: Dataset of the training rows (`torchtext.data.Dataset`), whose examples have a text and a label.
        val: Dataset of the validation rows; None sets a tenth of the training rows aside.
        test: Dataset of the test rows; None likewise.
        folder: Where the tables are written, as `train.parquet` and so on.
        text: Name of the field of texts. If the field has tokenized its texts, the tokens are joined by spaces.
        label: Name of the field of labels.
        tokenizer: Tokenization rules of the joined texts; `basic_english` restores the tokens of torchtext's tokenizer
            of this name.
        settings: Other arguments of `Table`.

    Raises:
        DataError: If an example has no such field.
    """
    files: Tree = {}
    for split, dataset in {"train": train, "val": val, "test": test}.items():
        if dataset is None:
            continue
        try:
            values = [(getattr(example, text), getattr(example, label)) for example in dataset.examples]
        except AttributeError as error:
            message = f"{split}: {error}; name the fields of texts and labels with text= and label=."
            raise DataError(Fault(split, "missing", message)) from error
        texts = [value if isinstance(value, str) else " ".join(value) for value, _ in values]
        path = Path(folder, f"{split}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({text: texts, label: [value for _, value in values]}), path)
        files[split] = str(path)
    return Table(**files, text=text, label=label, tokenizer=tokenizer, **settings)
