"""Where a study is stored: Optuna's journal in its folder, which schedulers of all machines that see it share.

A scheduler is a locked file in the folder: the kernel releases the lock when the process dies. Where the kernel of
another machine does not see the lock, a scheduler there is alive as long as it touches its file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import optuna
from filelock import FileLock
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from sentattn.errors import Fault, RunError, UserError, first_line, suggestion
from sentattn.run import FORMAT_KEY, is_locked, require_format
from sentattn.sweep.plan import quiet

JOURNAL, LOCK = "study.journal", ".study.lock"
FIRST_FORMAT = ("study.db", "storage.json")
"""Files of a study of format 1."""
ID, WORDS = "id", "words"
"""A study's attributes: one that is written last, so that a study without it is incomplete, and how it was typed."""
SILENT = 60.0
"""Seconds after which a scheduler of another machine that has not touched its file is dead."""
POLL = 0.01
"""Seconds between two attempts to lock a journal."""
LOCAL_LOCKS = {"nolock", "local_lock=all", "local_lock=flock", "localflock", "localflocks", "nobrl"}
"""Options of NFS, Lustre, OCFS2, GFS2 and SMB with which a lock is seen on its own machine alone."""


class JournalLock(JournalFileOpenLock):
    """Locks a journal; the kernel releases the lock when its process dies.

    What such a process has left half written is removed: the last line, if it does not end. As a context manager the
    lock makes several reads and writes one.

    Raises:
        FileNotFoundError: If the journal is gone, or another file has its name: both would begin a study anew.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(str(file))
        self._file = file  # Optuna's own locks have the name of the journal with .lock
        self._lock = FileLock(file.with_name(LOCK), is_singleton=True)
        self._inode = 0

    def acquire(self) -> bool:
        inode = self._file.stat().st_ino if self._file.exists() else 0
        if self._inode not in (0, inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._file))
        self._inode = inode
        self._lock.acquire(poll_interval=POLL)
        if self._lock.lock_counter == 1:
            _remove_torn_line(self._file)
        return True

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _remove_torn_line(file: Path) -> None:
    with suppress(FileNotFoundError), file.open("r+b") as journal:
        size = journal.seek(0, os.SEEK_END)
        if not size or (journal.seek(size - 1), journal.read(1))[1] == b"\n":
            return
        journal.seek(0)
        whole = journal.read().rfind(b"\n") + 1
        journal.truncate(whole)
        message = f"{file}: the last line was incomplete, as a process has died while it wrote it; it is removed"
        print(f"{message} ({size - whole} bytes).", file=sys.stderr, flush=True)


def open_storage(folder: Path) -> tuple[JournalStorage, JournalLock]:
    """Opens the journal of a study, which is created where it is missing, and its lock.

    Raises:
        RunError: If it is damaged.
    """
    quiet()
    lock = JournalLock(folder / JOURNAL)
    with readable(folder):
        return JournalStorage(JournalFileBackend(str(folder / JOURNAL), lock_obj=lock)), lock


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Turns what Optuna and Python raise where the journal of a study is damaged into a `RunError` that names it."""
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:  # of any kind, as the damage
        reason = f"{type(error).__name__}: {first_line(error)}"
        message = f"{folder / JOURNAL} is damaged ({reason}): restore it from a copy, or type study=NEW."
        raise RunError(Fault("study", "damaged", message)) from error


def find_study(storage: JournalStorage) -> optuna.Study | None:
    """Returns the study of a journal; None if it does not exist yet.

    Raises:
        RunError: If it has another format than this version's.
    """
    for study in storage.get_all_studies():
        if ID in study.user_attrs:
            require_format(f"study {study.study_name}", study.user_attrs.get(FORMAT_KEY))
            return optuna.load_study(study_name=study.study_name, storage=storage)
    return None


def stored(folder: Path) -> optuna.Study | None:
    """Returns the study of a folder; None if it does not exist yet."""
    if not (folder / JOURNAL).is_file():
        return None
    with readable(folder):
        return find_study(open_storage(folder)[0])


def load(folder: Path) -> optuna.Study:
    """Opens the study of a folder to read it.

    Raises:
        RunError: If there is none.
    """
    require_journal(folder)
    if (study := stored(folder)) is None:
        close = suggestion(folder.name, [journal.parent.name for journal in folder.parent.glob(f"*/{JOURNAL}")])
        message = f"{folder / JOURNAL} holds no study; study={folder.name} begins one.{close}"
        raise RunError(Fault("study", "not_found", message))
    return study


