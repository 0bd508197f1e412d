"""Data sets of the Hugging Face Hub, and folders in its formats, by `datasets`: their splits and columns; no torch."""

from __future__ import annotations

import functools
import re
import textwrap
from pathlib import Path
from typing import Any

from sentattn.config.types import Node, Tree
from sentattn.data.readers.archives import neighbour
from sentattn.data.readers.tables import as_columns, setting_faults
from sentattn.errors import DataError, Fault, require_packages, suggestion

DATASET_KEY, TARGET = "data.dataset", "sentattn.data.datasets.hub.Hub"
SPLITS = {"train": "train", "validation": "val", "val": "val", "dev": "val", "valid": "val", "test": "test"}
"""Our names of the splits of the Hub."""
TIMEOUT, SHOWN = 10.0, 300
"""Seconds in which the Hub must answer; most characters of a list, or of a library's message, in a message."""
STRING = r"(large_)?string"
WORD = rf"{STRING}|bool|u?int\d+|(half)?float|double|date\d.*|timestamp.*"
"""Types of Arrow of columns of texts, and of labels and groups."""


def check(data: Node) -> None:
    """Finds the splits and columns of `data=hub` as `find` does; settings of other data sets pass."""
    if data["_target_"] == TARGET:
        find(data)


def find(data: Node) -> tuple[Tree, Tree, tuple[str, ...]]:
    """Returns the rows (`datasets.Dataset`) of each split with labels, the columns, and notes for the user.

    Raises:
        SettingError: If `datasets` is not installed.
        DataError: If the data set cannot be loaded, a split or column cannot be found, or settings exclude each other.
    """
    require_packages("data", "data=hub", ["datasets"], "sentattn[hub]")
    if not (dataset := data["dataset"]):
        message = "data=hub has no rows: type data.dataset=USER/NAME, such as fancyzhx/ag_news, or a folder."
        raise DataError(Fault(DATASET_KEY, "missing", message))
    loaded = _load(dataset, data["config"], data["revision"])
    splits = {split: loaded[name] for name, split in SPLITS.items() if loaded.get(name)}
    if not splits:
        message = (
            f"{DATASET_KEY}={dataset} must have rows in a split train or test, got the splits {', '.join(loaded)}."
        )
        raise DataError(Fault(DATASET_KEY, "missing", message))
    columns = _find_columns(next(iter(splits.values())).features, data)
    splits = {split: rows for split, rows in splits.items() if columns["label"] in rows.features}
    for rows in splits.values():  # their columns may differ
        _find_columns(rows.features, {**data, **columns})
    hidden = {split: rows for split, rows in splits.items() if not _has_labels(rows, columns["label"])}
    notes = tuple(f"Left out {split}: none of its {len(rows):,} rows has a label." for split, rows in hidden.items())
    splits = {split: rows for split, rows in splits.items() if split not in hidden}
    if faults := setting_faults({**data, **columns, "val": "of the data set" if "val" in splits else None}):
        raise DataError(*faults)
    return splits, columns, notes


def _has_labels(rows: Any, column: str) -> bool:
    """Returns whether any row has a label; -1 is a missing one of named classes, by convention."""
    from pyarrow import compute

    labels = rows.select_columns(column).with_format("arrow")[:][column]
    is_named = hasattr(rows.features[column], "names")
    return bool(compute.any(compute.greater_equal(labels, 0) if is_named else labels.is_valid()).as_py())


def _load(dataset: str, config: str | None, revision: str | None) -> Tree:
    """Returns the splits of a folder or of a data set of the Hub, by the names that they have there."""
    import datasets

    path, advice = Path(dataset), ""
    try:
        path = path.expanduser()
        is_saved = any((path / name).is_file() for name in ("dataset_dict.json", "state.json"))  # by `save_to_disk`
        if (is_saved and config) or (path.is_dir() and revision):
            raise ValueError("a folder has no data.revision, and one that save_to_disk has written no data.config")
        if is_saved:
            saved = datasets.load_from_disk(path)
            return dict(saved) if isinstance(saved, dict) else {"train": saved}
        if path.is_dir():
            return dict(datasets.load_dataset(str(path), config))
        advice = " It must be a folder, or a name on the Hub; hf auth login opens private ones, data=table reads files."
        return _load_from_hub(dataset, config, revision)
    except Exception as error:  # the library meets damaged files with errors of many kinds
        is_general = isinstance(error, datasets.exceptions.DatasetGenerationError)
        reason = textwrap.shorten(str((is_general and error.__cause__) or error), SHOWN) or type(error).__name__
        message = (
            f"{DATASET_KEY}={dataset} cannot be loaded: {reason.rstrip('.')}.{advice and advice + neighbour(path)}"
        )
        raise DataError(
            Fault(DATASET_KEY, "not_found" if isinstance(error, OSError) else "damaged", message)
        ) from error


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
        return dict(datasets.load_dataset(dataset, config, revision=revision))
    finally:
        datasets.config.HF_HUB_OFFLINE = was_offline


def _find_columns(features: Any, data: Node) -> Tree:
    """Returns the columns `text` and `label`: those that are named, or else those with named classes or strings.

    Raises:
        DataError: For each column that cannot be found or has another type, with all columns and their types.
    """
    types = {field.name: str(field.type) for field in features.arrow_schema}
    strings, words = ([name for name, kind in types.items() if re.fullmatch(legal, kind)] for legal in (STRING, WORD))
    classes = [name for name in types if hasattr(features[name], "names")]
    label = data["label"] or (classes[0] if len(classes) == 1 else "label")
    others = [name for name in strings if name not in (label, data["group"])]
    texts = data["text"] or (others[0] if len(others) == 1 else "text")
    columns = textwrap.shorten(", ".join(f"{name} ({kind})" for name, kind in types.items()), SHOWN, placeholder=" ...")
    faults = []
    named = [*(("text", name) for name in as_columns(texts)), ("label", label), ("group", data["group"])]
    for key, name in named:
        legal = strings if key == "text" else words
        if name is not None and name not in legal:
            must = "strings, or a list of them (map() joins tokens)" if key == "text" else "words, numbers or dates"
            message = f"data.{key}={name} must be a column of {must}; there are {columns}.{suggestion(name, legal)}"
            faults.append(Fault(f"data.{key}", "type" if name in types else "unknown", message))
    if faults:
        raise DataError(*faults)
    return {"text": texts, "label": label}
