"""A grid: what is trained, skipped, resumed and missing, with runs that do not train."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sentattn import build, run
from sentattn.config.compose import compose
from sentattn.errors import UserError
from sentattn.grid import Cell, Grid, train_grid
from sentattn.jobs.job import Job
from sentattn.jobs.pool import LOST, REFUSED, TRY_AGAIN


def cell(folder: Path, seed: int) -> Cell:
    return Cell(f"seed={seed}", {"seed": seed}, compose([f"output_dir={folder}", f"seed={seed}"]))


def grid(folder: Path, seeds: int) -> Grid:
    return Grid([cell(folder, seed) for seed in range(seeds)])


def make_run(folder: Path, seed: int, name: str, *, status: str = "", checkpoint: bool = True) -> Path:
    """A run of a seed: one with a status has ended."""
    path = folder / "demo" / "structured" / name
    run.create(cell(folder, seed).settings, path)
    (path / "checkpoints").mkdir()
    if checkpoint:
        (path / "checkpoints" / "last.ckpt").touch()
    if status:
        run.Run(path).write_result({"status": status, "seed": seed})
    return path


def ask(one: Grid) -> Job:
    job = one.next()
    assert job
    return job


def end(one: Grid, job: Job, code: int = 0) -> str:
    """Ends a training as its process and the scheduler do."""
    if code == 0:
        run.Run(job.folder).write_result({"status": "finished", "seed": job.number, "metrics": {"val/accuracy": 0.5}})
    elif code > 0:
        job.log.write_text("it begins\nit ended badly.\n")
    return one.has_ended(job, code, "")


def test_each_cell_is_an_ordinary_run_directory(tmp_path: Path) -> None:
    one = grid(tmp_path, 3)
    jobs = [ask(one) for _ in range(3)]
    assert one.next() is None
    assert [end(one, job) for job in jobs] == ["val/accuracy 0.5000"] * 3
    assert one.runs == {job.number: job.folder for job in jobs}
    assert {job.folder.parent for job in jobs} == {tmp_path / "demo" / "structured"}
    assert all((job.folder / "config.yaml").is_file() for job in jobs)
    assert "3 of 3" in one.over()


def test_finished_runs_are_skipped_and_interrupted_ones_resumed_first(tmp_path: Path) -> None:
    finished = make_run(tmp_path, 0, "20260101-000000-aaaa", status="finished")
    failed = make_run(tmp_path, 1, "20260101-000000-bbbb", status="failed")
    interrupted = make_run(tmp_path, 2, "20260101-000000-cccc")
    begun = make_run(tmp_path, 3, "20260101-000000-dddd", checkpoint=False)
    one = grid(tmp_path, 4)
    assert (one.finished(), one.interrupted, one.over()) == (1, 1, "")
    jobs = [ask(one) for _ in range(3)]
    assert [job.number for job in jobs] == [2, 1, 3]
    assert (one.runs, jobs[0].folder, jobs[2].folder) == ({0: finished}, interrupted, begun)
    assert jobs[1].folder != failed


def test_a_run_on_other_rows_is_no_finished_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (make_run(tmp_path, seed, f"20260101-000000-{seed}", status="finished") for seed in (0, 1))
    data = build.build_data(cell(tmp_path, 0).settings)
    data.prepare()
    for path, fingerprint in ((first, data.fingerprint), (second, "0" * 16)):
        run.Run(path).write_result(run.Run(path).result | {"data_fingerprint": fingerprint})
    one = grid(tmp_path, 2)
    assert one.runs == {0: first}
    assert [waiting.name for waiting in one.waiting()] == ["seed=1"]
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {second}: ")


def test_finished_runs_count_where_the_data_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = compose([f"output_dir={tmp_path}", "data=imdb", f"data.path={tmp_path / 'gone.tar.gz'}"])
    path = tmp_path / "imdb" / "structured" / "20260101-000000-aaaa"
    run.create(settings, path)
    run.Run(path).write_result({"status": "finished", "seed": 0, "data_fingerprint": "0" * 16})
    assert Grid([Cell("", {}, settings)]).runs == {0: path}
    assert "data.path=" in capsys.readouterr().err


def test_what_fails_is_missing_or_tried_once_more_in_its_folder_after_the_others(tmp_path: Path) -> None:
    one = grid(tmp_path, 5)
    codes = {0: [REFUSED], 1: [-9, 0], 2: [TRY_AGAIN, TRY_AGAIN], 3: [LOST, 0], 4: [0]}
    order, folders = [], dict[int, Path]()
    while job := one.next():
        order.append(job.number)
        assert folders.setdefault(job.number, job.folder) == job.folder
        text = end(one, job, codes[job.number].pop(0))
        assert text.startswith(("failed: ", "val/accuracy"))
    assert order == [0, 1, 2, 3, 4, 1, 2, 3]
    assert sorted(one.runs) == [1, 3, 4]
    assert sorted(one.errors) == [0, 2]
    assert one.errors[0].startswith("it ended badly (log: ")
    assert "3 of 5" in one.over()


def test_a_start_opens_each_file_of_finished_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dict(cell(tmp_path, 0).settings)
    cells = [Cell(f"{number}", {}, settings | {"ema_decay": (number + 1) / 100}) for number in range(20)]
    for number, each in enumerate(cells):
        path = tmp_path / "demo" / "structured" / f"20260101-000000-{number:04}"
        run.create(each.settings, path)
        run.Run(path).write_result({"status": "finished", "seed": 0})
    opened: Counter[Path] = Counter()
    read_text: Any = Path.read_text

    def count(path: Path, *arguments: Any, **options: Any) -> str:
        opened[path] += path.is_relative_to(tmp_path)
        return str(read_text(path, *arguments, **options))

    monkeypatch.setattr(Path, "read_text", count)
    assert len(Grid(cells).runs) == 20
    assert {path.name for path, times in opened.items() if times} == {"config.yaml", "result.json"}
    assert {times for times in opened.values() if times} == {1}


def test_a_cell_is_trained_by_one_of_two_grids_and_finished_for_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = grid(tmp_path, 2), grid(tmp_path, 2)
    jobs = [ask(one), ask(other)]
    assert [job.number for job in jobs] == [0, 1]
    assert one.next() is other.next() is None
    assert (one.elsewhere(), other.elsewhere(), one.over()) == (1, 1, "")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" is being trained by ")[0] for line in lines] == ["seed=0", "seed=1"]
    assert all(f"process {os.getpid()}" in line for line in lines)
    for source, job in zip((one, other), jobs, strict=True):
        end(source, job)
    assert one.next() is other.next() is None
    assert one.runs == other.runs == {job.number: job.folder for job in jobs}
    assert (one.elsewhere(), bool(one.over())) == (0, True)


def test_a_cell_that_another_grid_leaves_is_trained_here(tmp_path: Path) -> None:
    one, other = grid(tmp_path, 1), grid(tmp_path, 1)
    job = ask(one)
    assert other.next() is None
    one.interrupt(job)
    assert ask(other).folder == job.folder
    assert one.next() is None, "in turn"


def test_no_folder_is_left_of_a_grid_that_was_killed(tmp_path: Path) -> None:
    if not (pid := os.fork()):
        ask(grid(tmp_path, 2)).log.write_text("it begins")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    [left] = tmp_path.glob("demo/structured/2*")
    one = grid(tmp_path, 2)
    folders = [ask(one).folder for _ in range(2)]
    assert left in folders
    assert {*tmp_path.glob("demo/structured/2*")} == {*folders}


def test_a_run_that_another_process_trains_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_run(tmp_path, 1, "20260101-000000-aaaa")
    one = grid(tmp_path, 2)
    with run.lock(path):
        assert ask(one).number == 0
        assert (one.next(), one.elsewhere()) == (None, 1)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("seed=1 ")
    assert f"process {os.getpid()}" in line
    assert ask(one).folder == path


def test_a_run_that_may_not_be_written_is_neither_waited_for_nor_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of somebody else."""
    foreign = make_run(tmp_path, 0, "20260101-000000-aaaa")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != foreign)  # the tests may be those of root
    assert ask(grid(tmp_path, 1)).folder != foreign


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["model=mean", "output_dir={tmp}"], "output_dir"),  # the folder of its runs is a file
        (["model=pretrained", "model.embedding.name={tmp}/none", "output_dir={tmp}/other"], "model.embedding.name"),
        (["model=pretrained", "model.embedding.name={tmp}", "output_dir={tmp}/other"], "model.embedding.name"),
    ],
)
def test_what_no_run_can_do_ends_a_grid_before_its_first_run(words: list[str], key: str, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mean").write_text("")
    with pytest.raises(UserError) as caught:
        train_grid([word.format(tmp=tmp_path) for word in [*words, "data.limit=200", "logger=none", "seeds=2"]])
    assert [fault.key for fault in caught.value.faults] == [key]
