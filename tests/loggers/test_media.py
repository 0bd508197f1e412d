"""Pictures of the best epoch: which rows they show, and that the training is the same without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny

from sentattn import fit
from sentattn.loggers.wandb import media
from sentattn.loggers.wandb.media import LEGIBLE, legible_rows
from sentattn.prediction.model import LoadedRun


@pytest.mark.parametrize(
    "model",
    [
        ["model=structured", "model.encoder.hidden=4", "model.attention.hidden=5"],
        ["model=relation", "model.attention.hidden=4"],
    ],
)
def test_a_training_is_the_same_with_and_without_wandb(tmp_path: Path, model: list[str]) -> None:
    shared = [setting for setting in tiny() if not setting.startswith(("model.", "logger"))]

    def run(name: str, *settings: str) -> LoadedRun:
        return fit([*shared, *model, "model.embedding.size=8", f"output_dir={tmp_path / name}", *settings])

    drawn = ["logger=wandb", "logger.examples=1", "logger.texts=[A fine film.]"]
    with_it, without = run("with", *drawn), run("without", "logger=none")
    for name in ("model/model.safetensors", "predictions.parquet"):
        assert (with_it.path / name).read_bytes() == (without.path / name).read_bytes()
    assert _steady(with_it) == _steady(without)


def _steady(run: LoadedRun) -> list[dict[str, Any]]:
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    fleeting = ("train_seconds", "train/tokens_per_second")
    return [{name: value for name, value in json.loads(line).items() if name not in fleeting} for line in lines]


def test_the_drawn_weights_are_those_of_the_best_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    picture = media.picture
    monkeypatch.setattr(media, "picture", lambda predictions: seen.extend(predictions) or picture(predictions))
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb", "logger.examples=1", "ema_decay=0.9"))
    [drawn] = seen  # once, and not in each of two epochs
    [own] = run.predict([drawn.text])
    assert drawn.probabilities == pytest.approx(own.probabilities, abs=1e-6)
    assert drawn.attention[0] == pytest.approx(own.attention[0], abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 90)), min_size=1, max_size=30), st.integers(0, 12))
def test_legible_rows_are_of_all_classes_in_turn(rows: list[tuple[int, int]], count: int) -> None:
    labels, lengths = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    chosen = legible_rows(labels, lengths, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(rows))
    numbers = [sum(labels[row] == label for row in chosen) for label in set(labels.tolist())]
    if len(rows) > count and all((labels == label).sum() * 3 >= len(rows) for label in set(labels.tolist())):
        assert max(numbers) - min(numbers) <= 1
    for row in chosen:
        nearer = abs(lengths - LEGIBLE) < abs(lengths[row] - LEGIBLE)
        assert set(np.flatnonzero(nearer & (labels == labels[row])).tolist()) <= set(chosen)


def test_legible_rows_by_hand() -> None:
    labels, lengths = np.array([0, 0, 0, 1, 1]), np.array([5, 31, 29, 90, 40])
    assert legible_rows(labels, lengths, 4) == [1, 4, 2, 3]
