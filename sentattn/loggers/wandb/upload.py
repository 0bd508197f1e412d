"""Uploads to W&B's server: runs that are missing or incomplete there, and values for the summary of a run.

Runs are uploaded by `wandb sync`.
"""

from __future__ import annotations

import io
import json
import netrc
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sentattn.config.groups import nodes
from sentattn.config.targets import TARGET
from sentattn.config.types import Node
from sentattn.errors import Fault, RunError, first_line
from sentattn.run import CONFIG, Run, write_atomically

LOGGER = "sentattn.loggers.wandb_logger"
"""`_target_` of the logger to W&B."""
ANSWER_SECONDS = 10.0
MINUTES = 10.0  # for one run
STUDY = "study.journal"  # instead of a run's settings in the folder of a study
UNSENT = "unsent"  # in W&B's folder of an online run that was not uploaded to its end
SENT = "sent.json"  # the values that `add_to_summary` has uploaded, next to W&B's folders
# With these variables an upload would use this program's W&B process, and print nothing.
JOINED = ("WANDB_SILENT", "WANDB_SERVICE")
_ADDRESS = re.compile(r"https?://\S+/runs/\S+")
_PREFIX = re.compile(r"^(?:wandb:\s*)?(?:ERROR\s*)?(?:\[[^\]]*\]\s*)?")


def wandb_settings(settings: Node) -> Node:
    """Returns the settings of a run's logger to W&B; none if it has no such logger."""
    loggers = (node for node in nodes(settings, "logger").values() if isinstance(node, Mapping))
    return next((node for node in loggers if node.get(TARGET) == LOGGER), {})


class LocalRun(NamedTuple):
    """A run directory, W&B's newest folder in it, which has the whole run, and its server; None for the default."""

    directory: Path
    folder: Path
    host: str | None

    @property
    def run_id(self) -> str:
        """W&B's name of the run."""
        return next(self.folder.glob("run-*.wandb")).stem.removeprefix("run-")


def api_key(host: str | None) -> str | None:
    """Returns the API key configured for a server, by default that of `WANDB_BASE_URL` or W&B's own; None without one.

    `WANDB_API_KEY` is for the default server alone, as a run of another person may name another server.
    """
    import wandb

    server = urlsplit(_address(host)).netloc
    if server == urlsplit(_address(None)).netloc:
        key: str | None = os.environ.get("WANDB_API_KEY") or wandb.setup().settings.api_key
        if key:
            return key
    try:
        login = netrc.netrc(os.environ.get("NETRC")).authenticators(server)
    except (OSError, netrc.NetrcParseError):
        return None
    return login[2] if login else None


def find_runs(folders: Iterable[Path]) -> list[LocalRun]:
    """Returns the runs in folders that have files of W&B, each once."""
    paths = sorted(path.parent for folder in folders for name in (CONFIG, STUDY) for path in folder.rglob(name))
    unique = {path.resolve(): path for path in paths}.values()
    runs = []
    for path in unique:
        # Their names begin with the time at which the run was trained.
        folders = [folder for folder in path.glob("wandb/*run-*-*") if folder.is_dir()]
        if newest := max(folders, key=lambda folder: folder.name.removeprefix("offline-"), default=None):
            runs.append(LocalRun(path, newest, _host(path)))
    return runs


def offline_reason(host: str | None) -> str:
    """Returns why nothing can be uploaded to a server, or an empty string."""
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        return f"WANDB_MODE is {os.environ['WANDB_MODE']}"
    try:
        reachable(host)
    except RunError as error:
        return error.faults[0].message
    return ""


