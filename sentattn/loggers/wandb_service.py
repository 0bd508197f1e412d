"""W&B's key, its own process and its files: what a mirror and `sync` need to know of them."""

from __future__ import annotations

import netrc
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from sentattn.loggers.wandb_log import cut_after_end

if TYPE_CHECKING:
    import wandb

UNSENT = "unsent"
"""A file in the folder of an online run that was not sent to its end."""

TEARDOWN_SECONDS = 5.0

ROOM = 1 << 16
"""Bytes that have to fit onto the disk: more than the figures of an epoch take."""


def mode(host: str | None) -> Literal["online", "offline"]:
    """Returns `online` where an API key is configured, without asking for one.

    Args:
        host: Address of W&B's server; None is `WANDB_BASE_URL` or W&B's own.
    """
    import wandb

    settings = wandb.setup().settings
    if settings.api_key or os.environ.get("WANDB_API_KEY"):
        return "online"
    address = host or os.environ.get("WANDB_BASE_URL") or str(settings.base_url)
    try:
        known = netrc.netrc(os.environ.get("NETRC")).authenticators(urlsplit(address).netloc)
    except (OSError, netrc.NetrcParseError):
        known = None
    return "online" if known else "offline"


def finish(run: wandb.Run, *, exit_code: int, seconds: float) -> bool:
    """Closes a run.

    Args:
        run: The run.
        exit_code: 0 for a training that came to a good end.
        seconds: Longest time that its upload is waited for; then W&B's process is given up.

    Returns:
        Whether it was closed in time. What W&B raises is raised.
    """
    faults: list[Exception] = []

    def close() -> None:
        try:
            run.finish(exit_code=exit_code)
        except Exception as error:
            faults.append(error)

    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(seconds)
    if closing.is_alive():
        abandon()
        with suppress(Exception):  # a log that is not as it should be is not worth a fault of its own
            cut_after_end(Path(run.dir).parent / f"run-{run.id}.wandb")
        return False
    if faults:
        raise faults[0]
    return True


def abandon() -> None:
    """Ends W&B's process with what it has not sent: left alone, it would keep the program from ending until it has.

    It writes what it holds to the disk, unless it does not answer.
    """
    import wandb

    connection = getattr(wandb.setup(), "_connection", None)
    process = getattr(getattr(connection, "_proc", None), "_process", None)

    def teardown() -> None:
        with suppress(Exception, SystemExit):  # it ends the program where its process came to a bad end
            wandb.teardown()

    ending = threading.Thread(target=teardown, daemon=True)
    ending.start()
    ending.join(TEARDOWN_SECONDS)
    if ending.is_alive() and process is not None:  # wandb before 0.30 waits for the server here too
        process.kill()
        ending.join(TEARDOWN_SECONDS)


def require_room(folder: Path) -> None:
    """Raises `OSError` where a folder's disk is full."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(os.urandom(ROOM))


def mark_unsent(folder: Path) -> None:
    """Says of an online run that it is not sent to its end, for the case that it never is."""
    (folder / UNSENT).touch()


def mark_sent(folder: Path) -> None:
    """Takes `mark_unsent` back."""
    (folder / UNSENT).unlink(missing_ok=True)


def pictures(folder: Path, run_id: str, prefix: str, epoch: int) -> dict[str, Path]:
    """Returns the pictures of an epoch that an interrupted run left behind, by their names in W&B.

    Args:
        folder: The folder `wandb/` of the run directory.
        run_id: The run's id.
        prefix: What their names begin with, such as `attention/`.
        epoch: The epoch, which was W&B's step.
    """
    found = {}
    for path in sorted(folder.glob(f"*run-*-{run_id}/files/media/images/{prefix}*.png")):
        name, step, _ = path.stem.rsplit("_", 2)
        if max(1, int(step)) == epoch:  # W&B names files by the step before `log`, which is 0 only at the start
            found[f"{prefix}{name}"] = path
    return found
