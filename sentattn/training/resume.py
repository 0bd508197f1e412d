"""Interrupted runs: which one to resume, and whether it can be."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sentattn import run
from sentattn.config.compose import setting_hash
from sentattn.config.groups import at
from sentattn.console import Progress
from sentattn.errors import Fault, RunError, UserError
from sentattn.training.precision import resolve_precision

SAME = ("seed", "test", "data.vectors")
"""Keys that the hash of a setting leaves out, and that make it another training all the same."""


def open_interrupted(path: Path) -> run.Run:
    """Opens a run that was interrupted while it was trained or evaluated.

    Raises:
        RunError: If it has ended, or was interrupted before its first checkpoint.
    """
    interrupted = run.load(path)
    again = f"to train with its settings from the start: python -m sentattn.train from={shlex.quote(str(path))}"
    if (path / run.RESULT).exists():
        status = interrupted.result.get("status")
        raise RunError(Fault("resume", "conflict", f"{path} has ended ({status}), nothing is left to resume; {again}"))
    if not interrupted.last_checkpoint.is_file():
        raise RunError(Fault("resume", "missing", f"{path} has no checkpoint to resume from; {again}"))
    return interrupted


def require_same(interrupted: run.Run, about: Mapping[str, str]) -> None:
    """Refuses to resume a run with other rows, vectors or settings than its checkpoint says that it began with.

    Raises:
        RunError: If they differ, or the checkpoint cannot be read.
    """
    from sentattn.training.checkpoint import Checkpoints, read_checkpoint

    before = read_checkpoint(interrupted.last_checkpoint)["callbacks"][Checkpoints.__qualname__]["about"]
    for name, key, cause in (
        ("data_fingerprint", "data", "its data was"),
        ("setting", "resume", "its config.yaml, its file of word vectors or sentattn itself was"),
    ):
        if before[name] != about[name]:
            message = (
                f"{interrupted.path} began with another {name} ({before[name]}) than it has now ({about[name]}): "
                f"{cause} changed. Restore it, or train from the start: "
                f"python -m sentattn.train from={shlex.quote(str(interrupted.path))}"
            )
            raise RunError(Fault(key, "conflict", message))


def find_interrupted(settings: Mapping[str, Any]) -> Path | None:
    """Returns the newest interrupted run of these settings, or None.

    It has a checkpoint and no result, and no living process trains it.
    """
    runs = _newest_first(settings, lambda one: one.last_checkpoint.is_file() and not (one.path / run.RESULT).exists())
    return next((path for path in runs if not _is_being_trained(path)), None)


def find_begun(settings: Mapping[str, Any]) -> Path | None:
    """Returns the newest run of these settings that was killed before its first checkpoint, or None."""
    runs = _newest_first(
        settings, lambda one: not one.last_checkpoint.is_file() and not (one.path / run.RESULT).exists()
    )
    return next((path for path in runs if not _is_being_trained(path)), None)


def find_running(settings: Mapping[str, Any]) -> Path | None:
    """Returns a run of these settings that a living process trains, or None."""
    runs = _newest_first(settings, lambda one: not (one.path / run.RESULT).exists())
    return next((path for path in runs if _is_being_trained(path)), None)


def find_finished(settings: Mapping[str, Any]) -> Path | None:
    """Returns the newest finished run of these settings on the rows there are now, or None.

    A run on other rows is named and not counted; where the data cannot be read now, rows are not compared.
    """
    for path in _newest_first(settings, lambda one: _is_finished(one, settings["seed"])):
        before = run.Run(path).result.get("data_fingerprint")
        now = _fingerprint(json.dumps(settings["data"], sort_keys=True)) if before else ""
        if not now or before == now:
            return path
        message = f"its data was another then (data_fingerprint {before}, now {now}): it does not count as finished."
        print(f"warning: {path}: {message}", file=sys.stderr)
    return None


@cache
def _fingerprint(data: str) -> str:
    """Returns the hash of the rows that settings (JSON) of the data select, from its cached corpus; empty without one.

    Vectors have no part in it.
    """
    from sentattn import build

    try:
        with Progress() as progress:
            module = build.build_data({"data": json.loads(data) | {"vectors": None}, "seed": 0})
            module.prepare(progress)
    except UserError as error:
        print(f"warning: whether finished runs have the same rows is not known: {error}", file=sys.stderr)
        return ""
    return module.fingerprint


def _newest_first(settings: Mapping[str, Any], is_wanted: Callable[[run.Run], bool]) -> Iterator[Path]:
    """Yields the directories of some runs of these settings; their names begin with the time."""
    folder = Path(settings["output_dir"]) / settings["data"]["name"] / settings["model"]["name"]
    for file in sorted(folder.glob(f"*/{run.CONFIG}"), key=lambda file: file.parent.name, reverse=True):
        if is_wanted(saved := run.Run(file.parent)) and _has_settings(saved, settings):
            yield file.parent


def _is_finished(saved: run.Run, seed: int) -> bool:
    try:
        return bool((saved.result["status"], saved.result["seed"]) == ("finished", seed))
    except (RunError, KeyError, TypeError):
        return False


def _has_settings(saved: run.Run, settings: Mapping[str, Any]) -> bool:
    try:
        return identity(saved.settings) == identity(settings)
    except (RunError, AttributeError, KeyError, TypeError):  # damaged, or with values that no setting has
        return False


def identity(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what two trainings have in common of which one is enough: the hash of the setting, seed and the like."""
    return setting_hash(resolve_precision(settings)), *(at(settings, key) for key in SAME)


def _is_being_trained(path: Path) -> bool:
    try:
        with run.lock(path):
            return False
    except (RunError, OSError):  # a run that cannot be locked cannot be resumed either
        return True
