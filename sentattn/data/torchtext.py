"""Datasets of torchtext 0.6.0, its last release in pure Python, as tables and a data module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentattn.config.types import Tree
from sentattn.data.datasets.table import Table


def from_torchtext(
    train: Any,
    val: Any = None,
    test: Any = None,
    *,
    folder: str | Path,
    text: str = "text",
    label: str = "label",
    **others: Any,
) -> Table:
    """Writes datasets (`torchtext.data.Dataset`) as tables, `train.parquet` and so on; returns their data module.

    Its `files` are the paths, so that any command reads the same rows: `data=table data.train=FILE ...`. `text` and
    `label` name the fields; tokens are joined by spaces, which the tokenizer `basic_english` divides as torchtext's
    does. Without rows for `val` or `test` a tenth is set aside. `others` are other arguments of `Table`.
    """
    files: Tree = {}
    for split, dataset in {"train": train, "val": val, "test": test}.items():
        if dataset is not None:
            files[split] = str(path := Path(folder, f"{split}.parquet"))
            rows = [(getattr(example, text), getattr(example, label)) for example in dataset.examples]
            texts = [value if isinstance(value, str) else " ".join(value) for value, _ in rows]
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({text: texts, label: [value for _, value in rows]}), path)
    return Table(**{"tokenizer": "basic_english", **files, **others}, text=text, label=label)