def require_journal(folder: Path) -> None:
    """Refuses a folder with the files of a study of format 1 with a `RunError`."""
    if any((folder / name).is_file() for name in FIRST_FORMAT) and not (folder / JOURNAL).is_file():
        require_format(f"study {folder}", 1)


def require_locks(folder: Path) -> None:
    """Refuses a file system without locks with a `RunError`, since a lock file would outlive its process."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        with suppress(BlockingIOError):  # another process has locked it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        advice = "mount it with locks, as Lustre with the option flock, or type another output_dir=PATH"
        message = f"{folder}: its file system locks no files ({error.strerror}): {advice}."
        raise RunError(Fault("study", "unwritable", message)) from error
    finally:
        os.close(descriptor)


class Scheduler(NamedTuple):
    """A process that works on a study."""

    number: int
    host: str
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def schedulers(folder: Path) -> dict[int, Scheduler]:
    """Returns the schedulers that work on a study, by number; its lock is held meanwhile."""
    found = {}
    for lock in sorted(folder.glob(".scheduler-*.lock")):
        number = int(lock.stem.rpartition("-")[2])
        if (scheduler := _read(folder, number)) and _is_alive(folder, scheduler):
            found[number] = scheduler
    return found


@contextmanager
def joined(folder: Path) -> Iterator[int]:
    """Makes this process one of the schedulers of a study; yields its number. The study's lock is held meanwhile.

    Raises:
        RunError: If the file system locks files for each machine by itself, and another machine works on the study.
    """
    here, known = os.uname().nodename, schedulers(folder)
    if (others := [each for each in known.values() if each.host != here]) and (option := local_lock(folder)):
        message = (
            f"{others[0]} works on {folder}, and this machine does not see its locks: the file system is mounted with "
            f"{option}. Mount it without {option}, or type study=NEW."
        )
        raise RunError(Fault("study", "busy", message))
    number = next(number for number in range(len(known) + 1) if number not in known)
    own = FileLock(_lock_file(folder, number))
    own.acquire(timeout=SILENT)  # who looks whether it is alive holds it for a moment
    _file(folder, number).write_text(f"{here} {os.getpid()}", encoding="utf-8")
    try:
        yield number
    finally:
        _file(folder, number).unlink(missing_ok=True)
        own.release()


def touch(folder: Path, number: int) -> None:
    """Shows the other machines that a scheduler is alive."""
    _file(folder, number).touch()


def local_lock(folder: Path, mounts: str | None = None) -> str:
    """Returns the mount option of a folder by which locks hold on their own machine alone, or an empty string.

    Args:
        folder: The folder.
        mounts: The content of /proc/self/mountinfo, which is read where there is none.
    """
    if mounts is None:
        with suppress(OSError):
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    options: dict[Path, str] = {}
    for line in (mounts or "").splitlines():
        mount, _, filesystem = line.partition(" - ")
        options[Path(mount.split()[4].encode().decode("unicode_escape"))] = filesystem.split()[-1]
    place = next((path for path in (folder.resolve(), *folder.resolve().parents) if path in options), None)
    return next((option for option in options.get(place or Path(), "").split(",") if option in LOCAL_LOCKS), "")


def _is_alive(folder: Path, scheduler: Scheduler) -> bool:
    if is_locked(folder, _lock_file(folder, scheduler.number).name):
        return True
    if scheduler.host == os.uname().nodename:
        return False
    now = time.time()
    with suppress(OSError):  # a folder that may only be read
        (clock := folder / ".now").touch()
        now = clock.stat().st_mtime  # that of the file system
    try:
        return now - _file(folder, scheduler.number).stat().st_mtime < SILENT
    except FileNotFoundError:  # it has left meanwhile
        return False


def _read(folder: Path, number: int) -> Scheduler | None:
    with suppress(OSError, ValueError):
        host, pid = _file(folder, number).read_text(encoding="utf-8").split()
        return Scheduler(number, host, int(pid))
    return None


def _file(folder: Path, number: int) -> Path:
    return folder / f".scheduler-{number}"


def _lock_file(folder: Path, number: int) -> Path:
    return folder / f".scheduler-{number}.lock"
