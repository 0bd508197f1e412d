"""Loggers that a run reports to, besides its own record in the run directory, which never depends on them."""

from sentattn.loggers.constructors import (
    build_logger,
    csv_logger,
    mlflow_logger,
    no_logger,
    require_package,
    tensorboard_logger,
    wandb_logger,
)

__all__ = [
    "build_logger",
    "csv_logger",
    "mlflow_logger",
    "no_logger",
    "require_package",
    "tensorboard_logger",
    "wandb_logger",
]
