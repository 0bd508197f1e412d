"""`sentattn COMMAND ...`, and `python -m sentattn COMMAND ...`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from sentattn.errors import suggestion

COMMANDS = {
    "train": "train a model, keep its best epoch, test it once, write the run",
    "sweep": "search settings on all GPUs or cores, and resume where it stopped",
    "evaluate": "test a saved run, on its own or on other data",
    "predict": "label, probabilities and attention of a text or a file",
    "export": "write a trained model as ONNX, or for the Hugging Face Hub",
    "compare": "leaderboard of finished runs, with intervals and tests",
    "explore": "attention of several models in the browser, on any text",
    "sync": "upload runs that were logged offline to Weights & Biases",
    "cache": "what is cached on the disk, with its size, and how to delete it",
    "list": "models, data sets, experiments, sweeps and runs, a line each",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Hands the arguments to a command; returns its exit code."""
    name, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("--help", "-h"):
        lines = "\n".join(f"  {name:<8}  {what}" for name, what in COMMANDS.items())
        print(f"sentattn: train and compare attention mechanisms for text classification.\n\n{lines}\n")
        print("sentattn COMMAND --help says more. `python -m sentattn.train` is the same as `sentattn train`.")
        return 0
    if name == "--version":
        from sentattn import __version__

        print(__version__)
        return 0
    if name not in COMMANDS:
        close = suggestion(name, COMMANDS)
        print(f"error: there is no command {name!r}.{close} There are {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    # As `python -m` does, so that a class of the user's own is found; last, so that it hides nothing.
    sys.path.append(os.getcwd())
    module = importlib.import_module(f"sentattn.{name}")
    if not hasattr(module, "main"):
        module = importlib.import_module(f"sentattn.{name}.__main__")  # a command that is a folder
    code: int = module.main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main())
