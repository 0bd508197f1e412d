"""Where a study is stored, by default one SQLite file in its folder, and which process works on it."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sentattn.errors import Fault, RunError, SettingError
from sentattn.run import write_atomically
from sentattn.sweep.samplers import quiet

DATABASE, LOCK, OWNER = "study.db", ".owner.lock", "owner.json"
CURRENT = "current"
"""Numbers the studies of a sweep whose space was changed: the largest is the current one."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a study's folder for this process; the system releases it when the process dies.

    Raises:
        RunError: If another process holds it, with its ID.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        stop = f"`python -m sentattn.sweep stop {folder.name}` stops it"
        message = f"{folder} is in use by process {owner(folder) or 'unknown'}; {stop}."
        raise RunError(Fault("study", "busy", message)) from error
    try:
        write_atomically(folder / OWNER, json.dumps(_identity(os.getpid())) + "\n")
        yield
    finally:
        (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def owner(folder: Path) -> int | None:
    """Returns the ID of the process of this machine that works on a study, or None, without taking its lock."""
    try:
        content = json.loads((folder / OWNER).read_text(encoding="utf-8"))
        pid: int = content["pid"]
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if content == _identity(pid) else None


def _identity(pid: int) -> dict[str, Any]:
    """Returns what tells a process from others: on Linux also when it started, since numbers are used again."""
    started = None
    with suppress(OSError):
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return {"pid": pid, "host": socket.gethostname(), "started": started}


def open_storage(folder: Path, url: str | None = None, *, reader: bool = False) -> RDBStorage:
    """Opens the storage of a study: a URL of SQLAlchemy, or the file in its folder. A reader creates no tables.

    SQLite's journal is written ahead and not forced to the disk with each step: if a process of the sweep dies, nothing
    is lost; if the machine does, the last steps may be, never the file.

    Raises:
        SettingError: If the URL is malformed, or needs a package that is not installed.
    """
    quiet()
    make = partial(RDBStorage, skip_table_creation=reader, skip_compatibility_check=reader)
    if url is not None:
        try:
            return make(url, engine_kwargs={"pool_pre_ping": True})
        except (ArgumentError, ImportError) as error:
            message = f"storage={_place(folder, url)} cannot be opened: {_reason(error)}."
            raise SettingError(Fault("storage", "type", message)) from None  # SQLAlchemy's may hold the password

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(folder / DATABASE, timeout=30, check_same_thread=False)
        if not reader:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    return make(f"sqlite:///{folder / DATABASE}", engine_kwargs={"creator": connect})


def studies(storage: RDBStorage, sweep: str | None) -> dict[str, int]:
    """Returns the studies of a sweep, or of the whole storage, by name, with the number of each; 0 if incomplete."""
    return {
        study.study_name: int(study.user_attrs.get(CURRENT, 0))
        for study in storage.get_all_studies()
        if sweep is None or f"{study.study_name} (".startswith(f"{sweep} (")
    }


def current(storage: RDBStorage, sweep: str | None) -> str | None:
    """Returns the name of the current study of a sweep; None if there is none yet."""
    complete = {study: number for study, number in studies(storage, sweep).items() if number}
    return max(complete, key=complete.__getitem__, default=None)


def delete_others(storage: RDBStorage, sweep: str | None, kept: str) -> None:
    """Deletes all studies of a sweep but one: what a change of the space left, or had begun when it was killed."""
    for study in studies(storage, sweep):
        if study != kept:
            optuna.delete_study(study_name=study, storage=storage)


def load(folder: Path, url: str | None = None) -> optuna.Study:
    """Opens the current study of a folder to read it.

    Raises:
        RunError: If there is none.
    """
    name = None
    if url is not None or (folder / DATABASE).is_file():
        with suppress(SQLAlchemyError, StorageInternalError):  # its tables do not exist yet
            storage = open_storage(folder, url, reader=True)
            name = current(storage, folder.name if url else None)
    if name is None:
        hint = f"`python -m sentattn.sweep study={folder.name} ...` begins one; another storage needs storage=URL"
        raise RunError(Fault("study", "not_found", f"{_place(folder, url)} holds no study; {hint}."))
    return optuna.load_study(study_name=name, storage=storage)


@contextmanager
def writing(folder: Path, url: str | None) -> Iterator[None]:
    """Raises a storage that cannot be written as an error that the user can correct.

    Raises:
        RunError: With the database's reason.
    """
    try:
        yield
    except (SQLAlchemyError, StorageInternalError, OSError) as error:
        message = (
            f"{_place(folder, url)} cannot be written: {_reason(error)}. Nothing that was reported is lost; free space "
            "or restore the connection, and the same command resumes."
        )
        raise RunError(Fault("storage", "unwritable", message)) from None


def _place(folder: Path, url: str | None) -> str:
    """Returns where a study is stored, without a password."""
    try:
        return make_url(url).render_as_string(hide_password=True) if url else str(folder / DATABASE)
    except ArgumentError:
        return "URL"


def _reason(error: BaseException) -> str:
    """Returns the words of the database without those of SQLAlchemy, which hold the statement."""
    cause = error.__cause__ or error
    return " ".join(str(getattr(cause, "orig", None) or cause).split()).rstrip(".")
