"""Trials that really train: what they record, and what is in their directories."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_sweep import plan
from studies import Read, ask, read, train
from tiny import tiny

from sentattn.config.groups import get_path
from sentattn.errors import SettingError, TrainingError
from sentattn.run import Run
from sentattn.sweep.plan import Objective, metric_of
from sentattn.sweep.records import TrialReport, TrialTask, continue_from
from sentattn.sweep.study import SweepStudy
from sentattn.sweep.trial import run_trial


def begin(folder: Path, *settings: str, **others: Any) -> TrialTask:
    """Begins a study in a folder of its own, with these settings of a tiny training; returns its first trial."""
    overrides = tuple(tiny("model=structured", *settings))
    with SweepStudy.open(
        plan(9, overrides=overrides, output_dir=str(folder), **others), folder / "study", train
    ) as study:
        [task] = ask(study).arguments
    assert isinstance(task, TrialTask)
    return task


def record(task: TrialTask) -> Read:
    return read(Path(task.study))[task.number]


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def prune_at(step: int, patch: pytest.MonkeyPatch) -> None:
    """Prunes trials after a step."""
    patch.setattr(TrialReport, "step", lambda self, number, value: number == step)


def test_the_value_is_that_of_the_best_epoch(tmp_path: Path) -> None:
    task = begin(tmp_path, "optimizer.lr=0.05", "trainer.max_epochs=3")
    run_trial(task, 1, 1)
    run, metric = Run(task.folder), "val/accuracy"
    so_far = [max(row[metric] for row in rows(run.path)[:count]) for count in (1, 2, 3)]
    found = record(task)
    assert (found.state, found.objectives) == ("complete", (run.metrics[metric],))
    assert found.steps == {step: pytest.approx(value) for step, value in enumerate(so_far, start=1)}
    assert run.metrics[metric] == pytest.approx(so_far[-1], abs=1e-6)
    assert (run.result["status"], run.result["study"]) == ("finished", "study")
    assert run.settings["group"] == "fake"
    assert not any(name.startswith("test/") for name in run.metrics), "trials never use the test set"


def test_repeats_have_seeds_of_their_own_and_count_by_their_mean(tmp_path: Path) -> None:
    task = begin(tmp_path, "trainer.max_epochs=1", repeats=2, seed=3)
    run_trial(task, 1, 1)
    runs = [Run(task.folder / f"seed-{seed}") for seed in (3, 4)]
    assert [run.settings["seed"] for run in runs] == [3, 4]
    values = [run.metrics["val/accuracy"] for run in runs]
    assert record(task).objectives == (pytest.approx(statistics.fmean(values)),)
    assert record(task).steps == dict(enumerate(values, start=1))


def test_a_pruned_trial_has_metrics_and_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = begin(tmp_path, "trainer.max_epochs=3")
    prune_at(2, monkeypatch)
    run_trial(task, 1, 1)
    run = Run(task.folder)
    assert record(task).state == run.result["status"] == "pruned"
    assert 0 <= run.result["metrics"]["val/accuracy"] <= 1
    assert len(rows(run.path)) == 2
    assert not (run.path / "model").exists()


def test_no_trial_is_pruned_after_its_last_epoch_or_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = begin(tmp_path / "a", "trainer.max_epochs=2")
    repeats = begin(tmp_path / "b", "trainer.max_epochs=1", repeats=2)
    prune_at(2, monkeypatch)
    for task in (epochs, repeats):
        run_trial(task, 1, 1)
        assert record(task).state == "complete"


def test_of_repeats_the_rest_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = begin(tmp_path, "trainer.max_epochs=1", repeats=2)
    prune_at(1, monkeypatch)
    run_trial(task, 1, 1)
    assert record(task).state == "pruned"
    assert not (task.folder / "seed-1").exists()


def test_a_trial_that_diverges_is_pruned_with_its_error(tmp_path: Path) -> None:
    task = begin(tmp_path, "optimizer.lr=1e30")
    with pytest.raises(TrainingError):
        run_trial(task, 1, 1)
    assert record(task).state == "pruned"
    assert "NaN" in record(task).error


def test_a_setting_that_is_refused(tmp_path: Path) -> None:
    task = begin(tmp_path)
    with pytest.raises(SettingError):
        run_trial(replace(task, settings=None, arguments=[*task.arguments, "model.attention.hops=0"]), 1, 1)
    assert record(task).state == "failed"
    assert record(task).error.startswith("model.attention.hops")


@pytest.mark.parametrize("costs", [("parameters.total",), ("latency_ms.one", "parameters.total")])
def test_costs_of_a_run_are_objectives(tmp_path: Path, costs: tuple[str, ...]) -> None:
    task = begin(tmp_path, "trainer.max_epochs=1", objectives=tuple(Objective(cost, "min") for cost in costs))
    run_trial(task, 1, 1)
    found, result = record(task), Run(task.folder).result
    assert (found.state, found.objectives) == ("complete", tuple(get_path(result, cost) for cost in costs))
    assert found.steps == {}, "trials are not compared before their end"
    assert ("latency_ms" in result) == ("latency_ms.one" in costs), "it is timed for an objective alone"


class Died(BaseException):
    """What ends a process, as far as its files know."""


def interrupt(task: TrialTask, patch: pytest.MonkeyPatch) -> None:
    """Trains until the second epoch is reported."""
    step = TrialReport.step

    def die(self: TrialReport, number: int, value: float) -> bool:
        if number == 2:
            raise Died
        return step(self, number, value)

    with patch.context() as patched:
        patched.setattr(TrialReport, "step", die)
        with pytest.raises(Died):
            run_trial(task, 1, 1)


@pytest.mark.parametrize("repeats", [1, 2])
def test_the_next_attempt_at_an_interrupted_trial_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeats: int
) -> None:
    words = ("trainer.max_epochs=3", "model.head.dropout=0.3")
    alone = begin(tmp_path / "alone", *words, repeats=repeats)
    run_trial(alone, 1, 1)
    task = begin(tmp_path, *words, repeats=repeats)
    interrupt(task, monkeypatch)
    before = rows(task.folder / ("seed-0" if repeats > 1 else "."))
    old = task.folder.rename(tmp_path / "old")
    task.folder.mkdir()
    continue_from(old, task.folder)
    assert not [*old.rglob("*.ckpt")]
    run_trial(task, 1, 1)
    after = rows(task.folder / ("seed-0" if repeats > 1 else "."))
    assert after[0] == before[0], "with its seconds: it was not trained again"
    assert len(after) == 3
    whole, resumed = record(alone), record(task)
    assert whole.state == resumed.state == "complete"
    assert (resumed.objectives, resumed.steps) == (whole.objectives, whole.steps)


def test_a_trial_that_was_killed_before_it_had_recorded_its_end_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = begin(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(TrialReport, "end", lambda *_: None)
        run_trial(task, 1, 1)
    assert record(task).state == "running"
    before = rows(task.folder)
    run_trial(task, 1, 1)
    assert (record(task).state, rows(task.folder)) == ("complete", before)


def test_a_trial_whose_checkpoint_cannot_be_read_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = begin(tmp_path)
    interrupt(task, monkeypatch)
    Run(task.folder).last_checkpoint.write_bytes(b"torn")
    run_trial(task, 1, 1)
    assert record(task).state == "complete"
    assert [row["epoch"] for row in rows(task.folder)] == [1, 2]


def test_metrics_that_can_be_objectives(tiny_run: Run) -> None:
    assert metric_of(tiny_run.result, "parameters.total") == tiny_run.result["parameters"]["total"]
    assert metric_of(tiny_run.result, "val/accuracc") is None
    assert metric_of({"metrics": {"val/loss": float("nan")}}, "val/loss") is None
