"""A grid: what is trained, skipped, resumed and missing, with trials that are real processes but do not train."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fake_study import Noted, engine, slots
from plans import plan
from processes import gone, when

from sentattn import build, run
from sentattn.config.compose import compose
from sentattn.errors import Interruption
from sentattn.grid.grid import Cell, Grid
from sentattn.run import yaml_text
from sentattn.sweep.execution.interfaces import TrialOutcome
from sentattn.sweep.execution.scheduler import Scheduler


def cell(folder: Path, seed: int, *arguments: str) -> Cell:
    """A training of the demo; its arguments are those of a fake trial."""
    settings = compose([f"output_dir={folder}", f"seed={seed}"])
    return Cell(f"seed={seed}", {"seed": seed}, list(arguments), settings)


def grid(folder: Path, *arguments: list[str], retries: int = 1) -> Grid:
    """A grid of seeds."""
    cells = [cell(folder, seed, *words) for seed, words in enumerate(arguments)]
    return Grid(cells, plan(study="grid", retries=retries))


def make_run(folder: Path, seed: int, name: str, *, status: str = "", checkpoint: bool = True) -> Path:
    """A run of a seed: one with a status has ended."""
    path = folder / "demo" / "structured" / name
    (path / "checkpoints").mkdir(parents=True)
    (path / "config.yaml").write_text(yaml_text(cell(folder, seed).settings))
    if checkpoint:
        (path / "checkpoints" / "last.ckpt").touch()
    if status:
        run.Run(path).write_result({"status": status, "seed": seed})
    return path


def train(one: Grid, folder: Path, *, count: int = 2) -> Noted:
    noted = Noted()
    Scheduler([one], slots(count), engine(folder), [noted]).run()
    return noted


def test_each_cell_is_an_ordinary_run_directory(tmp_path: Path) -> None:
    one = grid(tmp_path, ["x=1"], ["x=2"], ["x=3"])
    noted = train(one, tmp_path)
    assert noted.most == 2
    assert sorted(one.runs) == [0, 1, 2]
    assert {path.parent for path in one.runs.values()} == {tmp_path / "demo" / "structured"}
    assert all((path / "log.txt").read_text() == "acting \n" for path in one.runs.values())


def test_finished_runs_are_skipped_and_interrupted_ones_resumed_first(tmp_path: Path) -> None:
    finished = make_run(tmp_path, 0, "20260101-000000-aaaa", status="finished")
    failed = make_run(tmp_path, 1, "20260101-000000-bbbb", status="failed")
    interrupted = make_run(tmp_path, 2, "20260101-000000-cccc")
    begun = make_run(tmp_path, 3, "20260101-000000-dddd", checkpoint=False)
    one = grid(tmp_path, ["act=refuse"], [], [], [])
    assert (one.finished(), one.interrupted) == (1, 1)
    noted = train(one, tmp_path, count=1)
    assert [number for number, _ in noted.starts] == [2, 1, 3]
    assert (one.runs[0], one.runs[2], one.runs[3]) == (finished, interrupted, begun)
    assert one.runs[1] != failed
    assert one.errors == {}


def test_nothing_is_started_where_all_is_finished(tmp_path: Path) -> None:
    make_run(tmp_path, 0, "20260101-000000-aaaa", status="finished")
    one = grid(tmp_path, ["act=refuse"])
    assert one.waiting() == []
    train(one, tmp_path)
    assert not (tmp_path / "server.txt").exists()


def test_a_run_on_other_rows_is_no_finished_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (make_run(tmp_path, seed, f"20260101-000000-{seed}", status="finished") for seed in (0, 1))
    data = build.build_data(cell(tmp_path, 0).settings)
    data.prepare()
    for path, fingerprint in ((first, data.fingerprint), (second, "0" * 16)):
        run.Run(path).write_result(run.Run(path).result | {"data_fingerprint": fingerprint})
    one = grid(tmp_path, [], [])
    assert one.runs == {0: first}
    assert [waiting.name for waiting in one.waiting()] == ["seed=1"]
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {second}: ")


def test_finished_runs_count_where_the_data_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = compose([f"output_dir={tmp_path}", "data=imdb", f"data.path={tmp_path / 'gone.tar.gz'}"])
    path = tmp_path / "imdb" / "structured" / "20260101-000000-aaaa"
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(yaml_text(settings))
    run.Run(path).write_result({"status": "finished", "seed": 0, "data_fingerprint": "0" * 16})
    assert Grid([Cell("", {}, [], settings)], plan(study="grid")).runs == {0: path}
    assert "data.path=" in capsys.readouterr().err


def test_cells_that_fail_are_missing_and_keep_no_other_from_its_training(tmp_path: Path) -> None:
    one = grid(tmp_path, *[["act=refuse"]] * 6, ["act=once", "x=1"], ["act=raise"])
    train(one, tmp_path, count=1)
    assert sorted(one.runs) == [6], "it was killed once, and tried again"
    assert sorted(one.errors) == [0, 1, 2, 3, 4, 5, 7]
    assert one.errors[0].startswith("x must be 2 (log: ")
    assert "exit code 1 (log: " in one.errors[7]


def test_a_start_opens_each_file_of_finished_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dict(cell(tmp_path, 0).settings)
    cells = [Cell(f"{number}", {}, [], settings | {"ema_decay": (number + 1) / 100}) for number in range(20)]
    for number, one in enumerate(cells):
        path = tmp_path / "demo" / "structured" / f"20260101-000000-{number:04}"
        path.mkdir(parents=True)
        (path / "config.yaml").write_text(yaml_text(one.settings))
        run.Run(path).write_result({"status": "finished", "seed": 0})
    opened: Counter[Path] = Counter()
    read_text: Any = Path.read_text

    def count(path: Path, *arguments: Any, **options: Any) -> str:
        opened[path] += 1
        return str(read_text(path, *arguments, **options))

    monkeypatch.setattr(Path, "read_text", count)
    assert len(Grid(cells, plan(study="grid")).runs) == 20
    assert {path.name for path in opened} == {"config.yaml", "result.json"}
    assert len(opened) == 40
    assert set(opened.values()) == {1}


def test_a_cell_is_trained_by_one_of_two_grids_and_finished_for_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = grid(tmp_path, [], []), grid(tmp_path, [], [])
    asked, others = one.ask(), other.ask()
    assert asked
    assert others
    assert (asked.number, others.number) == (0, 1)
    assert (one.ask(), other.ask()) == (None, None)
    assert (one.elsewhere(), other.elsewhere()) == (1, 1)
    assert one.tick() is not None
    assert not one.ended()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" is being trained by ")[0] for line in lines] == ["seed=0", "seed=1"]
    assert all(f"process {os.getpid()}" in line for line in lines)
    for source, task in ((one, asked), (other, others)):
        (task.folder / "config.yaml").write_text(yaml_text(one.cells[task.number].settings))
        run.Run(task.folder).write_result({"status": "finished", "seed": task.number})
        source.tell(task.number, TrialOutcome("complete", [0.5]))
    assert (one.ask(), other.ask()) == (None, None)
    assert one.runs == other.runs == {0: asked.folder, 1: others.folder}
    assert (one.elsewhere(), one.tick(), bool(one.ended())) == (0, None, True)


def test_a_cell_that_another_grid_leaves_is_trained_here(tmp_path: Path) -> None:
    one, other = grid(tmp_path, []), grid(tmp_path, [])
    assert one.ask()
    assert other.ask() is None
    one.interrupt(0)
    assert other.ask()


def test_a_run_that_another_process_trains_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_run(tmp_path, 1, "20260101-000000-aaaa")
    one = grid(tmp_path, [], [])
    with run.lock(path):
        first = one.ask()
        assert first
        assert first.number == 0
        assert one.ask() is None
        assert one.elsewhere() == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("seed=1 ")
    assert f"process {os.getpid()}" in line
    again = one.ask()
    assert again
    assert again.folder == path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_runs_and_leaves_them_for_the_next_time(tmp_path: Path, number: int) -> None:
    interrupted = make_run(tmp_path, 1, "20260101-000000-aaaa")
    one, noted = grid(tmp_path, ["act=hang"], ["act=hang"], []), Noted()
    pids: Any = lambda: [file.read_text() for file in tmp_path.glob("demo/structured/*/pid")]  # noqa: E731
    running: list[int] = []

    def stop() -> None:
        running.extend(map(int, pids()))
        os.kill(os.getpid(), number)

    thread = when(lambda: len(pids()) == 2 and all(pids()), stop)
    with pytest.raises(Interruption) as caught:
        Scheduler([one], slots(2), engine(tmp_path), [noted]).run()
    thread.join()
    assert caught.value.exit_code == 128 + number
    assert len(running) == 2
    assert all(map(gone, running))
    assert (one.runs, one.errors, len(one.waiting())) == ({}, {}, 3)
    assert [*tmp_path.glob("demo/structured/*")] == [interrupted], "a folder without a run is removed"
