"""What `logger=` chooses from. What code fills in is the same for all: see `WandbMirror`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import yaml

from sentattn.config.types import Whole
from sentattn.loggers.lightning_mirror import LightningMirror
from sentattn.loggers.wandb_mirror import WandbMirror

if TYPE_CHECKING:
    from pathlib import Path

    from pytorch_lightning.loggers.logger import Logger


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
    **filled: Any,
) -> WandbMirror:
    """Returns the mirror to Weights & Biases; see `WandbMirror`."""
    return WandbMirror(
        project=project,
        entity=entity,
        mode=mode,
        host=host,
        job_type=job_type,
        examples=examples,
        texts=texts,
        table=table,
        **filled,
    )


def tensorboard_logger(*, directory: Path, **filled: Any) -> LightningMirror:
    """Returns a mirror to TensorBoard: event files in `tensorboard/` of the run directory."""

    def make(resumed: bool) -> Logger:
        from pytorch_lightning.loggers import TensorBoardLogger

        logger = TensorBoardLogger(directory, name="tensorboard", version="", default_hp_metric=False)
        config = yaml.safe_dump(dict(filled["settings"]), sort_keys=False, allow_unicode=True)
        logger.experiment.add_text("config", f"```yaml\n{config}```")
        return logger

    where = f"tensorboard --logdir {directory.parent} shows it beside its neighbours"
    return LightningMirror(title="TensorBoard", make=make, where=where, keeps=True, directory=directory, **filled)


def csv_logger(*, directory: Path, **filled: Any) -> LightningMirror:
    """Returns a mirror to a table: `csv/metrics.csv` in the run directory, one line an epoch."""

    def make(resumed: bool) -> Logger:
        from pytorch_lightning.loggers import CSVLogger

        return CSVLogger(directory, name="csv", version="", flush_logs_every_n_steps=1)

    where = str(directory / "csv" / "metrics.csv")
    return LightningMirror(title="CSV", make=make, where=where, keeps=False, directory=directory, **filled)


def mlflow_logger(
    *,
    experiment: str = "sentattn",
    tracking_uri: str | None = None,
    directory: Path,
    run_id: str,
    **filled: Any,
) -> LightningMirror:
    """Returns a mirror to MLflow.

    Args:
        experiment: MLflow's experiment.
        tracking_uri: Address of the tracking server or of a database; null keeps `mlflow.db` in the run directory.
        directory: The run directory.
        run_id: The run's id; MLflow's run has it as its name.
        filled: What every mirror takes.
    """
    address = tracking_uri or f"sqlite:///{(directory / 'mlflow.db').resolve()}"

    def make(resumed: bool) -> Logger:
        from pytorch_lightning.loggers import MLFlowLogger

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        known = _mlflow_run(address, experiment, run_id) if resumed else None
        return MLFlowLogger(experiment, run_name=run_id, tracking_uri=address, run_id=known)

    return LightningMirror(
        title="MLflow", make=make, where=address, keeps=True, directory=directory, run_id=run_id, **filled
    )


def _mlflow_run(address: str, experiment: str, name: str) -> str | None:
    """Returns MLflow's own id of a run that is there, or None."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(address)
    if (found := client.get_experiment_by_name(experiment)) is None:
        return None
    runs = client.search_runs([found.experiment_id], f"attributes.run_name = '{name}'")
    return str(runs[0].info.run_id) if runs else None


def no_logger(**filled: Any) -> None:
    """Returns no logger: the run directory alone is the record."""
