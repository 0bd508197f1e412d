"""Attention mechanisms for text classification: train, tune, compare."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentattn.train import fit
    from sentattn.trained import load

__version__ = "0.1.0"
__all__ = ["__version__", "fit", "load"]


def __getattr__(name: str) -> Any:
    """Imports `fit` and `load` at their first use: torch takes seconds, and few commands need it."""
    if name in ("fit", "load"):
        return getattr(import_module("sentattn.train" if name == "fit" else "sentattn.trained"), name)
    raise AttributeError(f"module 'sentattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
