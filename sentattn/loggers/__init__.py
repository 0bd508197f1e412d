"""What shows a run elsewhere, beside its own record, which never depends on it."""

from sentattn.loggers.choices import csv_logger, mlflow_logger, no_logger, tensorboard_logger, wandb_logger
from sentattn.loggers.mirror import Mirror
from sentattn.loggers.packages import require_package
from sentattn.loggers.wandb_mirror import WandbMirror

__all__ = [
    "Mirror",
    "WandbMirror",
    "csv_logger",
    "mlflow_logger",
    "no_logger",
    "require_package",
    "tensorboard_logger",
    "wandb_logger",
]
