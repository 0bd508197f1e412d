"""The cache of corpora: each is built once, by one process, and appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sentattn.data import spacy_words
from sentattn.data.building import Progress, build
from sentattn.data.corpus import FORMAT, Corpus, DamagedCorpusError
from sentattn.data.datasets.base import Source
from sentattn.data.text import LINE_BREAK, TOKEN, Rules
from sentattn.errors import DataError

PATIENCE = 0.5
"""Seconds after which waiting for another process is told."""


def cache_folder(cache_dir: str | None) -> Path:
    """Returns where corpora are kept: the folder given, or `$SENTATTN_CACHE`, or `sentattn` in the user's cache."""
    if folder := cache_dir or os.environ.get("SENTATTN_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sentattn"


def open_corpus(
    source: Source,
    cache: Path,
    *,
    name: str,
    rules: Rules = "words",
    lowercase: bool = True,
    limit: int | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[Corpus, list[str]]:
    """Opens the corpus of a source, which is built first where it is not in the cache.

    Args:
        source: What is read.
        cache: The folder of all corpora.
        name: The first part of the corpus's folder name.
        rules: Whose rules say what a word is.
        lowercase: Whether words are told apart in lower case only.
        limit: Most rows of each split, or None.
        progress: Is told how far the work is.

    Returns:
        The corpus, and what the user should know of how it came about.

    Raises:
        DataError: If the data is missing or damaged, or the cache cannot be written.
    """
    folder = cache / f"{name}-{_key(source, rules, lowercase, limit)}"
    if folder.exists():
        try:
            return Corpus(folder), []
        except DamagedCorpusError:
            pass
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(f"{folder.name}.lock"), progress):
            return _open_or_build(source, folder, rules, lowercase, limit, progress)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(
            f"The cache folder {cache} cannot be used ({reason}); name another with data.cache_dir=FOLDER."
        ) from error


def _open_or_build(
    source: Source, folder: Path, rules: Rules, lowercase: bool, limit: int | None, progress: Progress
) -> tuple[Corpus, list[str]]:
    """Does what the holder of the lock does: another process may have built the corpus meanwhile."""
    notes = [f"The tokenized corpus is kept in {folder}."]
    if folder.exists():
        try:
            return Corpus(folder), []
        except DamagedCorpusError as damage:
            notes = [f"The tokenized corpus in {folder} was damaged ({damage}) and was built again."]
    prefix = f".{folder.name}."
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left)  # by a process that was killed: whoever builds holds the lock
    fresh = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        build(source, fresh, rules=rules, lowercase=lowercase, limit=limit, progress=progress)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Corpus(folder), notes


@contextmanager
def locked(file: Path, progress: Progress) -> Iterator[None]:
    """Holds the lock of a file that one process makes for all.

    Args:
        file: The lock file.
        progress: Is told when another process has to be waited for.
    """
    lock = FileLock(file)
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout:
        progress("Waiting for another process that reads the same data", 0, None)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _key(source: Source, rules: Rules, lowercase: bool, limit: int | None) -> str:
    """Returns a hash of all that the content of a corpus depends on."""
    words = TOKEN if rules == "words" else f"spaCy {spacy_words.version()}"
    parts = [FORMAT, source.fingerprint(), list(source.splits), LINE_BREAK, words, lowercase, limit]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
