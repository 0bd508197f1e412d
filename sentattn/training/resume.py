"""Interrupted runs: which one to resume, whether it can be, and what to type for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentattn import run
from sentattn.config.compose import setting_hash
from sentattn.config.groups import at
from sentattn.distributed import ranks
from sentattn.errors import Fault, RunError
from sentattn.training.checkpoint import Checkpoints, read_checkpoint

SAME = ("seed", "test", "data.vectors")
"""Keys that the hash of a setting leaves out, and that make it another training all the same."""


def open_interrupted(path: Path) -> run.Run:
    """Opens a run that was interrupted while it was trained or evaluated.

    Raises:
        RunError: If it has ended, or was interrupted before its first checkpoint.
    """
    interrupted = run.load(path)
    again = f"to train with its settings from the start: python -m sentattn.train from={path}"
    if (path / run.RESULT).exists():
        status = interrupted.result.get("status")
        raise RunError(Fault("resume", "conflict", f"{path} has ended ({status}), nothing is left to resume; {again}"))
    if not interrupted.last_checkpoint.is_file():
        raise RunError(Fault("resume", "missing", f"{path} has no checkpoint to resume from; {again}"))
    return interrupted


def identity(setting: str, fingerprint: str) -> dict[str, str]:
    """Returns what a checkpoint stores of its run, and what must be the same when the run is resumed."""
    return {"setting": setting, "data_fingerprint": fingerprint}


def require_same(interrupted: run.Run, now: Mapping[str, str]) -> None:
    """Refuses to resume a run with other data or settings than it began with.

    Args:
        interrupted: The run.
        now: The `identity` of what was read and built now.

    Raises:
        RunError: If rows, vectors or settings differ, or the checkpoint cannot be read.
    """
    before = read_checkpoint(interrupted.last_checkpoint)["callbacks"][Checkpoints.__qualname__]["about"]
    again = f"or train from the start: python -m sentattn.train from={interrupted.path}"
    if before["data_fingerprint"] != now["data_fingerprint"]:
        message = (
            f"{interrupted.path} was trained on other rows: its data had the fingerprint "
            f"{before['data_fingerprint']}, now it has {now['data_fingerprint']}. Restore the data, {again}"
        )
        raise RunError(Fault("data", "conflict", message))
    if before["setting"] != now["setting"]:
        message = (
            f"{interrupted.path} began with another setting ({before['setting']}) than it has now "
            f"({now['setting']}): its config.yaml, its file of word vectors or sentattn itself was changed. "
            f"Restore it, {again}"
        )
        raise RunError(Fault("resume", "conflict", message))


def discard_untrained(interrupted: run.Run | None) -> None:
    """Removes a run directory in which nothing was trained yet."""
    if interrupted is not None and not interrupted.last_checkpoint.is_file() and ranks.is_rank_zero():
        shutil.rmtree(interrupted.path, ignore_errors=True)


def find_interrupted(settings: Mapping[str, Any]) -> Path | None:
    """Returns the newest interrupted run of these settings, or None.

    It has a checkpoint and no result, and no living process trains it.

    Args:
        settings: The resolved settings.
    """
    candidates = (path for path in _newest_first(settings) if _is_interrupted(path))
    return next((path for path in candidates if _has_settings(path, settings) and not is_being_trained(path)), None)


def find_finished(settings: Mapping[str, Any]) -> Path | None:
    """Returns the newest finished run of these settings, or None.

    Args:
        settings: The resolved settings.
    """
    candidates = (path for path in _newest_first(settings) if _is_finished(path, settings["seed"]))
    return next((path for path in candidates if _has_settings(path, settings)), None)


def is_being_trained(path: Path) -> bool:
    """Returns whether a process holds the lock of a run."""
    try:
        with run.lock(path):
            return False
    except (RunError, OSError):  # a run that cannot be locked cannot be resumed either
        return True


def _newest_first(settings: Mapping[str, Any]) -> Iterator[Path]:
    """Yields the run directories of a model on data; their names begin with the time."""
    folder = Path(settings["output_dir"]) / settings["data"]["name"] / settings["model"]["name"]
    paths = [file.parent for file in folder.glob(f"*/{run.CONFIG}")]
    yield from sorted(paths, key=lambda path: path.name, reverse=True)


def _is_interrupted(path: Path) -> bool:
    return run.Run(path).last_checkpoint.is_file() and not (path / run.RESULT).exists()


def _is_finished(path: Path, seed: int) -> bool:
    try:
        result = run.Run(path).result
        return (result["status"], result["seed"]) == ("finished", seed)
    except (RunError, KeyError, TypeError):
        return False


def _has_settings(path: Path, settings: Mapping[str, Any]) -> bool:
    try:
        saved = run.Run(path).settings
        return all(at(saved, key) == at(settings, key) for key in SAME) and setting_hash(saved) == setting_hash(
            settings
        )
    except (RunError, TypeError):  # damaged, or with values that no setting has
        return False
