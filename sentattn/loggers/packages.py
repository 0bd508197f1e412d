"""Packages that a mirror needs and that not everybody has installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from sentattn.errors import SettingError

EXTRAS = {"tensorboard_logger": "tensorboard", "mlflow_logger": "mlflow"}
"""The function of a choice, and the package it needs, which is also the name of the extra."""


def require_package(node: Mapping[str, Any]) -> None:
    """Refuses a logger whose package is not installed, before anything is read or trained.

    Args:
        node: The `logger` settings.

    Raises:
        SettingError: With what to install.
    """
    package = EXTRAS.get(str(node["_target_"]).rpartition(".")[2])
    if package is not None and find_spec(package) is None:
        raise SettingError(
            f"logger={package} needs a package that is not installed: type pip install 'sentattn[{package}]', "
            "or choose logger=csv."
        )
