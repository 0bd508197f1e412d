"""Uploads of runs that W&B's server does not have, by W&B's own `wandb sync`."""

from __future__ import annotations

import netrc
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sentattn import run as record
from sentattn.errors import Fault, RunError

ANSWER_SECONDS = 10.0
STUDY = "study.db"
"""The folder of a study has this file instead of a run's settings."""

_ADDRESS = re.compile(r"https?://\S+/runs/\S+")
_PREFIX = re.compile(r"^(?:wandb:\s*)?(?:ERROR\s*)?(?:\[[^\]]*\]\s*)?")


class LocalRun(NamedTuple):
    """A run of which W&B keeps files in its directory.

    Attributes:
        directory: The run directory.
        folder: W&B's newest folder in it, which has the whole run; those before an interruption are next to it.
        host: The server that the run was trained for; None for that of the environment.
    """

    directory: Path
    folder: Path
    host: str | None


def marker(folder: Path) -> Path:
    """Returns the file that marks a folder of an online run as not uploaded to its end."""
    return folder / "unsent"


def has_key(host: str | None) -> bool:
    """Returns whether an API key is configured for a server, without asking for one.

    `WANDB_API_KEY` is for the server of `WANDB_BASE_URL` or W&B's own: a run from somebody else may name another.

    Args:
        host: Address of W&B's server; None is `WANDB_BASE_URL` or W&B's own.
    """
    import wandb

    is_configured = host is None or urlsplit(host).netloc == urlsplit(_address(None)).netloc
    if is_configured and (os.environ.get("WANDB_API_KEY") or wandb.setup().settings.api_key):
        return True
    try:
        logins = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return False
    return logins.authenticators(urlsplit(_address(host)).netloc) is not None


def find_runs(folders: Iterable[Path]) -> list[LocalRun]:
    """Returns the runs in folders of which W&B keeps files, each once."""
    paths = sorted(path.parent for folder in folders for name in (record.CONFIG, STUDY) for path in folder.rglob(name))
    unique = {path.resolve(): path for path in paths}.values()
    return [LocalRun(path, folder, _host(path)) for path in unique if (folder := _newest_folder(path / "wandb"))]


def upload(run: LocalRun, *, minutes: float) -> str:
    """Uploads what the server does not have of a run.

    Args:
        run: The run.
        minutes: Longest time for it.

    Returns:
        The outcome in words, such as the run's address.

    Raises:
        RunError: With the reason as the message of a fault.
    """
    if not any(run.folder.glob("run-*.wandb")):
        raise _not_uploaded("not_found", f"{run.folder} has no file of W&B's")
    if _is_synced(run.folder) or not (run.folder.name.startswith("offline-") or marker(run.folder).is_file()):
        return "uploaded before"
    if not has_key(run.host):
        option = f" --host={run.host}" if run.host else ""
        reason = f"no key is configured for its server; `wandb login{option}` asks for one and stores it"
        raise _not_uploaded("missing", reason)
    environment = _environment(run)
    if error := find_connection_error(environment["WANDB_BASE_URL"]):  # W&B would try again for days
        raise _not_uploaded("network", f"the server {environment['WANDB_BASE_URL']} does not answer ({error})")
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", str(run.folder)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60 * minutes)
    except subprocess.TimeoutExpired:
        raise _not_uploaded("network", f"it did not end within {minutes:g} minutes; minutes= allows more") from None
    output = f"{done.stdout}\n{done.stderr}"
    if not _is_synced(run.folder):
        raise _not_uploaded("failed", _reason(output))
    marker(run.folder).unlink(missing_ok=True)
    address = _ADDRESS.findall(output)
    return f"uploaded to {address[-1]}" if address else "uploaded"


def _not_uploaded(kind: str, reason: str) -> RunError:
    return RunError(Fault("", kind, reason))


def _is_synced(folder: Path) -> bool:
    """Returns whether W&B has put its mark next to the file that it has uploaded."""
    return any(folder.glob("run-*.wandb.synced"))


def _newest_folder(folder: Path) -> Path | None:
    """Returns W&B's folder of the last time that the run was trained; their names begin with the time."""
    folders = [path for path in folder.glob("*run-*-*") if path.is_dir()]
    return max(folders, key=lambda path: path.name.removeprefix("offline-"), default=None)


def _host(directory: Path) -> str | None:
    """Returns the address of the server in a run's settings; a study is logged where its trials are."""
    if (directory / STUDY).is_file():
        directory = next((path.parent for path in directory.glob(f"trials/*/{record.CONFIG}")), directory)
    try:
        logger: Any = record.Run(directory).settings.get("logger")
    except RunError:
        return None
    host = logger.get("host") if isinstance(logger, Mapping) else None
    return str(host) if host else None


def _address(host: str | None) -> str:
    import wandb

    return host or os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


def _environment(run: LocalRun) -> dict[str, str]:
    environment = dict(os.environ)
    for name in ("WANDB_SILENT", "WANDB_SERVICE"):  # these would join W&B's process of this program, and print nothing
        environment.pop(name, None)
    environment |= {"WANDB_BASE_URL": _address(run.host), "WANDB_ERROR_REPORTING": "false", "WANDB_MODE": "online"}
    environment["WANDB_DIR"] = str(run.directory)  # for W&B's log, which otherwise goes to the working folder
    return environment


@cache
def find_connection_error(address: str) -> str:
    """Returns why a server does not answer at all, or an empty string; each server is asked once."""
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS):  # noqa: S310 - an address of the user's own
            return ""
    except urllib.error.HTTPError:
        return ""  # an answer
    except (OSError, ValueError) as error:
        return str(error)


def _reason(output: str) -> str:
    """Returns the error that W&B printed, or else the last thing it printed."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "Error" in line] or lines[-1:]
    return _PREFIX.sub("", errors[0]).rstrip(".") if errors else "W&B did not say why"
