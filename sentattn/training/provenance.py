"""Where a result comes from: the revision of the code and the versions of what it ran on."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("torch", "pytorch-lightning", "torchmetrics", "hydra-core", "tokenizers", "numpy", "wandb")


def versions() -> dict[str, str]:
    """Returns the versions of Python, of this package and of the libraries that results depend on."""
    import sentattn

    found = {"python": platform.python_version(), "sentattn": sentattn.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> str | None:
    """Returns the commit of the code, with `+` where it was changed since; None outside its repository."""
    folder = Path(__file__).parent
    commit = _git(folder, "rev-parse", "HEAD")
    tracked = _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
    if not commit or not tracked:
        return None
    return commit + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no", ":/") else "")


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
