"""Configuration folders: their groups, the choices of a group, and the content of their files."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sentattn.config.types import Node, Tree
from sentattn.errors import MALFORMED, Fault, SettingError

MISSING_VALUE = "???"
"""The value of a setting that has to be typed."""
LIST_GROUPS = ("callbacks", "logger")
"""Groups with any number of choices, as in `logger=[csv,wandb]`; the file of a choice holds its node under its name."""


@functools.cache
def conf_dir() -> Path:
    """Returns the configuration folder: inside the package when installed, else next to it."""
    package = Path(__file__).resolve().parents[1]
    return next(folder for folder in (package / "conf", package.parent / "conf") if (folder / "train.yaml").is_file())


@dataclass(frozen=True)
class Choices:
    """The groups and choices of configuration folders: the package's, which is the first, and the user's."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, *extra: Path) -> Choices:
        """Returns the package's own choices and those of other folders.

        Raises:
            SettingError: If a folder is missing or takes a name that exists.
        """
        faults = [
            Fault("--config-dir", "not_found", f"--config-dir {folder}: the folder does not exist.")
            for folder in extra
            if not folder.is_dir()
        ]
        package = cls((conf_dir(),))
        folders = [path for folder in extra if (path := folder.resolve()) != conf_dir()]
        faults += [
            Fault(group, "conflict", f"{file}: the name {file.stem!r} is taken in {group}; give the file another.")
            for folder in folders
            for group in package.groups()
            for file in sorted((folder / group).glob("*.yaml"))
            if file.stem in package.names(group)
        ]
        if faults:
            raise SettingError(*faults)
        return cls((conf_dir(), *folders))

    def groups(self) -> tuple[str, ...]:
        """The groups, such as `model` and `model/attention`."""
        return _groups(self.folders[0])

    def names(self, group: str) -> list[str]:
        """Returns the choices of a group. A file `_NAME.yaml` is not a choice; others include it in their defaults."""
        return sorted({file.stem for folder in self.folders for file in (folder / group).glob("[!_]*.yaml")})

    def file(self, group: str, name: str) -> Path:
        """The file of a choice."""
        return next(self._files(group, name))

    def _files(self, group: str, name: object) -> Iterator[Path]:
        """Yields the file of a choice; none for a path, such as `../x`."""
        files = (folder / group / f"{name}.yaml" for folder in self.folders)
        return (file for file in files if file.stem == name and os.path.isfile(file))  # a name may be too long

    def node(self, group: str, name: object) -> Node:
        """Returns what the file of a choice sets in its own node, or all that a file `@package _global_` sets.

        It is empty where no folder has such a choice, which saved settings may name.

        Raises:
            SettingError: If it cannot be read.
        """
        if (file := next(self._files(group, name), None)) is None:
            return {}
        whole = load(file)
        node = get_path(whole, file.stem if group in LIST_GROUPS else group.replace("/", "."))
        return node if isinstance(node, Mapping) else whole

    def parts(self, variant: object) -> dict[str, str | None]:
        """Returns the parts of a variant of the model, such as `attention`, with their choices; {} if unknown."""
        node = self.node("model", variant)
        return defaults(load(self.folders[0] / "model" / "_base.yaml")) | defaults(node) if node else {}


@functools.cache
def _groups(folder: Path) -> tuple[str, ...]:
    listed = defaults(load(folder / "train.yaml"))
    folders = [file.parent.relative_to(folder).as_posix() for file in sorted(folder.glob("*/**/*.yaml"))]
    return tuple(dict.fromkeys([*listed, *folders]))


def load(file: Path) -> Node:
    """Returns a YAML file's mapping on top of those of the files of its folder in its defaults, references unresolved.

    Raises:
        SettingError: If it cannot be read.
    """
    return _load(file, file.stat().st_mtime_ns)


@functools.cache
def _load(file: Path, changed: int) -> Node:
    try:
        loaded = OmegaConf.load(file)
        if isinstance(loaded, DictConfig) and (included := _included(file, loaded)):
            loaded = OmegaConf.merge(*included, loaded)
        content = OmegaConf.to_container(loaded, resolve=False)
    except AssertionError:  # OmegaConf's, of a file that holds a number in quotes
        content = None
    except (*MALFORMED, YAMLError, OmegaConfBaseException) as error:
        message = f"{file} cannot be read: {' '.join(str(error).split())}."
        raise SettingError(Fault(str(file), "unreadable", message)) from error
    if not isinstance(content, dict):
        raise SettingError(Fault(str(file), "unreadable", f"{file} holds no settings: it needs lines `key: value`."))
    return {str(key): value for key, value in content.items()}


def _included(file: Path, content: DictConfig) -> list[Tree]:
    """Returns what the files hold that a file's defaults list by name: of its own folder, or of the package's.

    A file `_NAME` holds its node alone. What its own defaults list is not among it.
    """
    listed = content.get("defaults")
    entries = listed if isinstance(listed, ListConfig) else ()  # Hydra refuses what is no list
    names = [entry for entry in entries if isinstance(entry, str) and entry != "_self_"]
    paths = [folder / f"{name}.yaml" for name in names for folder in (file.parent, conf_dir() / file.parent.name)]
    included = {path: {**load(path)} for path in paths if path.is_file()}
    for node in included.values():
        node.pop("defaults", None)
    return [{path.parent.name: node} if path.name.startswith("_") else node for path, node in included.items() if node]


def defaults(node: Node) -> dict[str, str | None]:
    """Returns the groups in a file's defaults list, with their choices."""
    entries = node.get("defaults")
    listed = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    return {key.removeprefix("override "): value for entry in listed for key, value in entry.items()}


def comment(file: Path) -> str:
    """Returns a YAML file's first comment as one line: what it is and what to expect."""
    head = takewhile(lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines())
    texts = [line.lstrip("# ").strip() for line in head]
    return " ".join(text for text in texts if not text.startswith("@package"))


def group_of(path: str) -> str:
    """Returns the group of a node: `model/attention` of `model.attention`, `logger` of `logger` and of `logger.csv`."""
    first = path.partition(".")[0]
    return first if first in LIST_GROUPS else path.replace(".", "/")


def nodes(settings: Node, group: str) -> dict[str, Any]:
    """Returns the nodes of a group by path: that of its choice, or one for each of several choices."""
    path = group.replace("/", ".")
    node = get_path(settings, path)
    if group not in LIST_GROUPS or not isinstance(node, Mapping) or "_target_" in node:
        return {path: node}
    return {f"{path}.{name}": inner for name, inner in node.items()}


def get_path(settings: Node, path: str) -> Any:
    """Returns the value at a dotted path, or None."""
    node: object = settings
    for key in path.split("."):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
