"""Weights & Biases beside the run's own record."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pytorch_lightning.utilities import rank_zero_only

from sentattn.config.types import Whole, checked
from sentattn.errors import SettingError
from sentattn.loggers import wandb_service
from sentattn.loggers.mirror import Mirror, Row, first_line

if TYPE_CHECKING:
    import wandb

INIT_SECONDS = 15.0
FINISH_SECONDS = 60.0
PICTURES = "attention"
"""Pictures have keys such as `attention/row_17`."""


class WandbMirror(Mirror):
    """Mirrors a run to Weights & Biases.

    Online where a key is configured, else offline at once: nothing is asked and nothing waited for.
    W&B's step is the epoch, so a row there is an epoch; the summary holds the figures of the best epoch. A resumed run
    goes on under its id. Offline that is another folder under `wandb/`, into which the epochs before the interruption
    are written again: uploads of one id replace one another, so the last one has to be whole.

    Args:
        project: W&B project.
        entity: W&B user or team; None for the account's own.
        mode: `auto`, `online` or `offline`; the environment's `WANDB_MODE` counts before `auto`.
        host: Address of W&B's server; None is `WANDB_BASE_URL` or W&B's own.
        job_type: What the run is in W&B's tables.
        examples: Validation rows whose attention is drawn after each epoch.
        texts: Texts whose attention is drawn after each epoch.
        table: Validation rows in the table of predictions.
        directory: The run directory; W&B's files go to `wandb/` in it.
        run_id: The run's id, here and there.
        settings: The resolved settings.
        setting: Hash of the settings without the seed; runs that differ in their seed alone share a group.
        resumed: Whether the run goes on after an interruption.
        study: The study that the run is a trial of. Its directory is then named by the trial's number, which is no id
            among all runs of a project.

    Raises:
        SettingError: If an argument is out of range.
    """

    title: ClassVar[str] = "W&B"

    @checked
    def __init__(
        self,
        *,
        project: str = "sentattn",
        entity: str | None = None,
        mode: Literal["auto", "online", "offline"] = "auto",
        host: str | None = None,
        job_type: str = "train",
        examples: Whole = 4,
        texts: list[str] | None = None,
        table: Whole = 100,
        directory: Path,
        run_id: str,
        settings: Mapping[str, Any],
        setting: str,
        resumed: bool = False,
        study: str | None = None,
    ) -> None:
        name = f"{settings['model']['name']}-{settings['data']['name']}-{run_id}"
        if study is not None:
            name = f"{study}-{trial_name(directory)}"
            run_id, job_type = f"{name}-{secrets.token_hex(3)}", "trial"
        super().__init__(directory=directory, run_id=run_id)
        if host is not None and urlsplit(host).scheme not in ("http", "https"):
            raise SettingError(f"logger.host={host} is no address: type logger.host=https://HOST.")
        self.examples = examples
        self.texts = list(texts or [])
        self.table = table
        self._project = project
        self._host = host
        self._mode = mode
        self._arguments: dict[str, Any] = {
            "project": project,
            "entity": entity,
            "dir": str(directory),
            "id": run_id,
            "resume": "allow" if resumed else None,
            "reinit": "create_new",  # a sweep's process has a run for each of its studies
            "name": name,
            "group": settings["group"] or f"{settings['data']['name']}-{settings['model']['name']}-{setting}",
            "tags": [settings["model"]["name"], settings["data"]["name"], *settings["tags"]],
            "job_type": job_type,
            "config": {**settings, "setting": setting},
        }
        self._run: wandb.Run | None = None

    @property
    def name(self) -> str:
        return self._project

    @rank_zero_only
    def show(self, epoch: int, make: Callable[[], Mapping[str, Any]]) -> None:
        """Shows pictures or tables of an epoch.

        Args:
            epoch: The epoch, from 1 on.
            make: Makes them: W&B's objects by name. A fault in it costs the mirror alone.
        """
        self._attempt(lambda: self._write({"epoch": epoch, **make()}, step=epoch))

    @rank_zero_only
    def show_at_end(self, epoch: int, make: Callable[[], Mapping[str, Any]]) -> None:
        """Shows pictures or tables of the best epoch, once all epochs are over; else like `show`."""
        self._attempt(lambda: self._write({"epoch": epoch, **make()}))

    @rank_zero_only
    def configure(self, values: Mapping[str, Any]) -> None:
        """Puts values at the top of the run's settings, where W&B's panels find them by their names."""
        self._attempt(lambda: self._configure(values))

    def _configure(self, values: Mapping[str, Any]) -> None:
        if self._run is not None:
            self._run.config.update(dict(values), allow_val_change=True)  # type: ignore[no-untyped-call]

    @rank_zero_only
    def tag(self, word: str) -> None:
        """Adds a tag."""
        self._attempt(lambda: self._tag(word))

    def _tag(self, word: str) -> None:
        if self._run is not None:
            self._run.tags = (*(self._run.tags or ()), word)

    def _open(self) -> None:
        # W&B sends its own faults to its makers, and would make every program wait for that at its end.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        mode: Any = self._mode
        if mode == "auto":
            mode = os.environ.get("WANDB_MODE") or wandb_service.mode(self._host)
        try:
            self._run = wandb.init(mode=mode, settings=self._quiet(), **self._arguments)
        except Exception as error:
            if mode == "offline":
                raise
            print(f"W&B: the server did not take the run ({first_line(error)}); it is kept offline instead.")
            wandb_service.abandon()  # it holds the run's id still
            self._run = wandb.init(mode="offline", settings=self._quiet(), **self._arguments)
        self._run.define_metric("epoch")
        for group in ("train", "val", PICTURES):
            self._run.define_metric(f"{group}/*", step_metric="epoch")
        if not self._run.offline:
            wandb_service.mark_unsent(self._folder())

    def _quiet(self) -> wandb.Settings:
        import wandb

        settings = wandb.Settings(silent=True, init_timeout=INIT_SECONDS, console="off")
        if self._host:
            settings.base_url = self._host
        return settings

    def _where(self) -> str:
        assert self._run is not None
        if not self._run.offline:
            return str(self._run.url)
        directory = self.directory
        shown = directory.relative_to(Path.cwd()) if directory.is_relative_to(Path.cwd()) else directory
        return f"offline, in {shown / 'wandb'}; upload it later with: python -m sentattn.sync {shown}"

    def _folder(self) -> Path:
        assert self._run is not None
        return Path(self._run.dir).parent

    def _log(self, row: Row) -> None:
        self._write(dict(row), step=int(row["epoch"]), commit=True)

    def _write(self, row: dict[str, Any], **when: Any) -> None:
        if self._run is not None:
            # W&B's own process writes the file and keeps a full disk to itself.
            wandb_service.require_room(self._folder())
            self._run.log(row, **when)

    def _restore(self, rows: Sequence[Row]) -> None:
        if self._run is None:
            return
        import wandb

        for row in (row for row in rows if row["epoch"] >= self._run.starting_step):
            kept = wandb_service.pictures(self.directory / "wandb", self.run_id, f"{PICTURES}/", int(row["epoch"]))
            pictures = {name: wandb.Image(str(path)) for name, path in kept.items()}
            self._write({**row, **pictures}, step=int(row["epoch"]), commit=True)

    def _close(self, summary: Mapping[str, Any], failed: bool) -> None:
        if self._run is None:
            return
        self._run.summary.update(dict(summary))
        if not wandb_service.finish(self._run, exit_code=int(failed), seconds=FINISH_SECONDS):
            raise TimeoutError(f"the upload was not done after {FINISH_SECONDS:.0f} s")
        wandb_service.require_room(self._folder())
        wandb_service.mark_sent(self._folder())
        self._run = None

    def _remedy(self) -> str:
        online = self._run is not None and not self._run.offline
        return f" Upload the rest later with: python -m sentattn.sync {self.directory}" if online else ""

    def _drop(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        with suppress(Exception):
            wandb_service.finish(run, exit_code=1, seconds=min(5.0, FINISH_SECONDS))


def trial_name(directory: Path) -> str:
    """Returns a trial's number, with the seed where a trial is several trainings."""
    return directory.name if directory.name.isdigit() else f"{directory.parent.name}-{directory.name}"
