"""Attention mechanisms for text classification: train, tune, compare."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentattn.compare.__main__ import leaderboard
    from sentattn.states import save_states
    from sentattn.sweep.search import search
    from sentattn.train import fit, fit_grid
    from sentattn.trained import load

__version__ = "0.2.0"
__all__ = ["__version__", "fit", "fit_grid", "leaderboard", "load", "save_states", "search"]
MODULES = {
    "leaderboard": "compare.__main__",
    "load": "trained",
    "save_states": "states",
    "search": "sweep.search",
}
"""Where the functions are that are not in `train`."""


def __getattr__(name: str) -> Any:
    """Imports a function at its first use: torch takes seconds, and few commands need it."""
    if name in __all__:
        return getattr(import_module(f"sentattn.{MODULES.get(name, 'train')}"), name)
    raise AttributeError(f"module 'sentattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
