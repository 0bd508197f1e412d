"""Interrupted runs: which one to resume, and whether it can be."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

from sentattn import run
from sentattn.config.compose import ENCODER_KEY, TOKENIZER_KEY
from sentattn.config.groups import get_path
from sentattn.config.hashing import setting_hash
from sentattn.config.schema import FOLD, HASHED_BY_CONTENT
from sentattn.config.targets import needed_trust
from sentattn.config.types import Node
from sentattn.console import Progress
from sentattn.data.hub import content_hash, find_folder
from sentattn.distributed.devices import resolve_precision
from sentattn.errors import Fault, RunError, UserError

SAME = ("seed", "test", FOLD, *HASHED_BY_CONTENT)
"""Keys outside the hash of a setting in which duplicate runs are equal too."""
Identity: TypeAlias = tuple[object, ...]


def open_interrupted(path: Path) -> run.Run:
    """Opens a run that was interrupted while it was trained or evaluated.

    Raises:
        RunError: If it has ended, was interrupted before its first checkpoint, or its pretrained encoder has changed.
    """
    interrupted = run.load(path)
    path = interrupted.path
    again = f"to train with its settings from the start: {_train_from(interrupted)}"
    if (path / run.RESULT_FILE).exists():
        status = interrupted.result.get("status")
        raise RunError(Fault("resume", "conflict", f"{path} has ended ({status}), nothing is left to resume; {again}"))
    if not interrupted.last_checkpoint.is_file():
        raise RunError(Fault("resume", "missing", f"{path} has no checkpoint to resume from; {again}"))
    require_encoder(interrupted, interrupted.settings)
    return interrupted


def advice(interrupted: run.Run | None) -> str:
    """Returns what to type after an interruption of a run, or before there is one."""
    if interrupted is None or not interrupted.last_checkpoint.is_file():
        return "nothing was trained yet: type the same command again."
    typed = f"resume={shlex.quote(str(interrupted.path))}{needed_trust(interrupted.settings)}"
    return f"continue with: python -m sentattn.train {typed}"


def _train_from(saved: run.Run) -> str:
    """Returns the command that trains with the settings of a run from the start."""
    return f"python -m sentattn.train from={shlex.quote(str(saved.path))}{needed_trust(saved.settings)}"


def require_encoder(saved: run.Run, settings: Node) -> None:
    """Refuses to train with the settings of a run on a pretrained encoder whose files have changed since.

    Raises:
        RunError: If they have, and `settings` have the same encoder as the run.
    """
    is_same_name = get_path(settings, ENCODER_KEY) == get_path(saved.settings, ENCODER_KEY)
    if is_same_name and (change := _encoder_change(saved, saved.settings)):
        encoder = shlex.quote(str(get_path(settings, ENCODER_KEY)))
        message = (
            f"{saved.path} began with other files of the pretrained encoder: {change}. Restore them, or train on those "
            f"of now from the start: {_train_from(saved)} {ENCODER_KEY}={encoder}"
        )
        raise RunError(Fault(ENCODER_KEY, "conflict", message))


def _encoder_change(saved: run.Run, settings: Node) -> str:
    """Returns which hash a run's encoder had and has now; empty where that is the same, or cannot be known."""
    from sentattn.training.recorder import read_identity

    if (name := get_path(settings, ENCODER_KEY)) is None:
        return ""
    with suppress(UserError):  # which the training raises
        is_over = (saved.path / run.RESULT_FILE).exists()
        before = saved.result.get("encoder") if is_over else read_identity(saved.last_checkpoint)["encoder"]
        now = content_hash(find_folder(get_path(settings, TOKENIZER_KEY), key=ENCODER_KEY))  # with its revision
        return "" if before in (None, now) else f"{ENCODER_KEY}={name} had the hash {before}, and has {now} now"
    return ""


