"""Run directories with predictions drawn at random, as a comparison reads them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.runs import EvaluatedRun, Rows, Setting
from sentattn.config.compose import compose
from sentattn.config.hashing import setting_hash
from sentattn.data.splits import draw_folds
from sentattn.run import Run, yaml_text


@functools.cache
def composed(*overrides: str) -> tuple[dict[str, Any], str]:
    """Returns the settings of a run, which are those of all seeds, and their hash."""
    settings = compose([*overrides, "logger=none"])
    return settings, setting_hash(settings)


def make_run(
    folder: Path,
    *overrides: str,
    seed: int = 0,
    accuracy: float = 0.8,
    rows: int = 200,
    films: int = 0,
    rows_seed: int = 0,
    split: str = "test",
    **result: Any,
) -> Path:
    """Writes a finished run whose predictions are correct with a probability; with `data.fold` of that fold alone."""
    shared, setting = composed(*overrides)
    settings = {**shared, "seed": seed}
    fold = settings["data"].get("fold")
    name = f"2026-{setting}-{seed}" + ("" if fold is None else f"-{fold}")
    path: Path = folder / settings["data"]["name"] / settings["model"]["name"] / name
    (path / "model").mkdir(parents=True)
    (path / "config.yaml").write_text(yaml_text(settings))
    (path / "model" / "config.yaml").write_text(yaml.safe_dump({"ordered": False}))
    fixed = np.random.default_rng(rows_seed)
    labels, groups = fixed.integers(2, size=rows), fixed.integers(films, size=rows) if films else None
    random = np.random.default_rng([seed, *path.name.encode()])
    predicted = np.where(random.random(rows) < accuracy, labels, 1 - labels)
    confidence = random.uniform(0.55, 1, rows).astype(np.float32)
    probabilities = np.where(np.arange(2) == predicted[:, None], confidence[:, None], 1 - confidence[:, None])
    tested = np.arange(rows)
    if fold is not None:
        tested = np.flatnonzero(draw_folds(labels, groups, settings["data"]["folds"], seed) == fold)
        result = {"data_fingerprint": f"{seed} {fold}", **result}
        labels, predicted, probabilities = labels[tested], predicted[tested], probabilities[tested]
        groups = None if groups is None else groups[tested]
    write_predictions(path, split, labels, predicted, probabilities, groups, tested)
    log_loss = float(-np.log(probabilities[np.arange(len(labels)), labels]).mean())
    metrics = {"val/accuracy": accuracy, f"{split}/accuracy": float((predicted == labels).mean())}
    metrics[f"{split}/log_loss"] = log_loss
    content = {
        "format": 2,
        "status": "finished",
        "setting": setting,
        "study": None,
        "model": settings["model"]["name"],
        "data": settings["data"]["name"],
        "seed": seed,
        "settings": settings,
        "metrics": metrics,
        "parameters": {"total": 1234},
        "seconds": {"train": 10.0 + seed, "total": 12.0},
        "tokens_per_second": 1000.0,
    }
    (path / "result.json").write_text(json.dumps(content | result))
    return path


def make_seeds(folder: Path, accuracies: Mapping[str, float], *overrides: str, seeds: int = 3, **options: Any) -> None:
    """Writes the runs of some seeds of variants by their names, with an accuracy each."""
    for model, accuracy in accuracies.items():
        for seed in range(seeds):
            make_run(folder, f"model={model}", *overrides, seed=seed, accuracy=accuracy, **options)


def write_predictions(
    path: Path,
    split: str,
    labels: Any,
    predicted: Any,
    probabilities: Any,
    groups: Any | None = None,
    rows: Any | None = None,
) -> None:
    """Writes `predictions.parquet` as a training does."""
    count = len(labels)
    rows = np.arange(count) if rows is None else rows
    table = pa.table(
        {
            "split": [split] * count,
            "row": rows,
            "row_id": [f"{number:016x}" for number in rows],
            "group": [""] * count if groups is None else [f"tt{group}" for group in groups],
            "length": np.full(count, 20, np.int32),
            "label": np.asarray(labels, np.int32),
            "predicted": np.asarray(predicted, np.int32),
            "probabilities": pa.array(np.asarray(probabilities).tolist(), pa.list_(pa.float32())),
        }
    )
    pq.write_table(table, path / "predictions.parquet")


def make_setting(
    probabilities_SNC: Any,
    labels_N: Any,
    name: str = "mine",
    *,
    settings: dict[str, Any] | None = None,
    path: Path = Path("none"),
    groups: Any = None,
    deterministic: bool = False,
    ordered: bool = False,
) -> Setting:
    """Makes a setting from the probabilities of its seeds, without files."""
    labels = np.asarray(labels_N)
    ids = tuple(f"{number:016x}" for number in range(len(labels)))
    rows = Rows(ids, labels, groups, np.full(len(labels), 20))
    runs = [
        EvaluatedRun(Run(path), settings or {}, {}, "", seed, rows, np.asarray(p_NC, float), ordered)
        for seed, p_NC in enumerate(probabilities_SNC)
    ]
    return Setting(name, runs, deterministic, ordered)


PLAN: dict[str, Any] = {
    "split": "test",
    "metric": "accuracy",
    "margin": 0.5,
    "seeds": [0, 1, 2],
    "base": ["model=structured", "data=demo"],
    "pairs": [
        {"a": {"model/attention": "structured"}, "b": {"model/attention": "uniform"}},
        {"a": {"model.freeze_attention": False}, "b": {"model.freeze_attention": True}},
    ],
}


def write_plan(folder: Path, **changes: Any) -> Path:
    """Writes a plan of two pairs with changes; what is None is left out."""
    folder.mkdir(exist_ok=True)
    file = folder / "plan.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in (PLAN | changes).items() if value is not None}))
    return file


def compare(folder: Path, split: str = "test", **options: Any) -> Comparison:
    """Returns the comparison of the runs in a folder, which have the same rows."""
    [comparison], _ = read_comparisons([folder], split=split)
    return replace(comparison, **options)


def lines(seeds: int = 3, rows: int = 200, **accuracies: float) -> pd.DataFrame:
    """Predictions that are correct with a probability, of settings by their names."""
    labels = np.random.default_rng(0).integers(2, size=rows)
    frames = []
    for number, (setting, accuracy) in enumerate((accuracies or {"new": 0.9, "old": 0.7}).items()):
        for seed in range(seeds):
            is_correct = np.random.default_rng([seed, number]).random(rows) < accuracy
            predicted = np.where(is_correct, labels, 1 - labels)
            frame = {"row": range(rows), "setting": setting, "seed": seed, "label": labels, "predicted": predicted}
            frames.append(pd.DataFrame(frame).replace({"label": {0: "no", 1: "yes"}, "predicted": {0: "no", 1: "yes"}}))
    return pd.concat(frames, ignore_index=True)
