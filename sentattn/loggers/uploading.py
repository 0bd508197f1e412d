"""Uploads of W&B's files, by W&B's own `wandb sync`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sentattn import run as record
from sentattn.errors import RunError
from sentattn.loggers import wandb_service

ANSWER_SECONDS = 10.0
STUDY = "study.db"
"""A study's folder has this file in the place of a run's settings."""
SENT = ".synced"
"""W&B's own ending of the file that it puts beside one that it has uploaded."""

_ADDRESS = re.compile(r"https?://\S+/runs/\S+")
_SAID = re.compile(r"^(?:wandb:\s*)?(?:ERROR\s*)?(?:\[\S+\]\s*)?")


class Left(Exception):  # noqa: N818 - a run that stays where it is
    """A run that was not uploaded; says why."""


class Mirrored(NamedTuple):
    """A run that W&B keeps files of.

    Attributes:
        directory: The run directory.
        folder: W&B's newest folder in it; those before an interruption are in it as well.
        host: The server that it was trained for; None for that of the environment.
    """

    directory: Path
    folder: Path
    host: str | None

    @property
    def log(self) -> Path | None:
        """The file with all that was logged, or None where it is missing."""
        return next(self.folder.glob("run-*.wandb"), None)


def found(folders: Iterable[Path]) -> list[Mirrored]:
    """Returns the runs in folders that W&B keeps files of, each once."""
    names = (record.CONFIG, STUDY)
    there = sorted(path.parent for folder in folders for name in names for path in folder.rglob(name))
    directories = [one for one in {one.resolve(): one for one in there}.values() if (one / "wandb").is_dir()]
    return [Mirrored(one, newest, _host(one)) for one in directories if (newest := _newest(one / "wandb"))]


def upload(run: Mirrored, *, minutes: float) -> str:
    """Uploads a run, unless it is there already.

    Args:
        run: The run.
        minutes: Longest time for it.

    Returns:
        What became of it, in words.

    Raises:
        Left: With the reason why it was not uploaded.
    """
    if run.log is None:
        raise Left(f"{run.folder} holds no file of W&B's")
    sent = run.log.with_name(run.log.name + SENT)
    if sent.is_file() or (not run.folder.name.startswith("offline-") and not _is_unsent(run.folder)):
        return "uploaded before"
    if wandb_service.mode(run.host) == "offline":
        raise Left("no key is configured; `wandb login` asks for one and stores it")
    environment = _environment(run)
    _require_answer(environment)
    said = _synced(run.folder, environment, minutes)
    if not sent.is_file():
        raise Left(_reason(said))
    wandb_service.mark_sent(run.folder)
    address = _ADDRESS.findall(said)
    return f"uploaded to {address[-1]}" if address else "uploaded"


def _newest(folder: Path) -> Path | None:
    """Returns W&B's folder of the last time that the run was trained on; their names begin with the time."""
    runs = [path for path in folder.glob("*run-*-*") if path.is_dir() and not path.is_symlink()]
    return max(runs, key=lambda path: path.name.removeprefix("offline-"), default=None)


def _is_unsent(folder: Path) -> bool:
    return (folder / wandb_service.UNSENT).is_file()


def _host(directory: Path) -> str | None:
    if (directory / STUDY).is_file():  # a study is mirrored where its trials are
        directory = next((path.parent for path in directory.glob(f"trials/*/{record.CONFIG}")), directory)
    try:
        logger: Any = record.Run(directory).settings.get("logger")
    except RunError:
        return None
    host = logger.get("host") if isinstance(logger, Mapping) else None
    return str(host) if host else None


def _environment(run: Mirrored) -> dict[str, str]:
    import wandb

    address = run.host or os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)
    own = {"WANDB_BASE_URL": address, "WANDB_ERROR_REPORTING": "false", "WANDB_MODE": "online"}
    own["WANDB_DIR"] = str(run.directory)  # it keeps a diary, which otherwise lies where one happens to be
    # A child would otherwise share W&B's process of this program, and tell nothing.
    return {name: value for name, value in os.environ.items() if name not in ("WANDB_SILENT", "WANDB_SERVICE")} | own


def _require_answer(environment: Mapping[str, str]) -> None:
    """Raises `Left` where the server does not answer at all: W&B would try again for days."""
    address = environment["WANDB_BASE_URL"]
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS):  # noqa: S310 - an address of the user's own
            pass
    except urllib.error.HTTPError:
        return  # an answer, if an unkind one
    except (OSError, ValueError) as error:
        raise Left(f"the server {address} does not answer ({error})") from error


def _synced(folder: Path, environment: Mapping[str, str], minutes: float) -> str:
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", str(folder)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60 * minutes)
    except subprocess.TimeoutExpired as error:
        raise Left(f"it was not done after {minutes:g} minutes; minutes= gives it more") from error
    return f"{done.stdout}\n{done.stderr}"


def _reason(said: str) -> str:
    """Returns the fault that W&B told, or else the last thing it said."""
    lines = [line for line in said.splitlines() if line.strip()]
    told = [line for line in lines if "ERROR" in line or "Error" in line] or lines[-1:] or ["W&B did not say why"]
    return _SAID.sub("", told[0]).rstrip(".") or "W&B did not say why"
