"""The loggers of `logger=`, which copy metrics and settings; the record of a run in its directory needs none.

Each constructor returns a guarded logger that is not open yet; `build_loggers` adds the argument `run`. The guard
prints the first error of a logger and switches it off, and the training continues.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from unittest.mock import patch

import yaml
from pytorch_lightning.loggers import CSVLogger, Logger

from sentattn.build import instantiate
from sentattn.config.compose import changes
from sentattn.config.groups import nodes
from sentattn.config.parameters import known
from sentattn.config.targets import TARGET_KEY, label, slots
from sentattn.config.types import Node, Whole, format_values
from sentattn.errors import Fault, SettingError, require_packages
from sentattn.loggers.guard import CSVGuard, Guard, TensorBoardGuard

if TYPE_CHECKING:
    from sentattn.loggers.wandb.run import WandbGuard

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
    """
    from sentattn.loggers.wandb.run import WandbGuard

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
    """Returns a logger to a table: `csv/metrics.csv` in the run directory.

    It has a line for each epoch and each point inside it.
    """

    def make() -> Logger:
        if run.resumed:  # Lightning starts a new file, and warns of an old one
            shutil.rmtree(run.directory / "csv", ignore_errors=True)
        return CSVLogger(run.directory, name="csv", version="")

    return _guard("CSV", make, str(run.directory / "csv" / "metrics.csv"), run, replays=True, kind=CSVGuard)


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
    """Refuses loggers that cannot work, before anything is read.

    Raises:
        SettingError: If a package is not installed, or a host of W&B's is no address.
    """
    for path, node in nodes(settings, "logger").items():
        name = str(node[TARGET_KEY]).rpartition(".")[2]
        if package := EXTRAS.get(name):
            require_packages("logger", f"logger={package}", [package], f"sentattn[{package}]")
        host = node.get("host") if name == wandb_logger.__name__ else None
        if host is not None and not host.lower().startswith(("http://", "https://")):
            message = f"{path}.host must be an address such as https://HOST, got {host}."
            raise SettingError(Fault(f"{path}.host", "type", message))


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
