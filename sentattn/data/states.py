"""Cached states of a frozen encoder: float16, memory-mapped, stored by the hash of a text."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from rich.filesize import decimal
from torch import Tensor

from sentattn.data.cache import Progress, locked, usable
from sentattn.errors import DataError, Fault

if TYPE_CHECKING:
    from sentattn.data.corpus import Split

META, USED = "meta.json", ".used"
BATCH_TOKENS = 2048
"""Tokens that are encoded at once, padding included; more are slower on a CPU."""
RESERVE = 1 << 30
"""Bytes of the disk that are left free."""
Half: TypeAlias = NDArray[np.float16]
Encode: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Returns states_BLE, float16, of tokens_BL and mask_BL."""

ROW = np.dtype([("row_id", "S16"), ("start", "<i8"), ("length", "<i4")])
"""A text whose states are complete: the hash of the text, its first token in the file of states, and its tokens."""


@dataclass(frozen=True)
class Missing:
    """Texts of splits that have no states yet, each once.

    Attributes:
        texts: The split and the row of each, the longest first.
        tokens: Number of their tokens.
        size: Bytes of their states.
    """

    texts: list[tuple[Split, int]]
    tokens: int
    size: int


class States:
    """States of the rows of a split.

    Args:
        cache: Where they are.
        split: The split, all of whose rows have states.
    """

    def __init__(self, cache: StateCache, split: Split) -> None:
        self._cache = cache
        self._lengths = split.lengths
        self._parts, self._starts = cache.find(split.row_id)
        self._files: dict[int, Half] = {}

    def gather(self, rows_B: NDArray[np.int64], length: int) -> Half:
        """Returns the states of rows, (B, length, E), 0 on padding."""
        states_BLE = np.zeros((len(rows_B), length, self._cache.width), dtype=np.float16)
        for place, row in enumerate(rows_B.tolist()):
            part, start, tokens = int(self._parts[row]), int(self._starts[row]), int(self._lengths[row])
            if part not in self._files:
                self._files[part] = self._cache.open_states(part)
            states_BLE[place, :tokens] = self._files[part][start : start + tokens]
        return states_BLE

    def __getstate__(self) -> dict[str, object]:
        """Pickles paths, not the files."""
        return {**self.__dict__, "_files": {}}


