"""Where a study is stored: one SQLite file in its folder, or a database that several schedulers share."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NoReturn, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError, SQLAlchemyError

from sentattn.errors import Fault, RunError, SettingError, without_passwords
from sentattn.run import FORMAT_KEY, require_format, write_atomically
from sentattn.sweep.spec.components import quiet

DATABASE, RECORD = "study.db", "storage.json"
"""In the folder of a study: its database, unless `storage=` names another, and which storage it has."""
ID = "id"
"""A study's attribute: a random ID. It is written last, and a study without it is incomplete."""
T = TypeVar("T")
POSTGRESQL = "postgresql"
OUTAGE = 300.0
"""Seconds after which a database that does not answer ends a sweep."""
PAUSE = 2.0
SILENT = 3
"""Heartbeats after which a scheduler or a trial that has sent none is dead."""


def open_storage(folder: Path, url: str | None = None, *, heartbeat: int | None = None) -> RDBStorage:
    """Opens the storage of a study: a URL of SQLAlchemy, or the file in its folder.

    SQLite's journal is written ahead and not forced to the disk with each step: if a process of the sweep dies, nothing
    is lost; if the machine does, the last steps may be, never the file. `heartbeat` is the seconds between those of a
    trial in a database, which is dead after `SILENT` times as long. A reader has none, and creates no tables.

    Raises:
        SettingError: If the URL is malformed, needs a package that is not installed, or another version of Optuna, or
            if the folder holds trials of a study in a database.
    """
    quiet()
    reader = heartbeat is None
    if url is not None:
        try:
            address = _address(url).replace("{", "%7B")  # Optuna fills in {}
            with exclusive(url, "tables"):  # readers write Optuna's version too
                return RDBStorage(
                    address,
                    {"pool_pre_ping": True},
                    skip_table_creation=reader,
                    heartbeat_interval=heartbeat,
                    grace_period=SILENT * heartbeat if heartbeat else None,
                )
        except (ArgumentError, ImportError, RuntimeError) as error:
            hint = ' Type pip install "sentattn[postgres]".' if isinstance(error, ImportError) else ""
            message = f"storage={_place(folder, url)} cannot be opened: {_reason(error)}.{hint}"
            raise SettingError(Fault("storage", "type", message)) from None  # SQLAlchemy's may hold the password

    if (record := read_record(folder)) and record["storage"]:
        refuse(folder, record)  # before a file is created

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(folder / DATABASE, timeout=30, check_same_thread=False)
        if not reader:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    address, options = f"sqlite:///{folder / DATABASE}", {"creator": connect}
    return RDBStorage(address, options, skip_table_creation=reader, skip_compatibility_check=reader)


def is_shared(url: str | None) -> bool:
    """Whether several schedulers may work on one study there: only PostgreSQL has the lock for it."""
    return url is not None and make_url(url).get_backend_name() == POSTGRESQL


@functools.cache
def _engine(url: str) -> Engine:
    """Returns connections besides Optuna's."""
    return create_engine(_address(url), pool_pre_ping=True)


def now(url: str | None) -> float:
    """Returns the time of the database, which all schedulers share; of a file that of this machine."""
    if url is None:
        return time.time()
    with _engine(url).connect() as connection:
        time_there: datetime = connection.execute(select(func.now())).scalar_one()
    return time_there.timestamp()


@contextmanager
def exclusive(url: str | None, name: str) -> Iterator[None]:
    """Holds a name in PostgreSQL for one transaction; the database releases it when the process dies.

    Elsewhere one process holds the study as a whole.
    """
    if url is None or not is_shared(url):
        yield
        return
    key = int.from_bytes(hashlib.sha256(f"sentattn {name}".encode()).digest()[:8], signed=True)
    with _engine(url).begin() as connection:
        connection.execute(select(func.pg_advisory_xact_lock(key)))
        yield


def sweeps(url: str) -> list[str]:
    """Returns the names of the studies in a database.

    Raises:
        RunError: If it cannot be read.
    """
    studies = _read(Path(), url, lambda storage: storage.get_all_studies()) or []
    return sorted(study.study_name for study in studies if ID in study.user_attrs)


