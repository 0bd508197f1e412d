"""List what is cached, such as states of pretrained encoders, with its size and last use; and delete it.

usage: python -m sentattn.cache [cache_dir=FOLDER] [delete=NAME]

  cache_dir  the cache folder; default $SENTATTN_CACHE, or ~/.cache/sentattn
  delete     name of an entry that is deleted, such as states-0123456789abcdef; all deletes every entry

What is deleted is computed or downloaded again when it is needed. An entry that a process writes is kept.

Examples:
  python -m sentattn.cache
  python -m sentattn.cache delete=states-0123456789abcdef
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from contextlib import ExitStack, suppress
from datetime import date
from pathlib import Path

from filelock import FileLock, Timeout
from rich.filesize import decimal

from sentattn.config import command_line
from sentattn.console import table_lines
from sentattn.data.cache import cache_folder
from sentattn.errors import MALFORMED, Fault, RunError, suggestion

ALL, META = "all", "meta.json"
ENTRY = re.compile(r"downloads|.+-[0-9a-f]{16}(\..+)?")
"""Names of entries; other files of the folder are the user's."""


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    options = command_line.raw_arguments(arguments, {"cache_dir": "str", "delete": "str"})
    folder, name = cache_folder(options.get("cache_dir")), options.get("delete")
    entries = {path.name: path for path in folder.glob("*") if path.suffix != ".lock" and ENTRY.fullmatch(path.name)}
    if name is None:
        rows = sorted(((path.name, *describe(path)) for path in entries.values()), key=lambda row: -row[1])
        lines = [(entry, decimal(size), used, what) for entry, size, used, what in rows]
        print(f"{folder}: {decimal(sum(row[1] for row in rows))}")
        print(*table_lines([("name", "size", "last use", "what"), *lines], align="<>><", wrap=3), sep="\n")
        return
    if name not in (ALL, *entries):
        message = f"delete={name}: there is no such entry in {folder}.{suggestion(name, entries)}"
        raise RunError(Fault("delete", "not_found", message))
    for entry in entries if name == ALL else [name]:
        print(f"{entry}: {'deleted' if delete(entries[entry]) else 'kept, since a process writes it'}")


def describe(entry: Path) -> tuple[int, str, str]:
    """Returns the size of an entry, the day of its last use, and what it is."""
    stats = {file: file.stat() for file in (entry, *entry.rglob("*")) if file.is_file()}
    # Listing reads the description, which is no use.
    used = max((max(stat.st_mtime, stat.st_atime) for file, stat in stats.items() if file.name != META), default=0.0)
    what = "word vectors or a download"
    with suppress(*MALFORMED):
        what = json.loads((entry / META).read_text(encoding="utf-8")).get("description", "tokenized corpus")
    return sum(stat.st_size for stat in stats.values()), date.fromtimestamp(used).isoformat(), str(what)


def delete(entry: Path) -> bool:
    """Deletes an entry, or what a process has left of one; returns False where a process writes it."""
    name = entry.name[1:].rpartition(".")[0] if entry.name.startswith(".") else entry.name
    lock = entry.with_name(f"{name}.lock")
    try:
        with ExitStack() as held:
            for one in (lock, *entry.glob("*.lock")):
                held.enter_context(FileLock(one).acquire(timeout=0))
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
    except Timeout:
        return False
    except OSError as error:
        message = f"{entry} cannot be deleted: {error.strerror or error}."
        raise RunError(Fault("delete", "unwritable", message)) from error
    lock.unlink(missing_ok=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
