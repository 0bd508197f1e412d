"""Runs that were interrupted: whether one can go on, and what to type for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from sentattn import run
from sentattn.distributed import ranks
from sentattn.errors import RunError
from sentattn.training.resume.checkpoint_file import read
from sentattn.training.resume.checkpoints import LAST, Checkpoints


def resumable(path: Path) -> run.Run:
    """Opens a run that was interrupted while it was trained or judged.

    Raises:
        RunError: If it came to its end, or was interrupted before its first checkpoint.
    """
    record = run.load(path)
    again = f"to train with its settings anew: python -m sentattn.train from={path}"
    if (path / run.RESULT).exists():
        status = record.result.get("status")
        raise RunError(f"{path} came to its end ({status}), there is nothing left to resume; {again}")
    if not _last(record).is_file():
        raise RunError(f"{path} has no checkpoint to go on from; {again}")
    return record


def about(setting: str, fingerprint: str) -> dict[str, str]:
    """Returns what a checkpoint says of the run: that which must not change while it is interrupted."""
    return {"setting": setting, "data_fingerprint": fingerprint}


def require_same(record: run.Run, now: dict[str, str]) -> None:
    """Refuses to go on with other data than the run began with.

    Raises:
        RunError: If rows or vectors are other ones, or the checkpoint cannot be read.
    """
    before = read(_last(record))["callbacks"][Checkpoints.__qualname__]["about"]
    if before["data_fingerprint"] != now["data_fingerprint"]:
        raise RunError(
            f"{record.path} was trained on other rows: its data had the fingerprint {before['data_fingerprint']}, what "
            f"is read now has {now['data_fingerprint']}. Restore the data, or begin anew: "
            f"python -m sentattn.train from={record.path}"
        )
    if before["setting"] != now["setting"]:
        raise RunError(
            f"{record.path} began with another setting ({before['setting']}) than what is there now "
            f"({now['setting']}): its config.yaml, its file of word vectors or sentattn itself was changed. Restore "
            f"it, or begin anew: python -m sentattn.train from={record.path}"
        )


def discard_untrained(record: run.Run | None) -> None:
    """Removes a run directory in which nothing was trained yet."""
    if record is not None and not _last(record).is_file() and ranks.is_rank_zero():
        shutil.rmtree(record.path, ignore_errors=True)


def _last(record: run.Run) -> Path:
    return record.path / run.CHECKPOINTS / LAST
