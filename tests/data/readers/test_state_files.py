"""Files of states: each form is read as it was written, and what is wrong is said before a training."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray
from refusals import assert_refused, fault_of
from safetensors.torch import load_file, save_file

import sentattn
from sentattn.data.readers import states as state_files
from sentattn.data.readers.states import StateFile, open_states, rows_table
from sentattn.data.states import StateTable

ROWS = [np.arange(6).reshape(2, 3), np.arange(3).reshape(1, 3) - 7, np.arange(9).reshape(3, 3) / 2]
STATES = np.zeros((3, 3, 3), np.float32)
MASK = np.zeros((3, 3), bool)
for row, own in enumerate(ROWS):
    STATES[row, : len(own)], MASK[row, : len(own)] = own, True
FLAT, OFFSETS = np.concatenate(ROWS).astype(np.float16), np.array([0, 2, 3, 6])


def read(file: StateFile) -> list[NDArray[np.float32]]:
    """Returns the states of each row."""
    table = StateTable([file])
    return [table.look_up(2 + file.places(row)[None])[0].float().numpy() for row in range(len(file))]


def written(folder: Path, **arrays: NDArray[np.generic]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def npz(path: Path, **arrays: NDArray[np.generic]) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def tensors(path: Path, **arrays: NDArray[np.generic]) -> Path:
    save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    return path


def bfloat16(path: Path) -> Path:
    sentattn.save_states(path, torch.from_numpy(FLAT).bfloat16(), OFFSETS)
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: written(folder / "a", states=FLAT, offsets=OFFSETS),
        lambda folder: written(folder / "b", states=STATES, mask=MASK),
        lambda folder: npz(folder / "c.npz", states=STATES, mask=MASK, pixels=np.zeros(3)),
        lambda folder: npz(folder / "d.npz", states=FLAT.astype(np.float32), offsets=OFFSETS),
        lambda folder: tensors(folder / "e.safetensors", states=FLAT, offsets=OFFSETS, other=MASK),
        lambda folder: bfloat16(folder / "f.safetensors"),
    ],
)
def test_each_form_holds_the_same_states(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    file = open_states(write(tmp_path), "data.train", str(tmp_path / "cache"))
    for own, expected in zip(read(file), ROWS, strict=True):
        np.testing.assert_array_equal(own, expected)
    again = pickle.loads(pickle.dumps(file))
    assert again.digest() == file.digest()
    assert len(pickle.dumps(file)) < 1000


@pytest.mark.parametrize(
    "states",
    [
        (STATES, MASK),
        (STATES, MASK.astype(np.int64)),
        (FLAT, OFFSETS),
        (ROWS, None),
        (torch.from_numpy(STATES), MASK),
    ],
)
def test_what_is_saved_is_read(tmp_path: Path, states: tuple[object, object]) -> None:
    rows = {"label": ["a", "b", "a"], "tokens": [["x", "y"], ["z"], ["u", "v", "w"]]}
    sentattn.save_states(tmp_path / "s.safetensors", *states, rows=rows)
    for own, expected in zip(read(open_states(tmp_path / "s.safetensors", "data.train")), ROWS, strict=True):
        np.testing.assert_array_equal(own, expected)
    assert rows_table(tmp_path / "s.safetensors") == tmp_path / "s.parquet"
    assert pq.read_table(tmp_path / "s.parquet").to_pydict() == rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.parquet", "s.safetensors"]


def test_tokens_of_several_files_in_any_order_have_their_states(tmp_path: Path) -> None:
    several = [written(tmp_path / name, states=sign * FLAT, offsets=OFFSETS) for name, sign in (("a", 1), ("b", -1))]
    table = StateTable([StateFile(path, "data.train") for path in several])
    ids_BL = np.array([[5, 6, 7], [8, 9, 10], [13, 12, 1], [2, 0, 0]])  # the second row is at both ends of the files
    all_states = np.concatenate([np.zeros((2, 3)), FLAT, -FLAT])
    np.testing.assert_array_equal(table.look_up(ids_BL).numpy(), all_states[ids_BL])


def test_rows_may_be_a_data_frame_and_float64_becomes_float32(tmp_path: Path) -> None:
    frame = pd.DataFrame({"label": [1, 2, 1]})
    sentattn.save_states(tmp_path / "s.safetensors", STATES.astype(np.float64), MASK, frame)
    assert load_file(tmp_path / "s.safetensors")["states"].dtype == torch.float32
    assert pq.read_table(tmp_path / "s.parquet")["label"].to_pylist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ((STATES, MASK[:, :2]), "path"),
        ((FLAT, OFFSETS + 1), "path"),
        ((STATES.astype(np.int64), MASK), "path"),
        ((STATES, MASK, {"label": ["a"]}), "rows"),
        ((STATES, MASK, [1, 2, 3]), "data"),
        ((list(STATES), MASK), "mask_or_offsets"),
        (([],), "states"),
        (([STATES[0], STATES[1, :, :2]],), "states"),
    ],
)
def test_what_does_not_fit_together_is_not_saved(tmp_path: Path, arguments: tuple[object, ...], key: str) -> None:
    path = tmp_path / "s.safetensors"
    fault = fault_of(lambda: sentattn.save_states(path, *arguments))
    assert fault.key == key
    assert key != "path" or f"path={path} " in fault.message
    assert not list(tmp_path.iterdir())


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-8])
    return path


def in_the_directory(path: Path, at: int, value: int) -> Path:
    """Changes a byte of the first entry of an archive."""
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + at] = value
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("write", "part"),
    [
        (lambda folder: written(folder / "a", states=FLAT), "states (6, 3) float16"),
        (lambda folder: written(folder / "a", states=FLAT, offsets=np.array([0, 2, 1, 6])), "decrease after row 1"),
        (lambda folder: written(folder / "a", states=FLAT, offsets=np.array([0, 2, 5])), "the number of states"),
        (lambda folder: written(folder / "a", states=FLAT, offsets=np.array([0, 2, 2, 6])), "row 1 has no token"),
        (lambda folder: written(folder / "a", states=FLAT, offsets=OFFSETS.astype(np.float32)), "offsets (4,) float32"),
        (lambda folder: written(folder / "a", states=STATES, mask=MASK[:2]), "mask (2, 3) bool"),
        (lambda folder: written(folder / "a", states=FLAT, mask=np.ones(6, bool)), "mask (6,) bool"),
        (lambda folder: written(folder / "a", states=STATES, mask=MASK & False), "row 0 has no token"),
        (lambda folder: written(folder / "a", states=STATES.astype(np.int32), mask=MASK), "int32"),
        (lambda folder: written(folder / "a", states=np.array([{}, {}]), offsets=OFFSETS), "object"),
        (lambda folder: npz(folder / "a.npz", states=np.array([{}, {}]), offsets=OFFSETS), "object"),
        (lambda folder: npz(folder / "a.npz", other=FLAT), "none of these"),
        (lambda folder: npz(folder / "a.npz", states=FLAT.astype(np.float64), offsets=OFFSETS), "a.npz must hold"),
        (lambda folder: npz(folder / "a.npz", states=np.array(["a"]), offsets=OFFSETS), "a.npz must hold"),
        (lambda folder: in_the_directory(npz(folder / "a.npz", states=FLAT, offsets=OFFSETS), 6, 125), "version 12.5"),
        (lambda folder: in_the_directory(npz(folder / "a.npz", states=FLAT, offsets=OFFSETS), 8, 1), "encrypted"),
        (lambda folder: cut(npz(folder / "a.npz", states=FLAT, offsets=OFFSETS)), "zip"),
        (lambda folder: cut(tensors(folder / "a.safetensors", states=FLAT, offsets=OFFSETS)), ""),
        (lambda folder: cut(written(folder / "a", states=FLAT, offsets=OFFSETS) / "states.npy").parent, ""),
    ],
)
def test_a_wrong_file_is_one_message(tmp_path: Path, write: Callable[[Path], Path], part: str) -> None:
    path = write(tmp_path)
    assert_refused(lambda: open_states(path, "data.train", str(tmp_path)), "data.train", "damaged", part)


def test_states_that_are_not_finite_are_refused_but_not_those_of_padding(tmp_path: Path) -> None:
    states = STATES.copy()
    states[0, 2] = np.nan  # padding
    states[2, 1, 0] = np.inf
    file = StateFile(written(tmp_path / "a", states=states, mask=MASK), "data.train")
    assert file.places(0).tolist() == [0, 1]
    assert_refused(lambda: file.places(2), "data.train", "range", "row 2")


def test_a_large_npz_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "MOST_UNPACKED", 100)
    path = npz(tmp_path / "a.npz", states=STATES, mask=MASK)
    assert_refused(lambda: open_states(path, "data.val", str(tmp_path)), "data.val", "range", "save_states")


def test_a_damaged_entry_of_the_cache_is_unpacked_again(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", states=STATES, mask=MASK)
    open_states(path, "data.train", str(tmp_path / "cache"))
    [entry] = (tmp_path / "cache").glob("npz-*/states.npy")
    cut(entry)
    assert len(read(open_states(path, "data.train", str(tmp_path / "cache")))) == len(ROWS)


def test_members_of_an_npz_stay_in_the_cache(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", states=STATES, mask=MASK)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../outside.npy", b"x")
    open_states(path, "data.train", str(tmp_path / "cache"))
    assert not list(tmp_path.rglob("outside*"))


def test_other_states_have_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "BLOCK_BYTES", 8)
    digests = set()
    for states in (FLAT, np.zeros((5000, 1), np.float16)):  # hashed whole, and by blocks
        for change in (0, 1):
            changed = states.copy()
            changed[len(states) // 2 :] += change
            offsets = np.array([0, len(states)])
            digests.add(StateFile(written(tmp_path / "a", states=changed, offsets=offsets), "data.train").digest())
    assert len(digests) == 4


@pytest.mark.parametrize("name", ["states.bin", "missing.safetensors"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "states.bin").touch()
    kind = "type" if name == "states.bin" else "not_found"
    assert_refused(lambda: open_states(tmp_path / name, "data.test"), "data.test", kind)
