"""Data sets of the Hugging Face Hub, and folders in its formats, by `datasets`: their splits and columns; no torch."""

from __future__ import annotations

import functools
import os
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sentattn.config.schema import HUB
from sentattn.config.types import Node, Tree
from sentattn.data.readers.archives import is_path, neighbour
from sentattn.data.readers.tables import as_columns, setting_faults
from sentattn.errors import DataError, Fault, UserError, require_packages, suggestion

KEY = "data.dataset"
SPLITS = {"train": ("train",), "val": ("validation", "val", "dev", "valid"), "test": ("test",)}
"""Names of each split on the Hub."""
SAVED = ("dataset_dict.json", "state.json")
"""A folder that `save_to_disk` has written holds one of them."""
TIMEOUT = 10.0
"""Seconds in which the Hub must answer."""
SHOWN = 300
"""Most characters of a library's message, or of a list of names, in a message."""
REMEDY = (
    'Change it by map(lambda row: {"text": " ".join(row["tokens"])}) or flatten() of `datasets`, then '
    f"save_to_disk(FOLDER), and type {KEY}=FOLDER."
)
TEXT = re.compile(r"(large_)?string")
LABEL = re.compile(rf"{TEXT.pattern}|bool|u?int\d+|float\d+|date\d+|timestamp\b.*|\d+ classes")
"""Types of columns of texts, and of labels and groups, as `_type_of` describes them."""


class HubData(NamedTuple):
    """Splits of a data set (`datasets.Dataset`) by our names, and the columns of texts and of labels."""

    splits: Tree
    texts: list[str]
    label: str


def check(data: Node) -> None:
    """Finds the splits and columns of `data=hub` as `find` does; settings of other data sets pass."""
    if data["_target_"] == HUB:
        if not sys.stderr.isatty():
            os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")  # read when `datasets` is imported
        find(data)


def find(data: Node) -> HubData:
    """Returns the splits and columns that settings of `data=hub` name, or those with the usual names and types.

    Raises:
        SettingError: If `datasets` is not installed.
        DataError: If the data set cannot be loaded, a split or column cannot be found, or settings exclude each other.
    """
    require_packages("data", "data=hub", ["datasets"], "sentattn[hub]")
    if not (dataset := data["dataset"]):
        message = "data=hub has no rows: type data.dataset=USER/NAME, such as fancyzhx/ag_news, or a folder."
        raise DataError(Fault(KEY, "missing", message))
    loaded = _load(dataset, data["config"], data["revision"])
    found = {split: next((name for name in names if loaded.get(name)), None) for split, names in SPLITS.items()}
    splits = {split: loaded[name] for split, name in found.items() if name}
    if not splits:
        message = f"{KEY}={dataset} has no rows in a split train or test; its splits are {', '.join(loaded)}."
        raise DataError(Fault(KEY, "missing", f"{message} A single split can be saved by save_to_disk(FOLDER)."))
    first, *others = splits.values()
    texts, label = _find_columns(first.features, data)
    data = {**data, "text": texts, "label": label}
    for rows in others:
        if label in rows.features:  # a split without labels is not used
            _find_columns(rows.features, data)
    if faults := setting_faults(data):
        raise DataError(*faults)
    return HubData(splits, texts, label)


def _load(dataset: str, config: str | None, revision: str | None) -> Tree:
    """Returns the splits of a folder or of a data set of the Hub, by the names that they have there."""
    import datasets

    path, is_folder = Path(os.path.expanduser(dataset)), False
    try:
        is_folder, is_saved = path.is_dir(), any((path / name).is_file() for name in SAVED)
        for key, value in {"config": config if is_saved else None, "revision": revision if is_folder else None}.items():
            if value is not None:
                message = f"data.{key}={value} has no effect with the folder {KEY}={dataset}: leave it out."
                raise DataError(Fault(f"data.{key}", "no_effect", message))
        if path.is_file() or hasattr(datasets.packaged_modules, dataset):  # `csv` would read the files of this folder
            message = f"{KEY}={dataset} must be a folder or a name on the Hub; data=table data.train=FILE reads a file."
            raise DataError(Fault(KEY, "unsupported", message))
        if is_saved:
            saved = datasets.load_from_disk(path)
            return dict(saved) if isinstance(saved, dict) else {"train": saved}
        if not is_folder and is_path(dataset):
            raise DataError(Fault(KEY, "not_found", f"{KEY}={dataset}: there is no such folder.{neighbour(path)}"))
        return _load_configuration(str(path), config) if is_folder else _load_from_hub(dataset, config, revision)
    except UserError:
        raise
    except ConnectionError as error:
        message = f"{KEY}={dataset} is no folder, the Hub does not answer, and its cache (HF_HOME) has no copy."
        raise DataError(Fault(KEY, "network", message + neighbour(path))) from error
    except Exception as error:  # the library meets damaged files with errors of many kinds
        is_general = isinstance(error, datasets.exceptions.DatasetGenerationError)
        reason = str((is_general and error.__cause__) or error) or type(error).__name__
        message = f"{KEY}={dataset} cannot be loaded: {textwrap.shorten(reason, SHOWN).rstrip('.')}."
        if not isinstance(error, datasets.exceptions.DatasetNotFoundError):
            message += " A folder here goes before a name on the Hub." * (is_folder and not is_path(dataset))
            raise DataError(Fault(KEY, "damaged", message)) from error
        message += f" If it is private or gated, type hf auth login.{neighbour(path)}"
        raise DataError(Fault(KEY, "not_found", message)) from error


