"""`sentattn sweep status|stop|best NAME`, from any terminal: they read a study, and write nothing."""

from __future__ import annotations

import os
import shlex
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config import command_line
from sentattn.errors import RunError, suggestion

if TYPE_CHECKING:
    from sentattn.sweep.records import Record

SHOWN = 10
"""Trials that `status` shows: the last ones."""
KEYS = {"output_dir": "str"}
BEST = "best.yaml"


def status(arguments: Sequence[str]) -> None:
    """Shows how far studies are, and the last trials of one."""
    for folder in _folders(arguments, running=False):
        print("\n".join(status_lines(folder)))


def stop(arguments: Sequence[str]) -> None:
    """Ends a sweep as Ctrl-C does in its own terminal: once, and its running trials finish."""
    from sentattn.sweep.storage import owner

    for folder in _folders(arguments, running=True):
        if (pid := owner(folder)) is None:
            raise RunError(f"Nobody works on {folder}; there is nothing to stop.")
        os.kill(pid, signal.SIGINT)
        print(f"{folder.name}: process {pid} begins no new trials. Once more ends the running ones too.")


def best(arguments: Sequence[str]) -> None:
    """Shows the best setting of a study, and how to train it."""
    for folder in _folders(arguments, running=False):
        print("\n".join(best_lines(folder)))


def status_lines(folder: Path) -> list[str]:
    """Returns how far a study is: who works on it, its trials by state, the last of them, and the best."""
    from sentattn.sweep.records import read
    from sentattn.sweep.storage import owner

    found = read(folder)
    pid = owner(folder)
    counts = Counter(one.state for one in found)
    told = ", ".join(f"{count} {state}" for state, count in counts.items()) or "no trial yet"
    lines = [f"{folder.name}: {told}; {f'process {pid} works on it' if pid else 'nobody works on it'}"]
    lines += [f"  {_line(one)}" for one in found[-SHOWN:]]
    return [*lines, *best_lines(folder)]


def best_lines(folder: Path) -> list[str]:
    """Returns the best setting of a study, or the front of several objectives, and the command that trains it."""
    from sentattn.sweep.records import best as best_of
    from sentattn.sweep.records import read
    from sentattn.sweep.storage import load

    objectives: list[list[str]] = load(folder).user_attrs["objectives"]
    front = best_of(read(folder), [mode for _, mode in objectives])
    if not front:
        return [f"{folder.name}: no trial is complete yet."]
    lines = [f"{folder.name}, best of {'; '.join(f'{metric} ({mode})' for metric, mode in objectives)}:"]
    lines += [f"  {_line(one)}" for one in front]
    return [*lines, f"train it: {train_command(folder, front[0].number)}"]


def train_command(folder: Path, number: int) -> str:
    """Returns the command that trains the best setting anew, the test set included."""
    if (folder / BEST).is_file():
        return f"python -m sentattn.train from={shlex.quote(str(folder / BEST))}"
    run = folder / "trials" / str(number)
    run = next(iter(sorted(run.glob("seed-*"))), run)
    return f"python -m sentattn.train from={shlex.quote(str(run))} test=true"


def _line(one: Record) -> str:
    from sentattn.sweep.table import figure, varied

    reached = f" {', '.join(map(figure, one.objectives))}" if one.objectives else ""
    note = f" ({one.error.splitlines()[0]})" if one.error else ""
    return f"trial {one.number}: {one.state}{reached}{note}: {varied(_given(one.values))}"


def _given(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return values or {"nothing": "drawn yet"}


def _folders(arguments: Sequence[str], *, running: bool) -> list[Path]:
    """Returns the folders of the studies that are named, or of the only one there is."""
    from sentattn.sweep.storage import DATABASE, owner

    given = command_line.raw_arguments(arguments, KEYS, positional="names")
    there = Path(given.get("output_dir", "outputs")) / "sweeps"
    names = sorted(file.parent.name for file in there.glob(f"*/{DATABASE}"))
    if unknown := [name for name in given["names"] if name not in names]:
        listed = f"There are {', '.join(names)}." if names else f"There is none in {there}."
        raise RunError(*(f"There is no study {name!r}.{suggestion(name, names)} {listed}" for name in unknown))
    if given["names"]:
        return [there / name for name in dict.fromkeys(given["names"])]
    found = [name for name in names if owner(there / name)] if running else names
    if not found:
        raise RunError(f"There is no study{' that anyone works on' if running else ''} in {there}.")
    if len(found) > 1:
        raise RunError(f"Which study? There are {', '.join(found)}.")
    return [there / found[0]]
