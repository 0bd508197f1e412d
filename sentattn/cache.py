"""List what is cached, such as states of pretrained encoders, with its size and last use; and delete it.

usage: python -m sentattn.cache [cache_dir=FOLDER] [delete=NAME] [older=30d]

  cache_dir  the cache folder; default $SENTATTN_CACHE, or ~/.cache/sentattn
  delete     name of an entry that is deleted, such as states-0123456789abcdef; all deletes every entry
  older      with delete=all: only those that were not used for so long, in days (30d) or hours (12h)

What is deleted is computed or downloaded again when it is needed. An entry that a process writes is kept.

Examples:
  python -m sentattn.cache
  python -m sentattn.cache delete=states-0123456789abcdef
  python -m sentattn.cache delete=all older=30d
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout
from rich.filesize import decimal

from sentattn.config import command_line
from sentattn.console import table_lines
from sentattn.data.cache import cache_folder
from sentattn.errors import Fault, RunError, SettingError, suggestion

KEYS = {"cache_dir": "str", "delete": "str", "older": "str"}
ALL = "all"
SECONDS = {"h": 3600, "d": 24 * 3600}
META = "meta.json"


class Entry(NamedTuple):
    """An entry of the cache folder: its path, bytes, the time of its last use, and what it is."""

    path: Path
    size: int
    used: float
    description: str


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    values = command_line.raw_arguments(arguments, KEYS)
    folder, name, older = cache_folder(values.get("cache_dir")), values.get("delete"), values.get("older", "0h")
    if "older" in values and name != ALL:
        raise SettingError(Fault("older", "no_effect", f"older={older} has no effect without delete=all."))
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([dh])", older)
    if match is None:
        message = f"older must be a number of days or hours, such as 30d or 12h, got {older!r}."
        raise SettingError(Fault("older", "type", message))
    before = time.time() - float(match[1]) * SECONDS[match[2]]
    entries = find_entries(folder)
    if name is None:
        rows = [
            (entry.path.name, decimal(entry.size), date.fromtimestamp(entry.used).isoformat(), entry.description)
            for entry in entries
        ]
        print(f"{folder}: {decimal(sum(entry.size for entry in entries))}")
        print(*table_lines([("name", "size", "last use", "what"), *rows], align="<>><", wrap=3), sep="\n")
        return
    chosen = [entry for entry in entries if name in (ALL, entry.path.name) and entry.used <= before]
    if name != ALL and not chosen:
        hint = suggestion(name, [entry.path.name for entry in entries])
        raise RunError(Fault("delete", "not_found", f"delete={name}: there is no such entry in {folder}.{hint}"))
    deleted = [entry for entry in chosen if delete(entry)]
    for entry in chosen:
        print(f"{entry.path.name}: {'deleted' if entry in deleted else 'kept, since a process writes it'}")
    print(f"{decimal(sum(entry.size for entry in deleted))} deleted.")


def find_entries(folder: Path) -> list[Entry]:
    """Returns the entries of a cache folder, the largest first."""
    entries = []
    for path in (path for path in folder.glob("*") if path.suffix != ".lock"):
        stats = {file: file.stat() for file in (path, *path.rglob("*")) if file.is_file()}
        # Listing reads the description, which is no use.
        times = (max(stat.st_mtime, stat.st_atime) for file, stat in stats.items() if file.name != META)
        size = sum(stat.st_size for stat in stats.values())
        entries.append(Entry(path, size, max(times, default=0.0), _description(path)))
    return sorted(entries, key=lambda entry: -entry.size)


def delete(entry: Entry) -> bool:
    """Deletes an entry; returns False where a process writes it."""
    locks = [entry.path.with_name(f"{entry.path.name}.lock"), *entry.path.glob("*.lock")]
    try:
        with ExitStack() as held:
            for lock in locks:
                held.enter_context(FileLock(lock).acquire(timeout=0))
            if entry.path.is_dir():
                shutil.rmtree(entry.path)
            else:
                entry.path.unlink(missing_ok=True)
    except Timeout:
        return False
    except OSError as error:
        message = f"{entry.path} cannot be deleted: {error.strerror or error}."
        raise RunError(Fault("delete", "unwritable", message)) from error
    locks[0].unlink(missing_ok=True)
    return True


def _description(path: Path) -> str:
    """Returns what an entry is: of states, as they say themselves."""
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
        return str(meta["description"]) if "description" in meta else "tokenized corpus"
    except (OSError, ValueError, TypeError):
        return "word vectors or a download"


if __name__ == "__main__":
    sys.exit(main())