def require_same(interrupted: run.Run, current: Mapping[str, str | None]) -> None:
    """Refuses to resume a run with other rows, vectors or settings than its checkpoint says that it began with.

    Raises:
        RunError: If they differ, or the checkpoint cannot be read.
    """
    from sentattn.training.recorder import read_identity

    before = read_identity(interrupted.last_checkpoint)
    for name, key, cause in (
        ("data_fingerprint", "data", "its data was"),
        ("setting", "resume", "its config.yaml, vectors or tokenizer, a class of your own, or sentattn itself, was"),
    ):
        if before[name] != current[name]:
            message = (
                f"{interrupted.path} began with another {name} ({before[name]}) than it has now ({current[name]}): "
                f"{cause} changed. Restore it, or train from the start: {_train_from(interrupted)}"
            )
            raise RunError(Fault(key, "conflict", message))


def find_interrupted(settings: Node, *, has_checkpoint: bool = True) -> Path | None:
    """Returns the newest interrupted run of these settings that no living process trains, or None.

    It has no result, and a checkpoint or, on request, none yet. Nobody resumes a run that may not be written.
    """
    for path in _without_result(settings):
        is_idle = not run.is_locked(path) and os.access(path, os.W_OK)
        if is_idle and run.Run(path).last_checkpoint.is_file() is has_checkpoint:
            return path
    return None


def find_running(settings: Node) -> Path | None:
    """Returns a run of these settings that a living process trains, or None."""
    return next(filter(run.is_locked, _without_result(settings)), None)


def _without_result(settings: Node) -> list[Path]:
    """Returns the runs of these settings that have not ended, the newest first."""
    return [path for path in _runs_of(settings) if not (path / run.RESULT_FILE).exists()]


def find_finished(settings: Node) -> Path | None:
    """Returns the newest finished run of these settings on the current rows and pretrained encoder, or None.

    A run on others is reported and skipped. Rows are not compared where the data cannot be read.
    """
    for saved_run in map(run.Run, _runs_of(settings)):
        result, data = {}, settings["data"]
        with suppress(RunError):
            result = saved_run.result
        if (result.get("status"), result.get("seed")) != ("finished", settings["seed"]):
            continue
        before = result.get("data_fingerprint")
        drawn_with = settings["seed"] if data.get("folds") else 0
        now = _fingerprint(json.dumps(data, sort_keys=True), drawn_with) if before else ""
        is_other = now and before != now
        other = f"data_fingerprint {before}, now {now}" if is_other else _encoder_change(saved_run, settings)
        if not other:
            return saved_run.path
        message = f"it was trained on other data or another encoder ({other}) and does not count as finished."
        print(f"warning: {saved_run.path}: {message}", file=sys.stderr)
    return None


@cache
def _fingerprint(data: str, seed: int) -> str:
    """Returns the hash of the rows that data settings (JSON) select with a seed; empty where they cannot be read.

    It does not depend on vectors.
    """
    from sentattn import build

    try:
        with Progress() as progress:
            module = build.build_data({"data": json.loads(data) | {"vectors": None}, "seed": seed})
            module.prepare(progress)
    except UserError as error:
        print(f"warning: the rows of finished runs cannot be compared: {error}", file=sys.stderr)
        return ""
    return module.fingerprint


def _runs_of(settings: Node) -> list[Path]:
    """Returns the runs in the output folder of settings that have the same identity, the newest first."""
    folder, own = run.new_directory(settings).parent, identity(settings)
    paths = sorted((file.parent for file in folder.glob(f"*/{run.CONFIG_FILE}")), reverse=True)  # begin with time
    return [path for path in paths if _identity(path) == own]


@cache
def _identity(path: Path) -> Identity | None:
    """Returns the identity of a run's settings, which do not change; None where they are damaged."""
    try:
        return identity(run.Run(path).settings)
    except (RunError, AttributeError, KeyError, TypeError):
        return None


def identity(settings: Node) -> Identity:
    """Returns the key of duplicate runs: hash of the setting, seed, test, fold, vectors."""
    trainer = resolve_precision(settings["trainer"])
    return setting_hash({**settings, "trainer": trainer}), *(get_path(settings, key) for key in SAME)
