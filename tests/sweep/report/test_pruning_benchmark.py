"""The replay of a pruner on curves whose answer is known."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[3] / "benchmarks" / "sweep_pruning.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sweep_pruning", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FLAT = [[0.4] * 4, [0.4] * 4, [0.6] * 4, [0.4] * 4]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize(
    ("curves", "mode", "name", "given", "answer"),
    [
        # Each of three is ended after the first of four epochs: 9 of 16 are saved.
        (FLAT, "max", "threshold", {"lower": 0.5}, (9 / 16, 0.0)),
        (FLAT, "min", "threshold", {"upper": 0.5}, (3 / 16, 0.0)),
        (FLAT, "max", "none", {}, (0.0, 0.0)),
        # What begins badly and ends best is lost: 0.9 against 0.6.
        ([[0.4, 0.9], [0.6, 0.6], [0.5, 0.5]], "max", "threshold", {"lower": 0.45}, (1 / 6, 0.3)),
    ],
)
def test_epochs_saved_and_regret_by_hand(
    benchmark: ModuleType,
    curves: Any,
    mode: str,
    name: str,
    given: dict[str, float],
    answer: Any,
    seed: int,
    slots: int,
) -> None:
    assert benchmark.replay(curves, mode, name, given, seed, slots) == pytest.approx(answer)


def test_a_median_pruner_saves_by_the_order(benchmark: ModuleType) -> None:
    """Of a good and a bad trial the bad one is ended after an epoch if it comes second: 3 of 8 epochs."""
    curves = [[0.9] * 4, [0.1] * 4]
    found = {benchmark.replay(curves, "max", "median", {"n_startup_trials": 1}, seed)[0] for seed in range(20)}
    assert found == {0.0, 3 / 8}


def test_the_table_has_means_and_worst(benchmark: ModuleType) -> None:
    trials = [{"curve": [0.4, 0.9]}, {"curve": [0.6, 0.5]}, {"curve": []}]
    kept = {"metric": "val/accuracy", "mode": "max", "trials": trials}
    heading, _, line = benchmark.table(kept, ["threshold"], {"lower": 0.5}, 5).splitlines()
    assert heading == "2 trials, 4 epochs, 5 orders, 1 at once; val/accuracy from 0.6000 to 0.9000"
    assert line.split() == ["threshold", "25.0", "%", "25.0", "to", "25.0", "%", "30.000", "30.000", "5", "of", "5"]
