"""Cached states of a frozen encoder: float16, memory-mapped, stored by the hash of a text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.filesize import decimal
from torch import Tensor

from sentattn.data.cache import Progress, locked, usable
from sentattn.data.sampling import Rows
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


class Missing(NamedTuple):
    """Texts that have no states yet, each once.

    Attributes:
        rows: Their rows in each split, the longest first.
        texts: Their number.
        tokens: The number of their tokens.
        size: The bytes of their states.
    """

    rows: list[tuple[Split, Rows]]
    texts: int
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

    def gather(self, rows_B: Rows, length: int) -> Half:
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

    def find(self, row_ids: Sequence[str]) -> tuple[Rows, Rows]:
        """Returns the number of the file and the first token of each text's states; file -1 where it has none."""
        places: dict[bytes, tuple[int, int]] = {}
        for path in self.folder.glob("rows-*.bin"):
            part = int(path.stem.removeprefix("rows-"))
            records = self._records(part)
            starts = ((part, start) for start in records["start"].tolist())
            places.update(zip(records["row_id"].tolist(), starts, strict=True))
        found = [places.get(row_id.encode(), (-1, 0)) for row_id in row_ids]
        parts, starts_N = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return parts, starts_N

    def missing(self, splits: Sequence[Split], *, rank: int = 0, world_size: int = 1) -> Missing:
        """Returns the texts of splits that have no states yet; with several ranks those that a rank encodes.

        These depend on a text alone, not on what others have encoded meanwhile.
        """
        seen: set[str] = set()
        rows: list[tuple[Split, Rows]] = []
        for split in splits:
            parts, _ = self.find(split.row_id)
            new = {split.row_id[row]: row for row in np.flatnonzero(parts < 0).tolist()}
            own = [row for row_id, row in new.items() if int(row_id, 16) % world_size == rank and row_id not in seen]
            seen |= new.keys()
            if own:
                rows.append((split, np.array(sorted(own, key=lambda row: -split.lengths[row]))))
        tokens = sum(int(split.lengths[its_rows].sum()) for split, its_rows in rows)
        return Missing(rows, sum(len(its_rows) for _, its_rows in rows), tokens, 2 * self.width * tokens)

    def require_space(self, missing: Missing) -> None:
        """Refuses to write more states than the disk can hold.

        Raises:
            DataError: With both sizes.
        """
        if missing.size > (free := self.free()):
            message = (
                f"The states of {missing.texts:,} texts take {decimal(missing.size)}, and {self.folder.parent} has "
                f"{decimal(free)} left: type data.cache_dir=FOLDER on another disk, data.limit=ROWS, a smaller "
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
                    meta = {"width": self.width, "description": self.description}
                    (self.folder / META).write_text(json.dumps(meta), encoding="utf-8")
                    # Another process may have computed some meanwhile.
                    missing = self.missing(splits, rank=rank, world_size=world_size)
                    self._append(missing, encode, progress, rank, batch_tokens)
        with suppress(OSError):  # of a cache that may be read only
            (self.folder / USED).touch()

    def _append(self, missing: Missing, encode: Encode, progress: Progress, rank: int, batch_tokens: int) -> None:
        records = self._records(rank)
        done, end = 0, int(records["length"].sum())
        with self._file("rows", rank).open("ab") as rows_file, self._file("states", rank).open("ab") as states_file:
            rows_file.truncate(records.nbytes)
            states_file.truncate(2 * self.width * end)
            for split, rows in missing.rows:
                while len(rows):
                    size = max(1, batch_tokens // int(split.lengths[rows[0]]))
                    batch, rows = split[rows[:size]], rows[size:]
                    states_BLE = encode(batch.tokens_BL, batch.mask_BL).cpu().numpy()
                    assert states_BLE.dtype == np.float16
                    states_file.write(states_BLE[batch.mask_BL.numpy()].tobytes())
                    states_file.flush()
                    ids = [split.row_id[row] for row in batch.rows_B.tolist()]
                    starts_B = end + batch.lengths_B.cumsum() - batch.lengths_B
                    new = np.array(list(zip(ids, starts_B, batch.lengths_B, strict=True)), dtype=ROW)
                    rows_file.write(new.tobytes())
                    rows_file.flush()
                    done, end = done + len(ids), end + int(batch.lengths_B.sum())
                    progress("Encoding texts", done, missing.texts)

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
