"""Attention mechanisms for text classification: train, tune, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentattn.run import load
    from sentattn.training.fit import fit

__version__ = "0.1.0"
__all__ = ["__version__", "fit", "load"]


def __getattr__(name: str) -> Any:
    """Imports `fit` and `load` when they are first asked for: torch takes seconds, and few commands need it."""
    if name == "fit":
        from sentattn.training.fit import fit

        return fit
    if name == "load":
        from sentattn.run import load

        return load
    raise AttributeError(f"module 'sentattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
