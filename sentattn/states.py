"""Writes states of frozen models for `data=states`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pyarrow import parquet

from sentattn.data.readers.memory import arrow_table, column_names
from sentattn.data.readers.states import MASK, OFFSETS, SAFETENSORS, STATES, StateFile
from sentattn.errors import DataError, Fault, first_line
from sentattn.run import replacing, save_tensors


def save_states(path: str | os.PathLike[str], states: Any, mask_or_offsets: Any = None, rows: Any = None) -> None:
    """Writes states of a frozen model for `data=states`, with a table of their rows.

    Args:
        path: The file, whose name ends in `.safetensors`; the table is a `.parquet` with the same name.
        states: An array or a tensor (N, L, D) or (T, D), or a list of N of them (L, D), as float32, float16 or
            bfloat16; float64 becomes float32.
        mask_or_offsets: Of states (N, L, D) which tokens are real, bool or 0 and 1 (N, L), or None for all; of states
            (T, D) where each row begins, and the end of the last, int64 (N + 1). None with a list.
        rows: A row each: a data frame of pandas or polars, a table of pyarrow, a data set of Hugging Face, or a
            dictionary of columns: `label`, and if there are any `text`, `group`, `row` and `tokens`, the texts of its
            tokens. None for rows to predict, or where a table with the name of the file is there.

    Raises:
        DataError: If states, mask or offsets, and rows do not fit together.
    """
    path = Path(path)
    if path.suffix != SAFETENSORS:
        raise DataError(Fault("path", "type", f"{path} must end in {SAFETENSORS}."))
    table = None if rows is None else arrow_table(rows, [str(name) for name in column_names(rows) or []], "rows=")
    if isinstance(states, Sequence):
        if mask_or_offsets is not None:
            message = "a list of states has the tokens of each row alone: leave out mask_or_offsets."
            raise DataError(Fault("mask_or_offsets", "conflict", message))
        try:
            mask_or_offsets = np.cumsum([0, *map(len, states)])
            states = torch.cat([torch.as_tensor(states_LD) for states_LD in states])
        except (TypeError, ValueError, RuntimeError) as error:
            message = f"states must be a list of arrays (L, D) of one width D: {first_line(error)}."
            raise DataError(Fault("states", "type", message)) from error
    states = torch.as_tensor(states)
    if mask_or_offsets is None:
        mask_or_offsets = torch.ones(states.shape[:-1], dtype=torch.bool)
    places = torch.as_tensor(mask_or_offsets)
    name, places = (MASK, places.bool()) if places.dim() > 1 or places.dtype == torch.bool else (OFFSETS, places.long())
    states = states.float() if states.dtype == torch.float64 else states
    with replacing(path) as temporary:
        save_tensors({STATES: states.cpu().contiguous(), name: places.cpu().contiguous()}, temporary)
        count = len(StateFile(temporary, "path", str(path)))
        if table is not None:
            if table.num_rows != count:
                message = f"rows= has {table.num_rows:,} rows, and there are states of {count:,}."
                raise DataError(Fault("rows", "conflict", message))
            with replacing(path.with_suffix(".parquet")) as table_file:
                parquet.write_table(table, table_file)