def find_study(storage: RDBStorage, name: str | None) -> optuna.Study | None:
    """Returns a study, or with None the only one of a file; None if it does not exist.

    Raises:
        RunError: If it has another format than this version's.
    """
    for study in storage.get_all_studies():
        if ID in study.user_attrs and name in (None, study.study_name):
            require_format(f"study {study.study_name}", study.user_attrs.get(FORMAT_KEY))
            return optuna.load_study(study_name=study.study_name, storage=storage)
    return None


def read_record(folder: Path) -> dict[str, str | None] | None:
    """Returns ID, name and storage of the study whose trials a folder holds; None if it holds none."""
    file = folder / RECORD
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def record_storage(folder: Path, url: str | None, study: str, identifier: str) -> None:
    """Writes into a folder which study its trials belong to, without a password."""
    content = {"id": identifier, "study": study, "storage": url and _place(folder, url)}
    if read_record(folder) != content:
        write_atomically(folder / RECORD, json.dumps(content) + "\n")


def refuse(folder: Path, record: Mapping[str, str | None]) -> NoReturn:
    """Refuses a storage that does not hold the study of a folder, of which there is a record.

    Raises:
        SettingError: With what to type.
    """
    place = f"storage={record['storage']}" if record["storage"] else f"{folder / DATABASE}, which needs no storage="
    message = (
        f"{folder} holds trials of the study {record['study']} in {place}. Type study={record['study']} and that "
        "storage to resume it, or study=NAME for another study; where its database is gone, move the folder away."
    )
    raise SettingError(Fault("storage", "conflict", message))


def load(folder: Path, url: str | None = None) -> optuna.Study:
    """Opens the study of a folder to read it.

    Raises:
        RunError: If there is none, or the database cannot be reached.
    """
    study = None
    if url is not None or (folder / DATABASE).is_file():
        study = _read(folder, url, lambda storage: find_study(storage, folder.name if url else None))
    if study is None:
        hint = f"study={shlex.quote(folder.name)} begins one; another storage needs storage=URL"
        raise RunError(Fault("study", "not_found", f"{_place(folder, url)} holds no study; {hint}."))
    return study


def _read(folder: Path, url: str | None, work: Callable[[RDBStorage], T]) -> T | None:
    """Calls `work` with a storage that is only read; returns None where the tables do not exist yet."""
    try:
        return work(open_storage(folder, url))
    except (SQLAlchemyError, StorageInternalError) as error:
        if _is_away(error) and url is not None and make_url(url).get_backend_name() != "sqlite":  # it has no tables
            message = f"{_place(folder, url)} cannot be read: {_reason(error)}."
            raise RunError(Fault("storage", "unreadable", message)) from None
        return None


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


def retry_while_unreachable(work: Callable[[], T]) -> T:
    """Calls `work`, which uses a database, and retries it for up to `OUTAGE` seconds while that is unreachable."""
    began, is_away = time.monotonic(), False
    while True:
        try:
            value = work()
        except (SQLAlchemyError, StorageInternalError) as error:
            if not _is_away(error) or time.monotonic() - began >= OUTAGE:
                raise
            if not is_away:
                line = f"The database does not answer ({_reason(error)}); running trials continue."
                print(line, file=sys.stderr, flush=True)
            is_away = True
            time.sleep(PAUSE)
        else:
            if is_away:
                print(
                    f"The database answers again, after {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True
                )
            return value


def _is_away(error: Exception) -> bool:
    """Whether a database does not answer."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    return isinstance(cause, OperationalError | InterfaceError)


def _address(url: str) -> str:
    """Returns a URL with the driver that is installed where it names none: psycopg 3 for PostgreSQL."""
    parsed = make_url(url)
    if parsed.drivername == POSTGRESQL and importlib.util.find_spec("psycopg"):
        parsed = parsed.set(drivername=f"{POSTGRESQL}+psycopg")
    return parsed.render_as_string(hide_password=False)


def _place(folder: Path, url: str | None) -> str:
    """Returns where a study is stored, without a password."""
    try:
        return without_passwords(make_url(url).render_as_string()) if url else str(folder / DATABASE)
    except ArgumentError:
        return "URL"


def _reason(error: BaseException) -> str:
    """Returns the message of the database, without SQLAlchemy's, which holds the statement, and libpq's hints."""
    cause = error.__cause__ or error
    lines = str(getattr(cause, "orig", None) or cause).splitlines()
    return " ".join(" ".join(line for line in lines if not line.startswith("\t")).split()).rstrip(".")
