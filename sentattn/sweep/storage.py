"""Where a study lies: one SQLite file that only its owner writes, and which process that is."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from sentattn.errors import RunError

DATABASE, LOCK, OWNER = "study.db", ".owner.lock", "owner.pid"
CURRENT = "current"
"""Marks the study of a file that counts. A space that changes makes a new one; the old one goes when it is whole."""


class Owner:
    """Holds a study's folder for this process until it is given up; the system gives it up when the process dies.

    Args:
        folder: The study's folder.

    Raises:
        RunError: If another process holds it, with that one's id.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = FileLock(folder / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RunError(
                f"{folder} is being worked on by process {_written(folder) or 'unknown'}; "
                f"`sentattn sweep stop {folder.name}` ends it."
            ) from error
        (folder / OWNER).write_text(f"{os.getpid()}\n", encoding="utf-8")

    def release(self) -> None:
        """Gives the folder up."""
        (self._folder / OWNER).unlink(missing_ok=True)
        self._lock.release()


def owner(folder: Path) -> int | None:
    """Returns the id of the process that works on a study; None where there is none."""
    if not (folder / LOCK).is_file():
        return None
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return _written(folder)
    lock.release()
    return None


def _written(folder: Path) -> int | None:
    try:
        return int((folder / OWNER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def quiet() -> None:
    """Keeps Optuna from telling every trial; what goes wrong is told by the owner."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def open_storage(folder: Path, *, reader: bool = False) -> RDBStorage:
    """Opens a study's file.

    The journal is written ahead and not forced to the disk with every step: whatever dies of the sweep, nothing that
    was told is lost; a machine that loses power may lose the last moments, and its file stays whole.

    Args:
        folder: The study's folder.
        reader: Whether it is only read, beside an owner that may just be making its tables.

    Raises:
        RunError: If it cannot be opened or written.
    """
    quiet()
    file = folder / DATABASE
    try:
        if not reader and not file.exists():
            _make(file)
        return _opened(file, reader=reader)
    except (sqlite3.Error, OSError, RuntimeError, optuna.exceptions.OptunaError) as error:
        raise RunError(f"{file} cannot be opened: {' '.join(str(error).split())}.") from error


def _make(file: Path) -> None:
    """Makes a study's file at once or not at all: whoever reads it meanwhile would hinder the tables."""
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with sqlite3.connect(new) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    storage = _opened(new, reader=False)
    storage.remove_session()
    storage.engine.dispose()
    os.replace(new, file)


def _opened(file: Path, *, reader: bool) -> RDBStorage:
    return RDBStorage(
        f"sqlite:///{file}",
        engine_kwargs={"creator": lambda: _connect(file)},
        skip_table_creation=reader,
        skip_compatibility_check=reader,
    )


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def current(storage: RDBStorage) -> str | None:
    """Returns the name of the study that counts; None where there is none yet."""
    whole = [one for one in storage.get_all_studies() if one.user_attrs.get(CURRENT) is True]
    return max(whole, key=lambda one: one._study_id).study_name if whole else None


def clear(storage: RDBStorage, kept: str | None) -> None:
    """Deletes all studies but one: what a change of the space has left behind, or had begun when it was killed."""
    for one in storage.get_all_studies():
        if one.study_name != kept:
            optuna.delete_study(study_name=one.study_name, storage=storage)


def load(folder: Path) -> optuna.Study:
    """Opens the study of a folder to read it.

    Raises:
        RunError: If there is none.
    """
    if not (folder / DATABASE).is_file():
        raise RunError(f"{folder} holds no study; `python -m sentattn.sweep study={folder.name} ...` begins one.")
    storage = open_storage(folder, reader=True)
    try:
        name = current(storage)
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError):  # its tables are not there yet
        name = None
    if name is None:
        raise RunError(f"{folder / DATABASE} holds no study yet.")
    return optuna.load_study(study_name=name, storage=storage)


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Tells of a study that cannot be written as of a fault that can be mended."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, OSError) as error:
        cause = error.__cause__ or error
        reason = " ".join(str(getattr(cause, "orig", None) or cause).split())  # SQLite's words, without SQLAlchemy's
        raise RunError(
            f"{folder / DATABASE} cannot be written: {reason}. Nothing that was told is lost; "
            "make room, and the same command goes on."
        ) from error


class Disk:
    """Writes what becomes of a study, one transaction a step.

    Args:
        study: Optuna's, in a file.
        backend: The file.
    """

    def __init__(self, study: optuna.Study, backend: RDBStorage) -> None:
        self._study = study
        self._backend = backend
        self._ids = {trial.number: trial._trial_id for trial in study.get_trials(deepcopy=False)}

    def begin(self, trial: FrozenTrial) -> None:
        """Writes a trial that has begun."""
        self._ids[trial.number] = self._backend.create_new_trial(self._study._study_id, trial)

    def step(self, number: int, step: int, value: float) -> None:
        """Writes what a trial has reached."""
        self._backend.set_trial_intermediate_value(self._ids[number], step, value)

    def end(
        self, number: int, state: TrialState, values: Sequence[float] | None, attrs: Mapping[str, Any] | None = None
    ) -> None:
        """Writes how a trial ended; that it did comes last."""
        for key, value in (attrs or {}).items():
            self._backend.set_trial_user_attr(self._ids[number], key, value)
        self._backend.set_trial_state_values(self._ids[number], state, values)

    def note(self, key: str, value: Any) -> None:
        """Writes what is known of the study itself."""
        self._study.set_user_attr(key, value)
