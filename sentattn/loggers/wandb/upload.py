"""W&B's server: its address and key, and the upload of runs that were logged offline, by `wandb sync`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from functools import cache
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit

from sentattn.config.groups import nodes
from sentattn.config.targets import TARGET_KEY
from sentattn.config.types import Node
from sentattn.console import plural
from sentattn.errors import Fault, RunError, first_line
from sentattn.run import CONFIG_FILE, Run

LOGGER = "sentattn.loggers.wandb_logger"
"""`_target_` of the logger to W&B."""
OWN_NAMES = ("api.forge.coreweave.com", "api.wandb.ai")
"""Names of W&B's own server, the newest first."""
ANSWER_SECONDS = 10.0
HOUR = 3600.0  # the longest time for one run
# With these variables `wandb sync` would use this program's W&B process, and print nothing.
JOINED = ("WANDB_SILENT", "WANDB_SERVICE")


def wandb_settings(settings: Node) -> Node:
    """Returns the settings of a run's logger to W&B; none if it has no such logger."""
    loggers = (node for node in nodes(settings, "logger").values() if isinstance(node, Mapping))
    return next((node for node in loggers if node.get(TARGET_KEY) == LOGGER), {})


class LocalRun(NamedTuple):
    """A run directory, W&B's newest file in it, which has the whole run, and its server; None for the default."""

    directory: Path
    file: Path
    host: str | None

    @property
    def run_id(self) -> str:
        """W&B's name of the run."""
        return self.file.stem.removeprefix("run-")

    @property
    def is_uploaded(self) -> bool:
        """Whether it was logged online, or `wandb sync` has marked it as uploaded."""
        is_offline = self.file.parent.name.startswith("offline-")
        return not is_offline or self.file.with_suffix(".wandb.synced").exists()


def find_runs(folders: Iterable[Path]) -> list[LocalRun]:
    """Returns the runs and studies in folders that have a file of W&B's, each once."""
    newest: dict[Path, Path] = {}
    files = [file for folder in folders for file in folder.rglob("wandb/*run-*-*/run-*.wandb")]
    # The names of W&B's folders begin with the time at which the run was trained.
    for file in sorted(files, key=lambda file: file.parent.name.removeprefix("offline-")):
        newest[file.parents[2].resolve()] = file
    return [LocalRun(file.parents[2], file, _host(file.parents[2])) for _, file in sorted(newest.items())]


def upload(runs: Sequence[LocalRun]) -> str:
    """Uploads the runs that their servers do not have, each by `wandb sync`, which prints what it does.

    Returns how many were uploaded, in words.

    Raises:
        RunError: With the runs that were not uploaded, after the others were.
    """
    waiting = [run for run in runs if not run.is_uploaded]
    failed: dict[Fault, list[str]] = {}
    for run in waiting:
        try:
            _sync(run)
        except RunError as error:
            failed.setdefault(error.faults[0], []).append(str(run.directory))
    if failed:
        raise RunError(
            *(
                Fault(paths[0], fault.kind, f"not uploaded: {', '.join(paths)}: {fault}.")
                for fault, paths in failed.items()
            )
        )
    return f"{plural(len(runs), 'run')} uploaded, {len(runs) - len(waiting)} of these before"


def _sync(run: LocalRun) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in JOINED}
    # The folder is for W&B's log, which otherwise goes to the working folder.
    variables |= _variables(run.host) | {"WANDB_DIR": str(run.directory)}
    command = [sys.executable, "-m", "wandb", "sync", str(run.file)]
    try:
        subprocess.run(command, env=variables, timeout=HOUR, check=False)
    except subprocess.TimeoutExpired:
        raise RunError(Fault("", "network", "it did not end within an hour")) from None
    if not run.is_uploaded:
        raise RunError(Fault("", "failed", "`wandb sync` has printed why"))


@contextmanager
def server(host: str | None) -> Iterator[None]:
    """Sets the server of W&B's packages by variables, since not all take an address and a key, and silences them.

    Raises:
        RunError: Without a key, and if the server does not answer, refuses something or breaks off.
    """
    import wandb

    variables = _variables(host)
    try:
        with patch.dict(os.environ, variables), redirect_stderr(io.StringIO()):
            yield
    except (wandb.Error, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise RunError(Fault("", "failed", f"the server did not accept it: {first_line(error)}")) from error


def _variables(host: str | None) -> dict[str, str]:
    """Returns the variables that name a server and its key; a `RunError` without a key, and if it does not answer."""
    import wandb

    address = _address(host)
    try:
        key = api_key(host)
    except wandb.Error as error:
        raise RunError(Fault("", "type", first_line(error))) from error
    if key is None:
        login = f"wandb login --host={host}" if host else "wandb login"
        message = f"no key is configured for its server; `{login}` asks for one and stores it"
        raise RunError(Fault("", "missing", message))
    if reason := find_connection_error(address):  # W&B would retry for days
        raise RunError(Fault("", "network", f"the server {address} does not answer ({reason})"))
    return {"WANDB_BASE_URL": address, "WANDB_API_KEY": key, "WANDB_MODE": "online", "WANDB_ERROR_REPORTING": "false"}


def api_key(host: str | None) -> str | None:
    """Returns the API key configured for a server, by default that of `WANDB_BASE_URL` or W&B's own; None without one.

    `WANDB_API_KEY` is for the default server alone, as a run of another person may name another server.
    """
    import wandb

    names, default = _names(host), _names(None)
    key = (os.environ.get("WANDB_API_KEY") or wandb.setup().settings.api_key) if names == default else None
    with suppress(OSError, NetrcParseError):  # there is no file, or it is none of passwords
        logins = netrc(os.path.expanduser(os.environ.get("NETRC", "~/.netrc")))
        key = key or next((login[2] for name in names if (login := logins.authenticators(name))), None)
    return key or None


def _names(host: str | None) -> tuple[str, ...]:
    """Returns the names of a server, of which W&B's own has two: wandb 0.31 has another one than 0.30."""
    name = urlsplit(_address(host)).netloc
    return OWN_NAMES if name in OWN_NAMES else (name,)


def _address(host: str | None) -> str:
    import wandb

    return host or os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


def _host(directory: Path) -> str | None:
    """Returns the address of the server in a run's settings, and for a study in those of a trial."""
    configs = (directory / CONFIG_FILE, *directory.glob(f"trials/*/{CONFIG_FILE}"))
    directory = next((path.parent for path in configs if path.is_file()), directory)
    with suppress(RunError):
        host: str | None = wandb_settings(Run(directory).settings).get("host")
        return host
    return None


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