def upload(run: LocalRun, *, minutes: float = MINUTES) -> str | None:
    """Uploads a run that the server does not have, or not completely; a `RunError` with the reason if it cannot.

    Returns the outcome in words, such as the run's address; None for a run that was uploaded before.
    """
    if not any(run.folder.glob("run-*.wandb")):
        raise _error("not_found", f"{run.folder} has no file of W&B's")
    if _is_synced(run.folder) or not (run.folder.name.startswith("offline-") or (run.folder / UNSENT).is_file()):
        return None
    environment = {name: value for name, value in os.environ.items() if name not in JOINED}
    environment |= _environment(run.host) | {"WANDB_MODE": "online"}
    environment["WANDB_DIR"] = str(run.directory)  # for W&B's log, which otherwise goes to the working folder
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", str(run.folder)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60 * minutes)
    except subprocess.TimeoutExpired:
        raise _error("network", f"it did not end within {minutes:g} minutes; minutes= allows more") from None
    output = f"{done.stdout}\n{done.stderr}"
    if not _is_synced(run.folder):  # the reason is the error that W&B printed, or else its last line
        lines = [line for line in output.splitlines() if line.strip()]
        errors = [line for line in lines if "ERROR" in line or "Error" in line] or lines[-1:]
        raise _error("failed", _PREFIX.sub("", errors[0]).rstrip(".") if errors else "W&B did not say why")
    (run.folder / UNSENT).unlink(missing_ok=True)
    addresses = _ADDRESS.findall(output)
    return f"uploaded to {addresses[-1]}" if addresses else "uploaded"


def add_to_summary(run: LocalRun, values: Mapping[str, float]) -> bool:
    """Adds values to the summary of an uploaded run, or raises a `RunError`; False where its server has them."""
    import wandb

    sent = run.folder.parent / SENT
    with suppress(OSError, ValueError):
        if json.loads(sent.read_text(encoding="utf-8")) == values:
            return False
    logger = wandb_settings(Run(run.directory).settings)
    names = [logger.get("entity"), logger.get("project"), run.run_id]
    with server(run.host):
        try:
            summary: Any = wandb.Api().run("/".join(name for name in names if name)).summary
            summary.update(dict(values))
        except api_errors() as error:
            raise _error("failed", first_line(error)) from error
    write_atomically(sent, json.dumps(dict(values)))
    return True


def reachable(host: str | None) -> str:
    """Returns the address of a server that answers and for which a key is configured; a `RunError` if it does not."""
    if api_key(host) is None:
        login = f"wandb login --host={host}" if host else "wandb login"
        raise _error("missing", f"no key is configured for its server; `{login}` asks for one and stores it")
    address = _address(host)
    if error := find_connection_error(address):  # W&B would retry for days
        raise _error("network", f"the server {address} does not answer ({error})")
    return address


def api_errors() -> tuple[type[Exception], ...]:
    """Returns the errors that W&B's API raises for a refusal, a broken connection or an unexpected answer."""
    import wandb

    return wandb.Error, OSError, ValueError, TypeError, LookupError, AttributeError


@contextmanager
def server(host: str | None) -> Iterator[None]:
    """Sets the server of W&B's packages by variables, since not all take an address and a key, and silences them."""
    wanted = _environment(host)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _environment(host: str | None) -> dict[str, str]:
    """Returns the variables that name a server, which answers, and its key."""
    address = reachable(host)
    return {"WANDB_BASE_URL": address, "WANDB_API_KEY": str(api_key(host)), "WANDB_ERROR_REPORTING": "false"}


def _error(kind: str, reason: str) -> RunError:
    return RunError(Fault("", kind, reason))


def _is_synced(folder: Path) -> bool:
    return any(folder.glob("run-*.wandb.synced"))  # W&B's mark next to the file that it has uploaded


def _host(directory: Path) -> str | None:
    """Returns the address of the server in a run's settings, and for a study in those of a trial."""
    if (directory / STUDY).is_file():
        directory = next((path.parent for path in directory.glob(f"trials/*/{CONFIG}")), directory)
    with suppress(RunError):
        host: str | None = wandb_settings(Run(directory).settings).get("host")
        return host
    return None


def _address(host: str | None) -> str:
    import wandb

    return host or os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


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
