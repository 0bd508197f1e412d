"""Studies start from a database that has its tables: creating them takes most of the time of a short test."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.storages import RDBStorage
from postgres_server import PROGRAMS, PostgresServer

from sentattn.sweep.study import storage

NUMBERS = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    template = tmp_path_factory.mktemp("tables") / storage.DATABASE
    open_storage = storage.open_storage
    open_storage(template.parent, heartbeat=1)
    with sqlite3.connect(template) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()

    def opened(folder: Path, url: str | None = None, *, heartbeat: int | None = None) -> RDBStorage:
        file = folder / storage.DATABASE
        if url is None and heartbeat and folder.is_dir() and not (file.exists() or (folder / storage.RECORD).exists()):
            shutil.copyfile(template, file)
        return open_storage(folder, url, heartbeat=heartbeat)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "open_storage", opened)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server; tests are skipped where Debian's package `postgresql` is missing."""
    if not PROGRAMS:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The address of an empty database."""
    return postgres.create(f"db{next(NUMBERS)}")
