"""Cache of corpora: each is built once, by one process, and moved into place when it is complete."""

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

from sentattn.data import spacy_tokenizer
from sentattn.data.corpus import FORMAT, Corpus, DamagedCorpusError
from sentattn.data.corpus_builder import Progress, build
from sentattn.data.source import Source
from sentattn.data.text import LINE_BREAK, TOKEN, Rules
from sentattn.errors import DataError, Fault

PATIENCE = 0.5
"""Seconds after which waiting for another process is reported."""


def cache_folder(cache_dir: str | None) -> Path:
    """Returns the folder of all corpora: `cache_dir`, `$SENTATTN_CACHE`, or `sentattn` in the user's cache."""
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
    """Opens the corpus of a source; builds it first if it is not in the cache.

    Args:
        source: Labelled texts.
        cache: The folder of all corpora.
        name: The first part of the corpus's folder name.
        rules: Tokenization rules.
        lowercase: Whether words are lowercased.
        limit: Most rows of each split, or None.
        progress: Called with the progress of the work.

    Returns:
        The corpus, and notes for the user on how it was built.

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
        raise unusable_cache(cache, error) from error


def unusable_cache(cache: Path, error: OSError) -> DataError:
    """Returns the error for a cache folder that cannot be read or written."""
    reason = error.strerror or str(error)
    message = f"The cache folder {cache} cannot be used ({reason}); set another with data.cache_dir=FOLDER."
    return DataError(Fault("data.cache_dir", "unwritable", message))


def _open_or_build(
    source: Source, folder: Path, rules: Rules, lowercase: bool, limit: int | None, progress: Progress
) -> tuple[Corpus, list[str]]:
    """Opens or builds a corpus while holding its lock; another process may have built it meanwhile."""
    notes = [f"The tokenized corpus is cached in {folder}."]
    if folder.exists():
        try:
            return Corpus(folder), []
        except DamagedCorpusError as damage:
            notes = [f"The tokenized corpus in {folder} was damaged ({damage}) and has been rebuilt."]
    prefix = f".{folder.name}."
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left)  # of a process that was killed; a living one would hold the lock
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
    """Holds the lock of a file that one process writes for all.

    Args:
        file: The lock file.
        progress: Called when another process holds the lock.
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
    """Returns a hash of everything that determines the content of a corpus."""
    tokens = TOKEN if rules == "words" else f"spaCy {spacy_tokenizer.version()}"
    parts = [FORMAT, source.fingerprint(), list(source.splits), LINE_BREAK, tokens, lowercase, limit]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
