"""The loggers of `logger=`, which copy metrics and settings; the record of a run in its directory needs none.

Each constructor returns a guarded logger that is not open yet. `build_logger` adds the arguments without a default: the
run directory, the resolved settings, the hash of the settings without the seed, whether the run is resumed, and the
study of a trial.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import yaml

from sentattn.config.targets import label, slots
from sentattn.config.types import Whole
from sentattn.errors import Fault, SettingError

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

    from sentattn.loggers.guard import Guard
    from sentattn.loggers.wandb.run import WandbGuard

EXTRAS = {"tensorboard_logger": "tensorboard", "mlflow_logger": "mlflow"}
"""Constructors that need an optional package, and the extra that installs it."""
AXES = {"train": "epoch", "val": "epoch", "attention": "epoch", "step": "step"}
"""The x-axis of each group of metrics."""


def build_logger(
    settings: Mapping[str, Any], directory: Path, *, setting: str, resumed: bool = False, study: str | None = None
) -> Guard | None:
    """Returns the opened logger of a run, or None with `logger=none`.

    No error of a logger reaches the training: the first error is printed and switches the logger off.
    """
    from sentattn.build import instantiate

    filled = {"directory": directory, "settings": settings, "setting": setting, "resumed": resumed, "study": study}
    logger: Guard | None = instantiate(settings["logger"], **filled)
    if logger is not None:
        logger.start()
    return logger


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
    directory: Path,
    settings: Mapping[str, Any],
    setting: str,
    resumed: bool,
    study: str | None,
) -> WandbGuard:
    """Returns a logger to Weights & Biases; its files are in `wandb/` of the run directory.

    Runs that differ in their seed alone share a group.

    Args:
        project: W&B project.
        entity: W&B user or team; null for the account's own.
        mode: `auto`, `online` or `offline`; the environment's `WANDB_MODE` overrides `auto`.
        host: Address of W&B's server; null is `WANDB_BASE_URL` or W&B's own.
        job_type: Type of the run in W&B's tables.
        examples: Validation rows on which the attention of the best epoch is drawn.
        texts: Texts on which the attention of the best epoch is drawn.
        table: Validation rows in the table of predictions.
        directory: The run directory.
        settings: The resolved settings.
        setting: Hash of the settings without the seed.
        resumed: Whether the run continues after an interruption.
        study: The study that the run is a trial of.

    Raises:
        SettingError: If the host is not an address.
    """
    from sentattn.loggers.wandb.run import WandbGuard

    if host is not None and urlsplit(host).scheme not in ("http", "https"):
        message = f"logger.host must be an address such as https://HOST, got {host}."
        raise SettingError(Fault("logger.host", "type", message))
    data, parts = settings["data"]["name"], label(settings)
    name, run_id = f"{parts}-{data}-{directory.name}", directory.name
    if study is not None:  # the directory's name is the trial's number, which is not unique in a project
        trial = directory.name if directory.name.isdigit() else f"{directory.parent.name}-{directory.name}"
        name, job_type = f"{study}-{trial}", "trial"
        run_id = f"{name}-{secrets.token_hex(3)}"
    return WandbGuard(
        directory=directory,
        mode=mode,
        host=host,
        axes=AXES,
        examples=examples,
        texts=texts or (),
        table=table,
        project=project,
        entity=entity,
        id=run_id,
        resumed=resumed,
        name=name,
        group=settings["group"] or f"{data}-{parts}-{setting}",
        tags=list(dict.fromkeys([*parts.split(", "), data, *settings["tags"]])),
        job_type=job_type,
        config={**settings, **slots(settings), "setting": setting},
    )


def csv_logger(*, directory: Path, resumed: bool, **filled: Any) -> Guard:
    """Returns a logger to a table: `csv/metrics.csv` in the run directory, a line for each epoch."""

    def make() -> Logger:
        from pytorch_lightning.loggers import CSVLogger

        if resumed:  # Lightning starts a new file, and warns of an old one
            shutil.rmtree(directory / "csv", ignore_errors=True)
        return CSVLogger(directory, name="csv", version="", flush_logs_every_n_steps=1)

    location = str(directory / "csv" / "metrics.csv")
    return _guard("CSV", make, location, directory=directory, resumed=resumed, replays=True, **filled)


def tensorboard_logger(*, directory: Path, resumed: bool, **filled: Any) -> Guard:
    """Returns a logger to TensorBoard: event files in `tensorboard/` of the run directory."""

    def make() -> Logger:
        from pytorch_lightning.loggers import TensorBoardLogger

        logger = TensorBoardLogger(directory, name="tensorboard", version="", default_hp_metric=False)
        config = yaml.safe_dump(dict(filled["settings"]), sort_keys=False, allow_unicode=True)
        logger.experiment.add_text("config", f"```yaml\n{config}```")
        return logger

    location = f"tensorboard --logdir {directory.parent} shows it next to other runs"
    return _guard("TensorBoard", make, location, directory=directory, resumed=resumed, **filled)


def mlflow_logger(
    *, experiment: str = "sentattn", tracking_uri: str | None = None, directory: Path, resumed: bool, **filled: Any
) -> Guard:
    """Returns a logger to MLflow, in which the run has the name of its directory.

    Args:
        experiment: MLflow's experiment.
        tracking_uri: Address of the tracking server or of a database; null keeps `mlflow.db` in the run directory.
        directory: The run directory.
        resumed: Whether the run continues after an interruption.
        filled: The settings and what else is logged at the start.
    """
    address = tracking_uri or f"sqlite:///{(directory / 'mlflow.db').resolve()}"

    def make() -> Logger:
        from mlflow.tracking import MlflowClient  # it sets the levels of its loggers when it is imported
        from pytorch_lightning.loggers import MLFlowLogger

        for name in ("mlflow", "alembic"):  # they report each step of a new database's set-up
            logging.getLogger(name).setLevel(logging.WARNING)
        client, run_id = MlflowClient(address), None
        if resumed and (known := client.get_experiment_by_name(experiment)):
            runs = client.search_runs([known.experiment_id], f"attributes.run_name = '{directory.name}'")
            run_id = str(runs[0].info.run_id) if runs else None
        return MLFlowLogger(experiment, run_name=directory.name, tracking_uri=address, run_id=run_id)

    return _guard("MLflow", make, address, directory=directory, resumed=resumed, **filled)


def no_logger(**filled: Any) -> None:
    """Returns no logger."""


def require_package(node: Mapping[str, Any]) -> None:
    """Refuses `logger` settings whose package is not installed, before anything is read or trained.

    Raises:
        SettingError: With the command that installs it.
    """
    package = EXTRAS.get(str(node["_target_"]).rpartition(".")[2])
    if package is not None and find_spec(package) is None:
        message = (
            f"logger={package} needs a package that is not installed: type pip install 'sentattn[{package}]', "
            "or choose logger=csv."
        )
        raise SettingError(Fault("logger", "package", message))


def _guard(
    title: str,
    make: Callable[[], Logger],
    location: str,
    *,
    settings: Mapping[str, Any],
    setting: str,
    study: str | None,
    **arguments: Any,
) -> Guard:
    from sentattn.loggers.guard import Guard  # imports Lightning

    def make_with_settings() -> Logger:
        logger = make()
        logger.log_hyperparams({**settings, "setting": setting} | ({"study": study} if study else {}))
        logger.save()
        return logger

    return Guard(title, make_with_settings, location=location, **arguments)
