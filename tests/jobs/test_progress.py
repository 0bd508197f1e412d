"""The lines and the table of running jobs."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from fake_jobs import FakeProcess, FakeSource, make_job, make_slots
from rich.console import Console

from sentattn.jobs import progress
from sentattn.jobs.job import RunningJob
from sentattn.jobs.progress import JobProgress, duration, format_objective
from sentattn.run import yaml_text

VALUES = {"model.attention.hops": 4, "optimizer.lr": 0.0012345, "model/pooling": "mean"}


def running(source: FakeSource, folder: Path, number: int = 3, **changed: Any) -> RunningJob:
    job = make_job(number, folder, **{"values": VALUES, **changed})
    slot = make_slots(1)[0]
    return RunningJob(source, job, slot, FakeProcess(number, slot, None))


def shown(*sources: FakeSource, width: int = 200, is_terminal: bool = False) -> tuple[JobProgress, io.StringIO]:
    """A progress, and what it prints."""
    out = io.StringIO()
    return JobProgress(sources, 2, Console(file=out, width=width, force_terminal=is_terminal)), out


def train(folder: Path, epochs: int, **row: float) -> None:
    """What a training leaves while it runs."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml_text({"trainer": {"max_epochs": 7}, "data": {}, "model": {}}))
    lines = [json.dumps({"epoch": epoch, **row}) for epoch in range(1, epochs + 1)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REFRESH", 0.0)


def table(one: JobProgress, out: io.StringIO, *jobs: RunningJob) -> list[str]:
    """The lines of the table that is drawn."""
    out.truncate(out.seek(0))
    with one:
        one.draw(jobs)
        text = out.getvalue()
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;?]*\w|\r", "", text).splitlines() if line.strip()]


def test_the_lines_of_a_trial(tmp_path: Path) -> None:
    source = FakeSource(5)
    lines, out = shown(source)
    trial = running(source, tmp_path)
    lines.started(trial)
    source.results[3] = 0, ""
    trial.since -= 60
    lines.ended(trial, "val/accuracy 0.8750, the best so far")
    lines.draw([trial])
    started, ended = out.getvalue().splitlines()
    assert started == "trial 3 on CPU 1: hops=4, lr=0.001234, pooling=mean"
    assert ended == "trial 3: val/accuracy 0.8750, the best so far (60 s); 1 of 5 finished, about 2 min left"


def test_the_lines_of_a_log_follow_a_failure(tmp_path: Path) -> None:
    source = FakeSource(5)
    lines, out = shown(source)
    lines.ended(running(source, tmp_path), "failed: it was killed\n[red]a\nb")
    first, *log = out.getvalue().splitlines()
    assert first.startswith("trial 3: failed: it was killed (0 s); 0 of 5 finished")
    assert log == ["    [red]a", "    b"]


def test_a_run_of_a_grid_is_named_by_its_values(tmp_path: Path) -> None:
    source = FakeSource(5, "grid")
    lines, out = shown(source)
    lines.started(running(source, tmp_path, name="hops=4, seed=1", values={"model.attention.hops": 4, "seed": 1}))
    assert out.getvalue() == "hops=4, seed=1 on CPU 1\n"


def test_a_table_of_eighty_columns(tmp_path: Path) -> None:
    source = FakeSource(12)
    board, out = shown(source, width=80, is_terminal=True)
    source.best = lambda: "trial 1, val/accuracy 0.9000"  # type: ignore[method-assign]
    train(tmp_path / "3", 2, **{"val/accuracy": 0.75, "val/loss": 0.5})
    trial, starting = running(source, tmp_path), running(source, tmp_path, 11)
    trial.since -= 75
    header, first, *wrapped, second, state = table(board, out, trial, starting)
    assert header.split() == ["job", "where", "epoch", "value", "for", "varies"]
    assert first.split()[:7] == ["3", "CPU", "1", "2/7", "0.7500", "75", "s"]
    assert second.split()[:5] == ["11", "CPU", "1", "-", "-"]
    assert "hops=4, lr=0.001234, pooling=mean" in " ".join(" ".join([first, *wrapped]).split())
    assert state == "0 of 12 finished; best: trial 1, val/accuracy 0.9000"
    assert max(map(len, [header, first, *wrapped, second, state])) <= 80


def test_the_row_of_a_job_that_is_being_ended(tmp_path: Path) -> None:
    source = FakeSource(2)
    board, out = shown(source, is_terminal=True)
    trial = running(source, tmp_path)
    trial.stopped = True
    assert "ending" in table(board, out, trial)[1]


def test_of_a_trial_with_repeats_the_last_training_is_shown(tmp_path: Path) -> None:
    source = FakeSource(2)
    board, out = shown(source, is_terminal=True)
    for seed, epochs in ((0, 7), (1, 3)):
        train(tmp_path / "3" / f"seed-{seed}", epochs, **{"val/accuracy": 0.5 + seed / 10})
    row = table(board, out, running(source, tmp_path))[1]
    assert "3/7" in row
    assert "0.6000" in row


@pytest.mark.parametrize("content", ["", '{"epoch": 1, "val/acc', "{}\n", None])
def test_metrics_that_are_being_written(tmp_path: Path, content: str | None) -> None:
    source = FakeSource(2)
    board, out = shown(source, is_terminal=True)
    train(tmp_path / "3", 1)
    if content is None:
        (tmp_path / "3" / "config.yaml").unlink()
    else:
        (tmp_path / "3" / "metrics.jsonl").write_text(content)
    assert table(board, out, running(source, tmp_path))[1].split()[3:5] == ["-", "-"]


def test_lines_are_printed_above_the_table(tmp_path: Path) -> None:
    source = FakeSource(5)
    board, out = shown(source, is_terminal=True)
    with board:
        trial = running(source, tmp_path)
        board.started(trial)
        assert "hops" not in out.getvalue()
        board.draw([trial])
        board.message("something")
        board.ended(trial, "val/accuracy 0.5")
    text = out.getvalue()
    assert "something" in text
    assert "trial 3: val/accuracy 0.5 (0 s); 0 of 5 finished\n" in text, "the table has the time left"


def test_of_several_studies_the_last_has_the_time_that_all_have_left(tmp_path: Path) -> None:
    studies = [FakeSource(3, "a"), FakeSource(3, "b")]
    board, out = shown(*studies, is_terminal=True)
    studies[0].results[3] = 0, ""
    trial = running(studies[0], tmp_path)
    trial.since -= 70
    board.ended(trial, "val/accuracy 0.5")
    assert "a, trial 3: val/accuracy 0.5 (70 s)" in out.getvalue()
    lines = table(board, out, running(studies[1], tmp_path))
    assert lines[1].startswith("b, trial 3 ")
    assert lines[-2:] == ["a: 1 of 3 finished", "b: 0 of 3 finished, about 3 min left"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.4, "7 s"), (99, "99 s"), (150, "2 min"), (5400, "90 min"), (9000, "2.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1.0000"), (0.0, "0.0000"), (0.87654, "0.8765"), (57371.0, "57,371"), (57371, "57,371")]
)
def test_figures_have_four_places_and_counts_none(value: float, text: str) -> None:
    assert format_objective(value) == text
