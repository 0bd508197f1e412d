"""`data=states`: states that any frozen model has computed, with a table of their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sentattn.config.types import checked
from sentattn.data.cache import Progress
from sentattn.data.corpus import Row, Source, Types
from sentattn.data.datasets.table import Table, TableSource
from sentattn.data.readers import tables
from sentattn.data.readers.states import StateFile, open_states, rows_table
from sentattn.data.readers.tables import Record
from sentattn.data.states import StateTable, StateTokenizer
from sentattn.data.tokenizer import NAME_END, Span
from sentattn.errors import DataError, Fault, SettingError

TEXT, GROUP, ROW, TOKENS, NUMBER = "text", "group", "row", "tokens", "_number"
"""Columns that a table of rows may have, and one that its records get: their number."""
HINT = "Name the column of labels with data.label=COLUMN."


class StateSource(TableSource):
    """Labelled rows of states.

    Args:
        states: The states of each split.
        table: Which states have which id.
        files: The table of rows of each split.
        settings: Those of `TableSource`.
    """

    def __init__(
        self, states: Mapping[str, StateFile], table: StateTable, files: Mapping[str, Any], **settings: Any
    ) -> None:
        super().__init__(files, **settings)
        self._states, self._starts = states, dict(zip(states, table.starts.tolist(), strict=False))
        self._content = table.fingerprint

    def fingerprint(self) -> str:
        """Returns a hash over the tables and the states."""
        return hashlib.sha256(f"{super().fingerprint()} {self._content}".encode()).hexdigest()

    def _records(self, split: str) -> Iterator[tuple[Path, Record, str]]:
        """Yields the records of a split as those of a table, each with the number of its row.

        Raises:
            DataError: If there are not as many states as rows.
        """
        number, states = -1, self._states[split]
        for number, (path, record, name) in enumerate(super()._records(split)):
            yield path, record._replace(values={**record.values, NUMBER: number}), name
        if number + 1 != len(states):
            files = ", ".join(map(str, self._files[split]))
            message = f"{states.path} has states of {len(states):,} rows, and {files} has {number + 1:,}."
            raise DataError(Fault(f"data.{split}", "conflict", message))

    def _row(self, split: str, path: Path, record: Record, label: int) -> Row:
        row, number = super()._row(split, path, record, label), record.values[NUMBER]
        if number >= len(self._states[split]):
            return replace(row, tokens=())  # the message follows after the last
        places, key = self._states[split].places(number), row.text or f"{split} {record.values.get(ROW, number)}"
        text, spans = shown(record, path, row.text, f"{split} {number}", len(places))
        ids = tuple((self._starts[split] + places).tolist())
        return replace(row, text=text, key=key, tokens=ids, spans=tuple(spans))


def shown(record: Record, path: Path | None, text: str, place: str, count: int) -> tuple[str, list[Span]]:
    """Returns what is shown of a row, and the place of each of its `count` tokens in it.

    It is the place of the row, such as `train 17`, its name, and the texts of its tokens; tokens without texts are
    numbered, after the text of the row, if it has one.

    Raises:
        DataError: If its column `tokens` has not a text for each state.
    """
    tokens, name = record.values.get(TOKENS), record.values.get(ROW)
    if isinstance(tokens, str):  # of a CSV
        with suppress(ValueError):
            tokens = json.loads(tokens) if tokens.startswith("[") else tokens.split()
    heading = place if name is None or place.endswith(f" {name}") else f"{place} ({name})"
    if tokens is None:
        heading, tokens = f"{heading}: {text}" if text else heading, [str(number) for number in range(1, count + 1)]
    if not isinstance(tokens, list) or [*map(type, tokens)] != [str] * count:
        message = f"{path}, {record.where}: {TOKENS!r} must hold {count} texts, one for each state of the row."
        raise DataError(Fault("data.rows", "type", message))
    heading = f"{heading}:{NAME_END}"
    ends = len(heading) + np.cumsum([1 + len(token) for token in tokens])
    spans = [(end - len(token), end) for token, end in zip(tokens, ends.tolist(), strict=True)]
    return " ".join([heading, *tokens]), spans


class States(Table):
    """States of anything, one vector a token, from files; see `sentattn.save_states`.

    The columns `text`, `group`, `tokens` and `row` of a table of rows need not be there.

    Args:
        train: States of the training rows: a `.safetensors` or `.npz` file, or a folder with `states.npy` and
            `offsets.npy` or `mask.npy`.
        val: States of validation rows; null sets training rows aside for validation.
        test: States of test rows; null sets training rows aside for testing.
        rows: Table of the rows of these files, in their order; a list where there are several. null: `NAME.parquet`,
            `NAME.csv`, ... next to `NAME.safetensors`, or `rows.parquet`, ... in the folder.
        settings: Those of `Table`.
    """

    @checked
    def __init__(
        self,
        *,
        name: str = "states",
        train: str | None = None,
        val: str | None = None,
        test: str | None = None,
        rows: str | list[str] | None = None,
        group: str | None = "group",
        **settings: Any,
    ) -> None:
        self.paths = {split: path for split, path in (("train", train), ("val", val), ("test", test)) if path}
        named = tables.as_columns(rows) if rows else [None] * len(self.paths)
        if len(named) != len(self.paths):
            message = f"data.rows must name a table for each of {', '.join(self.paths.values())}, got {rows}."
            raise SettingError(Fault("data.rows", "range", message))
        pairs = zip(self.paths.items(), named, strict=True)
        found = {split: table or rows_table(path) for (split, path), table in pairs}
        files: dict[str, Any] = {split: str(table) for split, table in found.items() if table is not None}
        super().__init__(name=name, group=group, **files, **settings)

    def source(self, progress: Progress) -> Source:
        """Returns the rows of the files; only the evaluated split after `test_only`."""
        for split, path in self.paths.items():
            if split not in self.files:
                message = f"data.{split}={path}: there is no table of its rows next to it; type data.rows=TABLE."
                raise DataError(Fault("data.rows", "missing", message))
        return super().source(progress)

    def _rows(self, files: Mapping[str, Any], **arguments: Any) -> Source:
        states = {split: open_states(self.paths[split], f"data.{split}", self.cache_dir) for split in files}
        self.states = StateTable(list(states.values()))
        options = arguments["options"] = self.options._replace(keep_others=True)
        paths = [path for split, file in files.items() for path in tables.table_paths(file, f"data.{split}")]
        first = [next(tables.all_records([path], [str(self.label)], HINT, options))[1].values for path in paths]
        if arguments["text"] == TEXT and not all(TEXT in values for values in first):
            arguments["text"] = []
        if arguments.get("group") == GROUP and not all(GROUP in values for values in first):
            arguments["group"], self.val_by = None, "row"
        return StateSource(states, self.states, files, **arguments)

    def _types(self) -> Types:
        return StateTokenizer(max_length=self.max_length, clip=self.clip)