class StateCache:
    """A folder of states, all of one encoder, layer, type, clip and length.

    Each rank of a training appends to files of its own, under a lock: `states-RANK.bin` has the states of one text
    after another, and `rows-RANK.bin` a record of each text whose states are complete. What a killed process has
    written without a record is overwritten.

    Args:
        folder: The folder.
        width: Width E of a state.
        description: What the states are of, for people.
    """

    def __init__(self, folder: Path, *, width: int, description: str) -> None:
        self.folder, self.width, self.description = folder, width, description

    def find(self, row_ids: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the number of the file and the first token of each text's states; file -1 where it has none."""
        wanted = np.array(row_ids, dtype="S16")
        parts, starts = np.full(len(wanted), -1), np.zeros(len(wanted), dtype=np.int64)
        for part in self._part_numbers():
            records = self._records(part)
            if len(records):
                order = np.argsort(records["row_id"], kind="stable")
                places = order[np.searchsorted(records["row_id"], wanted, sorter=order).clip(max=len(order) - 1)]
                is_found = records["row_id"][places] == wanted
                parts[is_found], starts[is_found] = part, records["start"][places[is_found]]
        return parts, starts

    def missing(self, splits: Sequence[Split]) -> Missing:
        """Returns the texts of splits that have no states yet."""
        texts: dict[str, tuple[Split, int]] = {}
        for split in splits:
            parts, _ = self.find(split.row_id)
            texts |= {split.row_id[row]: (split, row) for row in np.flatnonzero(parts < 0).tolist()}
        in_order = sorted(texts.values(), key=lambda text: -text[0].lengths[text[1]])
        tokens = sum(int(split.lengths[row]) for split, row in in_order)
        return Missing(in_order, tokens, 2 * self.width * tokens)

    def require_space(self, missing: Missing) -> None:
        """Refuses to write more states than the disk can hold.

        Raises:
            DataError: With both sizes.
        """
        if missing.size > (free := self.free()):
            message = (
                f"The states of {len(missing.texts):,} texts take {decimal(missing.size)}, and {self.folder.parent} "
                f"has {decimal(free)} left: type data.cache_dir=FOLDER on another disk, data.limit=ROWS, a smaller "
                "data.max_length, or model.embedding.cache=false."
            )
            raise DataError(Fault("data.cache_dir", "resources", message))

    def free(self) -> int:
        """Returns the bytes that may be written."""
        folder = next(parent for parent in (self.folder, *self.folder.parents) if parent.is_dir())
        return max(0, shutil.disk_usage(folder).free - RESERVE)

    def compute(
        self,
        splits: Sequence[Split],
        encode: Encode,
        progress: Progress,
        *,
        rank: int = 0,
        world_size: int = 1,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        """Computes the states of texts that have none yet: all of them, or those of this rank.

        Raises:
            DataError: If the disk cannot hold them, or the folder cannot be written.
        """
        missing = self.missing(splits)
        if missing.texts:
            self.require_space(missing)
            with usable(self.folder.parent):
                self.folder.mkdir(exist_ok=True)
                with locked(self._file("states", rank), progress):
                    missing = self.missing(splits)  # another process may have computed them meanwhile
                    meta = {"width": self.width, "description": self.description}
                    (self.folder / META).write_text(json.dumps(meta), encoding="utf-8")
                    share = [text for text in missing.texts if _owner(text, world_size) == rank]
                    self._append(share, encode, progress, rank, batch_tokens)
        with suppress(OSError):  # of a cache that may be read only
            (self.folder / USED).touch()

    def _append(
        self, texts: Sequence[tuple[Split, int]], encode: Encode, progress: Progress, rank: int, batch_tokens: int
    ) -> None:
        records = self._records(rank)
        end = int(records["start"][-1] + records["length"][-1]) if len(records) else 0
        rows_path, states_path = self._file("rows", rank), self._file("states", rank)
        for path, size in ((rows_path, records.nbytes), (states_path, 2 * self.width * end)):
            with path.open("ab"):
                os.truncate(path, size)
        with rows_path.open("ab") as rows_file, states_path.open("ab") as states_file:
            done = 0
            while done < len(texts):
                longest = int(texts[done][0].lengths[texts[done][1]])
                batch = texts[done : done + max(1, batch_tokens // longest)]
                tokens_BL = np.zeros((len(batch), longest), dtype=np.int64)
                lengths = [int(split.lengths[row]) for split, row in batch]
                for place, (split, row) in enumerate(batch):
                    tokens_BL[place, : lengths[place]] = split.tokens(np.array([row]))[0][0]
                mask_BL = np.arange(longest) < np.array(lengths)[:, None]
                states_BLE = encode(torch.from_numpy(tokens_BL), torch.from_numpy(mask_BL)).cpu().numpy()
                assert states_BLE.dtype == np.float16
                states_file.write(states_BLE[mask_BL].tobytes())
                states_file.flush()
                starts = end + np.cumsum([0, *lengths[:-1]])
                ids = [split.row_id[row] for split, row in batch]
                rows_file.write(np.array(list(zip(ids, starts, lengths, strict=True)), dtype=ROW).tobytes())
                rows_file.flush()
                end, done = end + sum(lengths), done + len(batch)
                progress("Encoding texts", done, len(texts))

    def _part_numbers(self) -> list[int]:
        names = (path.stem.removeprefix("rows-") for path in self.folder.glob("rows-*.bin"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _records(self, part: int) -> NDArray[np.void]:
        """Returns the records of a file up to the first one that is damaged, or whose states are not on the disk."""
        try:
            content = self._file("rows", part).read_bytes()
            tokens = self._file("states", part).stat().st_size // (2 * self.width)
        except FileNotFoundError:
            return np.empty(0, dtype=ROW)
        records = np.frombuffer(content[: len(content) // ROW.itemsize * ROW.itemsize], dtype=ROW)
        ends = records["length"].cumsum(dtype=np.int64)
        is_whole = (records["start"] == ends - records["length"]) & (records["length"] > 0) & (ends <= tokens)
        return records[: len(records) if is_whole.all() else int(is_whole.argmin())]

    def open_states(self, part: int) -> Half:
        """Returns the states in a file, (tokens, E), memory-mapped."""
        states: Half = np.memmap(self._file("states", part), dtype=np.float16, mode="r").reshape(-1, self.width)
        return states

    def _file(self, name: str, part: int) -> Path:
        return self.folder / f"{name}-{part}.bin"


def _owner(text: tuple[Split, int], world_size: int) -> int:
    """Returns the rank that encodes a text, whatever other ranks have encoded meanwhile."""
    split, row = text
    return int(split.row_id[row], 16) % world_size
