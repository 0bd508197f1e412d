"""Weights & Biases beside the run's own record, which never depends on it."""

from __future__ import annotations

import netrc
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities import rank_zero_only

from sentattn.kinds import checked

if TYPE_CHECKING:
    import wandb

INIT_SECONDS = 15.0
FINISH_SECONDS = 60.0


class WandbMirror(Logger):
    """Mirrors a run to Weights & Biases; a fault there costs the mirror, never the training.

    Online where a key is configured, else offline at once: nothing is asked and nothing waited for.
    Curves have the epoch as their axis; the summary holds the figures of the best epoch.

    Args:
        project: W&B project.
        entity: W&B user or team; None for the account's own.
        mode: `auto`, `online` or `offline`; the environment's `WANDB_MODE` counts before `auto`.
        directory: The run directory; W&B's files go to `wandb/` in it.
        run_id: The run's id, here and there.
        settings: The resolved settings.
        setting: Hash of the settings without the seed; runs that differ in their seed alone share a group.

    Raises:
        SettingError: If an argument is out of range.
    """

    @checked
    def __init__(
        self,
        *,
        project: str = "sentattn",
        entity: str | None = None,
        mode: Literal["auto", "online", "offline"] = "auto",
        directory: Path,
        run_id: str,
        settings: Mapping[str, Any],
        setting: str,
    ) -> None:
        super().__init__()
        self.directory = directory
        self._arguments: dict[str, Any] = {
            "project": project,
            "entity": entity,
            "dir": str(directory),
            "id": run_id,
            "name": f"{settings['model']['name']}-{settings['data']['name']}-{run_id}",
            "group": settings["group"] or f"{settings['data']['name']}-{settings['model']['name']}-{setting}",
            "tags": [settings["model"]["name"], settings["data"]["name"], *settings["tags"]],
            "job_type": "train",
            "config": {**settings, "setting": setting},
        }
        self._mode = mode
        self._run: wandb.Run | None = None
        self._broken = False

    @property
    def name(self) -> str:
        return str(self._arguments["project"])

    @property
    def version(self) -> str:
        return str(self._arguments["id"])

    @rank_zero_only
    def start(self) -> str:
        """Opens the run and returns one sentence that says where it is."""
        self._attempt(self._open)
        if self._run is None:
            return ""
        if self._run.offline:
            return f"W&B: offline, in {self._run_directory()}; upload it later with: wandb sync {self._run_directory()}"
        return f"W&B: {self._run.url}"

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing: the resolved settings are given when the run is opened."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Logs a row of an epoch."""
        row = dict(metrics)
        if "epoch" in row:
            row["epoch"] = int(row["epoch"]) + 1
        self._attempt(lambda: self._log(row))

    @rank_zero_only
    def finish(self, summary: Mapping[str, Any], *, failed: bool = False) -> None:
        """Writes the summary and closes the run, waiting for an upload no longer than a minute."""
        self._attempt(lambda: self._close(summary, failed))

    def _open(self) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        mode = self._mode if self._mode != "auto" else os.environ.get("WANDB_MODE") or _configured_mode()
        try:
            self._run = wandb.init(mode=mode, settings=self._quiet(), **self._arguments)  # type: ignore[arg-type]
        except Exception as error:
            if mode == "offline":
                raise
            print(f"W&B: the server did not take the run ({_first_line(error)}); it is kept offline instead.")
            wandb.teardown()  # the service holds the run's id still
            self._run = wandb.init(mode="offline", settings=self._quiet(), **self._arguments)
        self._run.define_metric("epoch")
        for stage in ("train", "val"):
            self._run.define_metric(f"{stage}/*", step_metric="epoch")

    def _quiet(self) -> wandb.Settings:
        import wandb

        return wandb.Settings(silent=True, init_timeout=INIT_SECONDS, console="off", x_disable_meta=False)

    def _log(self, row: dict[str, float]) -> None:
        if self._run is not None:
            self._run.log(row)

    def _close(self, summary: Mapping[str, Any], failed: bool) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        run.summary.update(dict(summary))
        closing = threading.Thread(target=run.finish, kwargs={"exit_code": int(failed)}, daemon=True)
        closing.start()
        closing.join(FINISH_SECONDS)
        if closing.is_alive():
            raise TimeoutError(f"the upload was not done after {FINISH_SECONDS:.0f} s")

    def _attempt(self, action: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            action()
        except Exception as error:
            self._broken, self._run = True, None
            print(f"W&B: {_first_line(error)}; the run goes on without it, its own record is in {self.directory}.")

    def _run_directory(self) -> Path:
        assert self._run is not None
        path = Path(self._run.dir).parent
        return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _configured_mode() -> Literal["online", "offline"]:
    """Returns `online` where an API key is configured, without asking for one."""
    import wandb

    settings = wandb.setup().settings
    if settings.api_key or os.environ.get("WANDB_API_KEY"):
        return "online"
    try:
        known = netrc.netrc(os.environ.get("NETRC")).authenticators(urlsplit(str(settings.base_url)).netloc)
    except (OSError, netrc.NetrcParseError):
        known = None
    return "online" if known else "offline"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")


def wandb_logger(
    *,
    project: str = "sentattn",
    entity: str | None = None,
    mode: Literal["auto", "online", "offline"] = "auto",
    **filled: Any,
) -> WandbMirror:
    """Returns the mirror; see `WandbMirror`."""
    return WandbMirror(project=project, entity=entity, mode=mode, **filled)


def no_logger(**filled: Any) -> None:
    """Returns no logger: the run directory alone is the record."""
