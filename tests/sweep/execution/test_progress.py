from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from fake_study import Listed, prepared, scheduler, slots
from rich.console import Console

from sentattn.sweep.execution.interfaces import RunningTrial, TrialOutcome, TrialTask
from sentattn.sweep.execution.progress import SweepProgress, duration, format_objective, format_values


def prepare(folder: Path, *, is_terminal: bool = False) -> tuple[Any, Any, Any, io.StringIO]:
    """The progress of a study, a trial, the study, and what is printed."""
    study = prepared(folder, Listed([]), trials=5)
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=is_terminal)
    values = {"model.attention.hops": 4, "optimizer.lr": 0.0012345, "model/pooling": "mean"}
    trial = RunningTrial(study, TrialTask(3, values, [], folder / "trials" / "3", ["val/accuracy"]), slots(1)[0])
    return SweepProgress([study], 2, console), trial, study, out


def test_the_lines_of_a_trial(tmp_path: Path) -> None:
    lines, trial, study, out = prepare(tmp_path)
    lines.started(trial)
    trial.source.results = {3: ("complete", [0.875], "")}
    study.best_values = {3: [0.875]}
    trial.since -= 60
    lines.ended(trial, TrialOutcome("complete", values=[0.875]))
    started, ended = out.getvalue().splitlines()
    assert started.partition(": ")[2].split(", ") == ["hops=4", "lr=0.001234", "pooling=mean"]
    assert "CPU 1" in started
    for value in ("trial 3", "val/accuracy 0.8750", "60 s", "best", "1 of 5", "2 min"):
        assert value in ended


def test_a_pruned_trial(tmp_path: Path) -> None:
    lines, trial, _, out = prepare(tmp_path)
    trial.epoch, trial.value = 2, 0.5
    lines.ended(trial, TrialOutcome("pruned"))
    for value in ("trial 3: pruned", "0.5000", "0 s", "0 of 5"):
        assert value in out.getvalue()


def test_a_failure_is_printed_with_its_reason_and_last_lines(tmp_path: Path) -> None:
    lines, trial, _, out = prepare(tmp_path)
    lines.ended(trial, TrialOutcome("failed", error="it was killed (SIGKILL)", log_lines=["a", "b", "[red]c", "d"]))
    first, *lines_of_log = out.getvalue().splitlines()
    assert first.startswith("trial 3 failed: ")
    assert "SIGKILL" in first
    assert f"{tmp_path}/trials/3/log.txt" in first
    assert [line.strip() for line in lines_of_log] == ["b", "[red]c", "d"]


def test_the_table(tmp_path: Path) -> None:
    board, trial, study, out = prepare(tmp_path, is_terminal=True)
    study.best_values = {1: [0.9]}
    with board:
        board.started(trial)
        assert board.tick() == pytest.approx(0.5)
        assert "starting" in out.getvalue()
        trial.first_batch, trial.epochs, trial.epoch, trial.value = 1.0, 4, 2, 0.75
        board._drawn = 0.0
        board.tick()
        board.message("something")
    text = out.getvalue()
    for word in ("CPU 1", "training", "2/4", "0.7500", "hops=4", "0 of 5 finished; best: trial 1, val/accuracy 0.9000"):
        assert word in text
    assert "something" in text


def test_a_whole_sweep_on_a_terminal(tmp_path: Path) -> None:
    out = io.StringIO()
    study = Listed([["x=1"], ["act=refuse"], ["x=2"]])
    any_study: Any = study
    with SweepProgress([any_study], 2, Console(file=out, width=200, force_terminal=True)) as board:
        scheduler(tmp_path, study, trials=2, callbacks=[board]).run()
    text = out.getvalue()
    assert "trial 1 failed: x must be 2" in text
    assert "2 of 2 finished" in text


def test_of_several_studies_the_last_has_the_time_left(tmp_path: Path) -> None:
    out = io.StringIO()
    studies: list[Any] = [prepared(tmp_path / name, Listed([]), study=name) for name in ("a", "b")]
    with SweepProgress(studies, 2, Console(file=out, width=200, force_terminal=True)) as board:
        board._seconds.append(4.0)
        board.tick()
    lines = [line for line in out.getvalue().splitlines() if "of 3 finished" in line]
    assert ["left" in line for line in lines[-2:]] == [False, True]


def test_values_have_the_shortest_name() -> None:
    values = {"model.encoder.hidden": 8, "model.attention.hidden": 4, "model/encoder": "cnn", "seed": None}
    shown = format_values(values).split(", ")
    assert shown == ["encoder.hidden=8", "attention.hidden=4", "encoder=cnn", "seed=null"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.4, "7 s"), (99, "99 s"), (150, "2 min"), (5400, "90 min"), (9000, "2.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "1.0000"), (0.0, "0.0000"), (0.87654, "0.8765"), (57371.0, "57,371"), (1.25, "1.2500")]
)
def test_figures_have_four_places_and_counts_none(value: float, shown: str) -> None:
    assert format_objective(value) == shown
