"""The best setting with seeds of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from fake_records import record
from plans import plan

from sentattn.config.request import read_request
from sentattn.run import Run
from sentattn.sweep.report.artifacts import write_best
from sentattn.sweep.report.confirm import arguments, confirm, line, read

HOPS = {"model.attention.hops": "range(1,31)"}
WINNER = record(4, 0.9, values={"model.attention.hops": 8})
VALUES = [0.80, 0.84, 0.82]


class Trained:
    """Runs with fixed metrics, without a training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[list[str]] = []

    def __call__(self, words: Sequence[str]) -> list[Run]:
        self.asked.append(list(words))
        runs = []
        for seed, value in enumerate(VALUES, start=1):
            path = self.folder / f"run-{seed}"
            path.mkdir(exist_ok=True)
            (path / "config.yaml").write_text(yaml.safe_dump({"seed": seed}))
            metrics = {"train/loss": 1.0, "val/accuracy": value, "test/accuracy": value - 0.01}
            (path / "result.json").write_text(json.dumps({"metrics": metrics}))
            runs.append(Run(path))
        return runs


def test_mean_and_interval_by_student(tmp_path: Path) -> None:
    """Mean 0.82, standard deviation 0.02, t(0.975, 2) = 4.302653: the half width is 4.302653 * 0.02 / sqrt(3)."""
    one, trained = plan(HOPS, confirm=3), Trained(tmp_path)
    found = confirm(one, tmp_path, WINNER, trained)
    assert found == json.loads((tmp_path / "confirm.json").read_text()) == read(tmp_path)
    assert (found["trial"], found["seeds"]) == (4, [1, 2, 3])
    assert set(found["metrics"]) == {"val/accuracy", "test/accuracy"}
    metric = found["metrics"]["test/accuracy"]
    assert metric["mean"] == pytest.approx(0.81)
    assert metric["interval"] == pytest.approx([0.81 - 0.0496828, 0.81 + 0.0496828])
    assert line(one, found) == (
        "mine: trial 4 confirmed with 3 seeds: val/accuracy 0.8200 (0.7703 to 0.8697), "
        "test/accuracy 0.8100 (0.7603 to 0.8597)"
    )


def test_a_confirmed_trial_is_not_trained_again_but_another_best_one_is(tmp_path: Path) -> None:
    one, trained = plan(HOPS, confirm=3), Trained(tmp_path)
    for winner in (WINNER, WINNER, record(5, 0.95, values={"model.attention.hops": 9})):
        confirm(one, tmp_path, winner, trained)
    assert len(trained.asked) == 2
    assert confirm(plan(HOPS, confirm=2), tmp_path, WINNER, trained)["trial"] == 4
    assert len(trained.asked) == 3


def test_the_runs_have_the_found_settings_new_seeds_and_the_test_set(tmp_path: Path) -> None:
    one = plan(HOPS, confirm=5, seed=7, repeats=2, output_dir=str(tmp_path / "out"))
    write_best(one, tmp_path, [WINNER])
    request = read_request(arguments(one, tmp_path, WINNER))
    assert [settings["seed"] for settings in request.runs()] == [9, 10, 11, 12, 13]  # 7 and 8 were the trials' own
    settings = request.settings
    assert (settings["model"]["attention"]["hops"], settings["test"]) == (8, True)
    assert (settings["group"], settings["output_dir"], request.resume) == (None, str(tmp_path / "out"), "auto")


def test_a_searched_seed_and_several_gpus_are_used(tmp_path: Path) -> None:
    winner = record(0, 0.9, values={"seed": 41})
    words = arguments(plan({"seed": "range(0,50)"}, confirm=2, gpus_per_trial=2), tmp_path, winner)
    assert {"seed=42", "seeds=2", "trainer.devices=2", "trainer.strategy=ddp"} <= set(words)


def test_one_seed_has_no_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_confirm.VALUES", [0.5])
    one = plan(HOPS, confirm=1)
    found = confirm(one, tmp_path, WINNER, Trained(tmp_path))
    assert found["metrics"]["val/accuracy"]["interval"] is None
    assert line(one, found).endswith("with 1 seed: val/accuracy 0.5000, test/accuracy 0.4900")


def test_a_damaged_file_counts_as_missing(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "confirm.json").write_text("{torn")
    assert read(tmp_path) is None
