"""Runs on disk that are, or are not, at their end: what to resume, and what not to train again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentattn import run
from sentattn.config.compose import setting_hash
from sentattn.config.groups import at
from sentattn.errors import RunError

LAST = "last.ckpt"
ALIKE = ("seed", "test", "data.vectors")
"""Settings in which two runs of one setting may differ, and which make another training of it all the same."""


def unfinished(settings: Mapping[str, Any]) -> Path | None:
    """Returns the newest interrupted run of these settings, or None.

    It has a checkpoint and no result, and no living process trains it.

    Args:
        settings: The resolved settings.
    """
    candidates = (path for path in _newest_first(settings) if _is_interrupted(path))
    return next((path for path in candidates if _is_of(path, settings) and not is_being_trained(path)), None)


def finished(settings: Mapping[str, Any]) -> Path | None:
    """Returns the newest run of these settings that came to its end, or None.

    Args:
        settings: The resolved settings.
    """
    candidates = (path for path in _newest_first(settings) if _is_finished(path, settings["seed"]))
    return next((path for path in candidates if _is_of(path, settings)), None)


def is_being_trained(path: Path) -> bool:
    """Whether a process holds the lock of a run."""
    try:
        with run.lock(path):
            return False
    except (RunError, OSError):  # what cannot be locked cannot be resumed either
        return True


def _newest_first(settings: Mapping[str, Any]) -> Iterator[Path]:
    """The run directories of a model on data; their names begin with the time."""
    folder = Path(settings["output_dir"]) / settings["data"]["name"] / settings["model"]["name"]
    found = [file.parent for file in folder.glob(f"*/{run.CONFIG}")]
    yield from sorted(found, key=lambda path: path.name, reverse=True)


def _is_interrupted(path: Path) -> bool:
    return (path / run.CHECKPOINTS / LAST).is_file() and not (path / run.RESULT).exists()


def _is_finished(path: Path, seed: int) -> bool:
    try:
        result = run.Run(path).result
        return (result["status"], result["seed"]) == ("finished", seed)
    except (RunError, KeyError, TypeError):
        return False


def _is_of(path: Path, settings: Mapping[str, Any]) -> bool:
    try:
        own = run.Run(path).settings
        return all(at(own, key) == at(settings, key) for key in ALIKE) and setting_hash(own) == setting_hash(settings)
    except (RunError, TypeError):  # damaged, or with values that no setting has
        return False
