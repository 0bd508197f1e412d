"""Interrupted runs: which one to resume, and whether it can be."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sentattn import run
from sentattn.config.compose import setting_hash
from sentattn.config.groups import get_path
from sentattn.console import Progress
from sentattn.errors import Fault, RunError, UserError
from sentattn.training.precision import resolve_precision

SAME = ("seed", "test", "data.vectors")
"""Keys outside the hash of a setting in which duplicate runs are equal too."""


def open_interrupted(path: Path) -> run.Run:
    """Opens a run that was interrupted while it was trained or evaluated.

    Raises:
        RunError: If it has ended, or was interrupted before its first checkpoint.
    """
    interrupted = run.load(path)
    path = interrupted.path
    again = f"to train with its settings from the start: python -m sentattn.train from={shlex.quote(str(path))}"
    if (path / run.RESULT).exists():
        status = interrupted.result.get("status")
        raise RunError(Fault("resume", "conflict", f"{path} has ended ({status}), nothing is left to resume; {again}"))
    if not interrupted.last_checkpoint.is_file():
        raise RunError(Fault("resume", "missing", f"{path} has no checkpoint to resume from; {again}"))
    return interrupted


def require_same(interrupted: run.Run, current: Mapping[str, str]) -> None:
    """Refuses to resume a run with other rows, vectors or settings than its checkpoint says that it began with.

    Raises:
        RunError: If they differ, or the checkpoint cannot be read.
    """
    from sentattn.training.checkpoint import Checkpoints, read_checkpoint

    before = read_checkpoint(interrupted.last_checkpoint)["callbacks"][Checkpoints.__qualname__]["identity"]
    for name, key, cause in (
        ("data_fingerprint", "data", "its data was"),
        ("setting", "resume", "its config.yaml, its file of word vectors or sentattn itself was"),
    ):
        if before[name] != current[name]:
            message = (
                f"{interrupted.path} began with another {name} ({before[name]}) than it has now ({current[name]}): "
                f"{cause} changed. Restore it, or train from the start: "
                f"python -m sentattn.train from={shlex.quote(str(interrupted.path))}"
            )
            raise RunError(Fault(key, "conflict", message))


class SavedRuns:
    """The runs in the output folders of settings, by the `identity` of their settings; each is read once."""

    def __init__(self) -> None:
        self._identities: dict[Path, tuple[Any, ...] | None] = {}
        self._by_identity: dict[Path, dict[tuple[Any, ...] | None, list[run.Run]]] = {}

    def of(self, settings: Mapping[str, Any]) -> list[run.Run]:
        """Returns the runs with these settings, the newest first."""
        folder = Path(settings["output_dir"]) / settings["data"]["name"] / settings["model"]["name"]
        if folder not in self._by_identity:
            self._by_identity[folder] = self._read(folder)
        return self._by_identity[folder].get(identity(settings), [])

    def refresh(self) -> None:
        """Lists the folders again when they are asked for next, and reads the runs that are new."""
        self._by_identity.clear()

    def _read(self, folder: Path) -> dict[tuple[Any, ...] | None, list[run.Run]]:
        found: dict[tuple[Any, ...] | None, list[run.Run]] = {}
        files = folder.glob(f"*/{run.CONFIG}")
        for path in sorted(
            (file.parent for file in files), key=lambda path: path.name, reverse=True
        ):  # begin with time
            saved = run.Run(path)
            if path not in self._identities:
                self._identities[path] = _identity(saved)
            found.setdefault(self._identities[path], []).append(saved)
        return found


def find_interrupted(settings: Mapping[str, Any], saved: SavedRuns | None = None) -> Path | None:
    """Returns the newest interrupted run of these settings, or None.

    It has a checkpoint and no result, and no living process trains it.
    """
    runs = (saved_run for saved_run in _without_result(settings, saved) if saved_run.last_checkpoint.is_file())
    return next((saved_run.path for saved_run in runs if not _is_being_trained(saved_run.path)), None)


def find_begun(settings: Mapping[str, Any], saved: SavedRuns | None = None) -> Path | None:
    """Returns the newest run of these settings that was killed before its first checkpoint, or None."""
    runs = (saved_run for saved_run in _without_result(settings, saved) if not saved_run.last_checkpoint.is_file())
    return next((saved_run.path for saved_run in runs if not _is_being_trained(saved_run.path)), None)


def find_running(settings: Mapping[str, Any], saved: SavedRuns | None = None) -> Path | None:
    """Returns a run of these settings that a living process trains, or None."""
    paths = (saved_run.path for saved_run in _without_result(settings, saved))
    return next((path for path in paths if _is_being_trained(path)), None)


def find_finished(settings: Mapping[str, Any], saved: SavedRuns | None = None) -> Path | None:
    """Returns the newest finished run of these settings on the current rows of the data, or None.

    A run on other rows is reported and skipped. Rows are not compared where the data cannot be read.
    """
    for saved_run in (saved or SavedRuns()).of(settings):
        if not (result := _finished(saved_run, settings["seed"])):
            continue
        before = result.get("data_fingerprint")
        now = _fingerprint(json.dumps(settings["data"], sort_keys=True)) if before else ""
        if not now or before == now:
            return saved_run.path
        message = f"it was trained on other data (data_fingerprint {before}, now {now}) and does not count as finished."
        print(f"warning: {saved_run.path}: {message}", file=sys.stderr)
    return None


def _without_result(settings: Mapping[str, Any], saved: SavedRuns | None) -> Iterator[run.Run]:
    """Yields the runs of these settings that have not ended, the newest first."""
    saved_runs = (saved or SavedRuns()).of(settings)
    return (saved_run for saved_run in saved_runs if not (saved_run.path / run.RESULT).exists())


@cache
def _fingerprint(data: str) -> str:
    """Returns the hash of the rows that the data settings (JSON) select; empty where they cannot be read.

    It does not depend on vectors.
    """
    from sentattn import build

    try:
        with Progress() as progress:
            module = build.build_data({"data": json.loads(data) | {"vectors": None}, "seed": 0})
            module.prepare(progress)
    except UserError as error:
        print(f"warning: the rows of finished runs cannot be compared: {error}", file=sys.stderr)
        return ""
    return module.fingerprint


def _finished(saved: run.Run, seed: int) -> dict[str, Any]:
    """Returns the result of a finished run with a seed; empty if it has ended otherwise, or not at all."""
    try:
        result = saved.result
        return result if (result["status"], result["seed"]) == ("finished", seed) else {}
    except (RunError, KeyError, TypeError):
        return {}


def _identity(saved: run.Run) -> tuple[Any, ...] | None:
    """Returns the identity of a run's settings; None where they are damaged, or have values that no setting has."""
    try:
        key = identity(saved.settings)
        hash(key)
        return key
    except (RunError, AttributeError, KeyError, TypeError):
        return None


def identity(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns the key of duplicate runs: hash of the setting, seed, test, vectors."""
    return setting_hash(resolve_precision(settings)), *(get_path(settings, key) for key in SAME)


def _is_being_trained(path: Path) -> bool:
    try:
        with run.lock(path):
            return False
    except (RunError, OSError):  # a run that cannot be locked cannot be resumed either
        return True
