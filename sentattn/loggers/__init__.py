"""The loggers of `logger=`, which copy metrics and settings; the record of a run in its directory needs none.

Each constructor returns a guarded logger that is not open yet; `build_loggers` adds the argument `run`. The guard
prints the first error of a logger and switches it off, and the training continues.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar
from unittest.mock import patch
from urllib.parse import urlsplit

import yaml
from pytorch_lightning.loggers import CSVLogger, Logger
from pytorch_lightning.loggers.logger import DummyLogger

from sentattn.build import instantiate
from sentattn.config.groups import nodes
from sentattn.config.hashing import changes
from sentattn.config.parameters import known
from sentattn.config.targets import TARGET_KEY, label, slots
from sentattn.config.types import Node, Whole, format_values
from sentattn.errors import Fault, SettingError, first_line, require_packages
from sentattn.run import METRICS_FILE

if TYPE_CHECKING:
    from sentattn.loggers.wandb.run import WandbGuard

T = TypeVar("T")
Axis: TypeAlias = Literal["epoch", "step"]
EXTRAS = {"tensorboard_logger": "tensorboard", "mlflow_logger": "mlflow"}
"""Constructors that need an optional package, and the extra that installs it."""
LONGEST = 60
"""Letters of the values in the name of a run on W&B."""


class LoggedRun(NamedTuple):
    """A run as its logger needs it: its directory, its resolved settings, and their hash without the seed.

    `resumed` says that it continues after an interruption; `study` is the study that it is a trial of.
    """

    directory: Path
    settings: Node
    setting: str
    resumed: bool = False
    study: str | None = None


def build_loggers(run: LoggedRun) -> list[Guard]:
    """Returns the opened loggers of a run, none of whose errors reaches the training or another logger."""
    loggers: list[Guard] = []
    for node in nodes(run.settings, "logger").values():
        takes = known(node).parameters
        if "run" in takes:  # a constructor of this module
            guard = instantiate(node, run=run)
        else:  # a class derived from Lightning's
            folder = {"save_dir": str(run.directory)} if "save_dir" in takes and "save_dir" not in node else {}
            title = str(node[TARGET_KEY]).rpartition(".")[2]
            guard = _guard(title, partial(instantiate, node, Logger, **folder), "open", run)
        if guard is not None:
            guard.start()
            loggers.append(guard)
    return loggers


def wandb_logger(
    *,
    project: str = "sentattn",
    entity: str | None = None,
    mode: Literal["auto", "online", "offline"] = "auto",
    host: str | None = None,
    job_type: str = "train",
    examples: Whole = 4,
    texts: list[str] | None = None,
    table: Whole = 100,
    run: LoggedRun,
) -> WandbGuard:
    """Returns a logger to Weights & Biases, on which runs that differ in their seed alone share a group.

    Args:
        project: W&B project; where none is typed, `WANDB_PROJECT` counts.
        entity: W&B user or team, or `WANDB_ENTITY`; null for the account's own.
        mode: `auto`, `online` or `offline`; the environment's `WANDB_MODE` overrides `auto`.
        host: Address of W&B's server; null is `WANDB_BASE_URL` or W&B's own.
        job_type: Type of the run in W&B's tables, or `WANDB_JOB_TYPE`.
        examples: Validation rows on which the attention of the best epoch is drawn.
        texts: Texts on which the attention of the best epoch is drawn.
        table: Validation rows in the table of predictions.
        run: The run.

    Raises:
        SettingError: If the host is not an address.
    """
    from sentattn.loggers.wandb.run import WandbGuard

    if host is not None and urlsplit(host).scheme not in ("http", "https"):
        message = f"logger.host must be an address such as https://HOST, got {host}."
        raise SettingError(Fault("logger.host", "type", message))
    directory, settings, setting, resumed, study = run
    data, parts = settings["data"]["name"], label(settings)
    tags = [*parts.split(", "), data, *settings["tags"], *os.environ.get("WANDB_TAGS", "").split(",")]
    values = textwrap.shorten(format_values(changes(settings)), LONGEST, placeholder=" ...")
    words = ", ".join(filter(None, [parts, values]))
    setting_name = f"{data}-{words}-{setting}"
    name, run_id = os.environ.get("WANDB_NAME") or f"{words}-{data}-{directory.name}", directory.name
    if study is not None:  # the directory's name is the trial's number, which is not unique in a project
        trial = directory.name if directory.name.isdigit() else f"{directory.parent.name}-{directory.name}"
        name, job_type = f"{study}-{trial}", "trial"
        run_id = f"{name}-{secrets.token_hex(3)}"
    return WandbGuard(
        directory=directory,
        mode=mode,
        host=host,
        examples=examples,
        texts=texts or (),
        table=table,
        project=project,
        entity=entity,
        id=run_id,
        resumed=resumed,
        name=name,
        group=settings["group"] or os.environ.get("WANDB_RUN_GROUP") or setting_name,
        tags=list(dict.fromkeys(filter(None, tags))),
        job_type=job_type,
        config={**settings, **slots(settings), "setting": setting_name},
    )


def csv_logger(*, run: LoggedRun) -> Guard:
    """Returns a logger to a table: `csv/metrics.csv` in the run directory, a line for each epoch."""

    def make() -> Logger:
        if run.resumed:  # Lightning starts a new file, and warns of an old one
            shutil.rmtree(run.directory / "csv", ignore_errors=True)
        return CSVLogger(run.directory, name="csv", version="", flush_logs_every_n_steps=1)

    return _guard("CSV", make, str(run.directory / "csv" / "metrics.csv"), run, replays=True)


def tensorboard_logger(*, run: LoggedRun) -> Guard:
    """Returns a logger to TensorBoard: event files in `tensorboard/` of the run directory."""

    def make() -> Logger:
        from pytorch_lightning.loggers import TensorBoardLogger

        logger = TensorBoardLogger(run.directory, name="tensorboard", version="", default_hp_metric=False)
        config = yaml.safe_dump(dict(run.settings), sort_keys=False, allow_unicode=True)
        logger.experiment.add_text("config", f"```yaml\n{config}```")
        return logger

    place = f"tensorboard --logdir {run.directory.parent} shows it next to other runs"
    return _guard("TensorBoard", make, place, run, kind=TensorBoardGuard)


def mlflow_logger(*, experiment: str = "sentattn", tracking_uri: str | None = None, run: LoggedRun) -> Guard:
    """Returns a logger to MLflow, in which the run has the name of its directory.

    Args:
        experiment: MLflow's experiment, or `MLFLOW_EXPERIMENT_NAME`.
        tracking_uri: Address of a server or database, or `MLFLOW_TRACKING_URI`; null keeps `mlflow.db` in the run.
        run: The run.
    """
    address = tracking_uri or f"sqlite:///{(run.directory / 'mlflow.db').resolve()}"

    def make() -> Logger:
        from mlflow.tracking import MlflowClient  # it sets the levels of its loggers when it is imported
        from pytorch_lightning.loggers import MLFlowLogger

        for name in ("mlflow", "alembic"):  # they report each step of a new database's set-up
            logging.getLogger(name).setLevel(logging.WARNING)
        client, run_id = MlflowClient(address), None
        if run.resumed and (known := client.get_experiment_by_name(experiment)):
            runs = client.search_runs([known.experiment_id], f"attributes.run_name = '{run.directory.name}'")
            run_id = str(runs[0].info.run_id) if runs else None
        tags = dict.fromkeys(run.settings["tags"], "") | {"group": run.settings["group"] or run.setting}
        logger = MLFlowLogger(experiment, run.directory.name, address, tags, run_id=run_id)
        with patch.dict(os.environ):  # in which MLflow sets MLFLOW_TRACKING_URI, that of the next training too
            _ = logger.experiment
        return logger

    return _guard("MLflow", make, address, run)


def no_logger(*, run: LoggedRun) -> None:
    """Returns no logger."""


def require_installed(settings: Node) -> None:
    """Refuses loggers whose package is not installed with a `SettingError`, before anything is read."""
    for node in nodes(settings, "logger").values():
        if package := EXTRAS.get(str(node[TARGET_KEY]).rpartition(".")[2]):
            require_packages("logger", f"logger={package}", [package], f"sentattn[{package}]")


def _guard(
    title: str,
    make: Callable[[], Logger],
    location: str,
    run: LoggedRun,
    *,
    replays: bool = False,
    kind: type[Guard] | None = None,
) -> Guard:
    def make_with_settings() -> tuple[Logger, str]:
        logger = make()
        logger.log_hyperparams({**run.settings, "setting": run.setting} | ({"study": run.study} if run.study else {}))
        logger.save()
        return logger, location

    guard = kind or Guard
    return guard(title, make_with_settings, directory=run.directory, resumed=run.resumed, replays=replays)


class Guard(Logger):
    """Wraps a logger of Lightning's, so that nothing that goes wrong in it reaches the training.

    A row is an epoch: Lightning passes the metrics of validation and of training separately, and both are logged
    together, with the epoch, counted from 1, as the step. Points inside an epoch (`step/...`) have the optimizer's.
    Of a resumed training, epochs that the run directory has already are not logged again, unless the logger `replays`
    them because it starts from nothing. `make` opens Lightning's logger, and says where its data are.
    `epoch_steps` is how many steps an epoch has.
    """

    epoch_steps = 1

    def __init__(
        self,
        title: str,
        make: Callable[[], tuple[Logger, str]],
        *,
        directory: Path,
        resumed: bool = False,
        replays: bool = False,
    ) -> None:
        super().__init__()
        self.title = title
        self.directory = directory
        self._make = make
        self._resumed = resumed
        self._replays = replays
        self._last_epoch = 0
        self._logger: Logger | None = None
        self._row: dict[str, float] = {}

    def start(self) -> None:
        """Opens the logger and prints where its data are."""
        try:
            logger, location = self._make()
            self._logger = logger
            path = self.directory / METRICS_FILE
            lines = path.read_text(encoding="utf-8").splitlines() if self._resumed and path.is_file() else []
            for row in map(json.loads, lines):
                self._last_epoch = int(row["epoch"])
                if self._replays:
                    metrics = {name: value for name, value in row.items() if "/" in name}
                    self._log(logger, metrics, "epoch", self._last_epoch)
            print(f"{self.title}: {location}")
        except Exception as error:
            self._switch_off(error)

    def attempt(self, action: Callable[[Any], T], default: T) -> T:
        """Calls an action with Lightning's logger; returns `default` if it fails or the logger is off."""
        if self._logger is not None:
            try:
                return action(self._logger)
            except Exception as error:
                self._switch_off(error)
        return default

    @property
    def experiment(self) -> Any:
        """The library's own object, such as W&B's run; once the logger is off, an object that ignores every call."""
        return self.attempt(attrgetter("experiment"), DummyLogger().experiment)

    @property
    def name(self) -> str:
        return self.title

    @property
    def version(self) -> None:
        """None."""

    @property
    def save_dir(self) -> str | None:
        return str(self.directory)

    def log_hyperparams(self, params: object, *args: object, **kwargs: object) -> None:
        """Does nothing: the resolved settings are logged when the logger is opened."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Collects the metrics of an epoch; Lightning reports those of training last, and they complete the row."""
        if "epoch" not in metrics:  # a callback's
            self.log_step(metrics, step=step or 0)
            return
        self._row |= metrics
        if any(name.startswith("train/") for name in metrics):
            row, self._row = self._row, {}
            epoch = int(row.pop("epoch")) + 1
            if epoch > self._last_epoch:
                self.attempt(lambda logger: self._log(logger, row, "epoch", epoch), None)

    def log_step(self, values: Mapping[str, float], *, step: int) -> None:
        """Logs values of an optimizer step, counted from 1, such as `step/loss`."""
        self.attempt(lambda logger: self._log(logger, values, "step", step), None)

    def finalize(self, status: str) -> None:
        """Does nothing: Lightning calls it when the last epoch is over, and the evaluation is still to come."""

    def finish(self, summary: Node, *, failed: bool = False) -> None:
        """Logs the summary, such as that of `run.summarize`, and closes the logger."""
        self.attempt(lambda logger: self._finish(logger, summary, failed), None)
        self._logger = None

    def _log(self, logger: Logger, row: Mapping[str, float], axis: Axis, place: int) -> None:
        logger.log_metrics(dict(row), step=place)
        logger.save()

    def _finish(self, logger: Logger, summary: Node, failed: bool) -> None:
        # The rows have the metrics of training and validation already.
        others = {name: value for name, value in summary.items() if not name.startswith(("train/", "val/"))}
        values = {name: value for name, value in others.items() if not isinstance(value, str)}
        if (best := summary.get("best_epoch")) is not None:
            logger.log_metrics(values, step=int(best))
        logger.finalize("failed" if failed else "success")

    def _advice(self) -> str:
        """Returns advice after an error, or an empty string."""
        return ""

    def _close(self, logger: Logger) -> None:
        """Releases the logger's resources after an error."""

    def _switch_off(self, error: Exception) -> None:
        record = f"the run continues without it, its own record is in {self.directory}."
        print(f"{self.title}: {first_line(error)}; {record}{self._advice()}")
        logger, self._logger = self._logger, None
        if logger is not None:
            with suppress(Exception):  # the first error has been printed
                self._close(logger)


class TensorBoardGuard(Guard):
    """Logs to TensorBoard, whose tab HParams shows the settings next to the validation metrics of the best epoch."""

    def _finish(self, logger: Any, summary: Node, failed: bool) -> None:
        if (best := summary.get("best_epoch")) is not None:
            metrics = {f"best/{name}": value for name, value in summary.items() if name.startswith("val/")}
            logger.log_hyperparams(logger.hparams, metrics, step=int(best))
        super()._finish(logger, summary, failed)
