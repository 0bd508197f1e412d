"""Runs a command until its n-th change of its folder, drops what was not synced, and runs the same command again.

usage: LD_PRELOAD=power.so python power_cuts.py COMMAND GIVEN FOLDER MOST

Prints a JSON object: how many changes the command makes, and at which of them it was cut. At most MOST cuts, evenly
spread. Any difference from the result without a cut is an error.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from attempts import COMMANDS, HANGS, Command, ended, finish, new_folder, start

CHANGES = ("w", "r", "u")


def changes(record: Path) -> list[list[str]]:
    """Returns the lines of a record: what was done, and to which file."""
    return [[line[0], *line[2:].split("\t")] for line in record.read_text().splitlines()]


def drop(record: Path) -> None:
    """Takes from each file what was written after it was last synced; files keep their names."""
    synced: dict[str, int] = {}
    dirty: set[str] = set()
    for kind, name, *more in changes(record):
        if kind in ("o", "w"):
            synced.setdefault(name, int(more[0]) if more else 0)
            dirty.add(name)
        elif kind == "s":
            synced[name] = int(more[0])
            dirty.discard(name)
        else:
            moved = [file for file in synced if file == name or file.startswith(f"{name}/")]  # a file, or a folder's
            for old in moved:
                size, was_dirty, new = synced.pop(old), old in dirty, more[0] + old[len(name) :] if more else ""
                dirty -= {old, new}
                if new:
                    synced[new] = size
                    dirty |= {new} if was_dirty else set()
    for name in dirty & {name for name in synced if Path(name).is_file()}:
        if Path(name).stat().st_size > synced[name]:
            os.truncate(name, synced[name])


def cut(command: Command, given_in: Path, out: Path, at: int) -> Path:
    """Runs a command until a change, or to its end with -1; returns the record."""
    record = out.with_suffix(".record")
    power_cut = partial(ctypes.CDLL(None).power_cut, ctypes.c_long(at), str(out).encode(), str(record).encode())
    code = ended(start(command, given_in, out, power_cut), HANGS)
    assert code == (0 if at < 0 else -signal.SIGKILL), (out / "log").read_text()
    return record


def main(name: str, given_folder: str, folder: str, most: str) -> None:
    """Prints the changes of a command and the cuts."""
    command, given_in, parent = COMMANDS[name], Path(given_folder), Path(folder)

    whole = new_folder(command, given_in, parent)
    record = cut(command, given_in, whole, -1)
    count = sum(line[0] in CHANGES for line in changes(record))
    expected, tried = command.outcome(whole), min(count, int(most))
    drop(record)
    assert command.outcome(whole) == expected, f"{name}, cut after its end: {whole}"
    for at in (place * count // tried for place in range(tried)):
        out = new_folder(command, given_in, parent)
        drop(cut(command, given_in, out, at))
        assert finish(command, given_in, out) == expected, f"{name}, cut at change {at} of {count}: {out}"
        shutil.rmtree(out)
    print(json.dumps({"changes": count, "cuts": tried}))


if __name__ == "__main__":
    main(*sys.argv[1:])