@functools.lru_cache(maxsize=2)
def _load_from_hub(dataset: str, config: str | None, revision: str | None) -> Tree:
    """Downloads a data set, or returns the copy in the cache if the Hub cannot be reached."""
    import datasets
    import requests

    was_offline = datasets.config.HF_HUB_OFFLINE
    try:
        if not was_offline:
            requests.head(datasets.config.HF_ENDPOINT, timeout=TIMEOUT)
    except requests.RequestException:  # after which `datasets` would retry for half a minute
        datasets.config.HF_HUB_OFFLINE = True
    try:
        return _load_configuration(dataset, config, revision=revision)
    finally:
        datasets.config.HF_HUB_OFFLINE = was_offline


def _load_configuration(path: str, config: str | None, **settings: str | None) -> Tree:
    import datasets

    try:
        return dict(datasets.load_dataset(path, config, **settings))
    except ValueError:
        names = datasets.get_dataset_config_names(path, **settings)
        if config in names or len(names) < 2:
            raise
    message = f"data.config must be a configuration of {path}, got {config or 'none'}; there are {listed(names)}."
    message += suggestion(config or "", names)
    raise DataError(Fault("data.config", "unknown" if config else "missing", message))


def _find_columns(features: Node, data: Node) -> tuple[list[str], str]:
    """Returns the columns of texts and of labels: those that are named, or else found by name or type.

    Raises:
        DataError: For each column that cannot be found or has another type, with all columns and their types.
    """
    types = {name: _type_of(feature) for name, feature in features.items()}
    classes = [name for name, kind in types.items() if kind.endswith(" classes")]
    labels = classes if len(classes) == 1 else [name for name in ("label", "labels") if name in types][:1]
    labels = [data["label"]] if data["label"] else labels
    texts = as_columns(data["text"] or ("text" if "text" in types else []))
    for kind in ("string", "large_string", "list of string"):
        texts = texts or [name for name in types if types[name] == kind and name not in (*labels, data["group"])]
    if len(texts) > 1 and not data["text"]:
        texts = []
    columns = listed([f"{name} ({kind})" for name, kind in types.items()])
    faults = []
    for key, names in (("text", texts), ("label", labels), ("group", [data["group"]] if data["group"] else [])):
        if not names and key != "group":
            several = " or data.text=[COLUMN,COLUMN]" * (key == "text")
            message = f"Which column holds the {key}s? Type data.{key}=COLUMN{several}; there are {columns}."
            faults.append(Fault(f"data.{key}", "missing", message))
        for name in names:
            if name not in types:
                message = f"There is no column data.{key}={name}; there are {columns}.{suggestion(name, types)}"
                faults.append(Fault(f"data.{key}", "unknown", message))
            elif not (TEXT if key == "text" else LABEL).fullmatch(types[name]):
                message = f"data.{key}={name} must hold one {key} a row, got a column of type {types[name]}. {REMEDY}"
                faults.append(Fault(f"data.{key}", "type", message))
    if faults:
        raise DataError(*faults)
    return texts, labels[0]


def _type_of(feature: Any) -> str:
    """Returns the type of a column in words, such as `4 classes` or `list of string`."""
    if isinstance(feature, dict):
        return f"record of {', '.join(feature)}"
    if inner := getattr(feature, "feature", None):
        return f"list of {_type_of(inner)}"
    names = getattr(feature, "names", None)
    return f"{len(names)} classes" if names else str(getattr(feature, "dtype", type(feature).__name__))


def listed(names: Iterable[str]) -> str:
    """Returns names as a text, the first of them if they are many."""
    return textwrap.shorten(", ".join(names), SHOWN, placeholder=" ...")
