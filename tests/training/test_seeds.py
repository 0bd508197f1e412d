"""Several seeds of one setting: which are trained, and which are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny import tiny

from sentattn.config.request import read_request
from sentattn.errors import DataError, Interruption, TrainingError
from sentattn.run import Run
from sentattn.training.fit import train as training
from sentattn.training.seeds import train_all


def make_run(folder: Path, settings: dict[str, Any], *, status: str | None = "finished", **metrics: float) -> Run:
    """A run directory as a training leaves it, with these metrics."""
    path = folder / settings["data"]["name"] / settings["model"]["name"] / f"20260101-00000{settings['seed']}-abcd"
    (path / "checkpoints").mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(settings))
    (path / "checkpoints" / "last.ckpt").touch()
    run = Run(path)
    if status:
        run.write_result({"status": status, "seed": settings["seed"], "metrics": metrics})
    return run


class Trained:
    """Stands in for the training: makes the run directory, and remembers what it was given."""

    def __init__(self, folder: Path, failing: tuple[int, ...] = ()) -> None:
        self.folder, self.failing = folder, failing
        self.seeds: list[int] = []
        self.resumed: list[Path | None] = []

    def __call__(self, settings: Any, *, resume: Path | None) -> Run:
        self.seeds.append(settings["seed"])
        self.resumed.append(resume)
        if settings["seed"] in self.failing:
            raise TrainingError("The loss became NaN.")
        if resume:
            return Run(resume)
        return make_run(self.folder, settings, **{"val/accuracy": settings["seed"] / 10})


def test_seeds_follow_one_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, reported = Trained(tmp_path), list[Run]()
    runs = train_all(read_request(["seeds=3", "seed=5", f"output_dir={tmp_path}"]), train, reported.extend)
    assert reported == runs
    assert (train.seeds, train.resumed) == ([5, 6, 7], [None] * 3)
    assert [run.settings["seed"] for run in runs] == [5, 6, 7]
    assert "Seed 6, run 2 of 3." in capsys.readouterr().out


def test_a_seed_among_others_trains_as_it_does_alone(tmp_path: Path) -> None:
    _, among = train_all(read_request(tiny("seeds=2", f"output_dir={tmp_path}")), training)
    [alone] = train_all(read_request(tiny("seed=1", f"output_dir={tmp_path}")), training)
    assert among.metrics == alone.metrics
    assert among.settings == alone.settings


def test_auto_skips_continues_and_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = read_request(["seeds=3", "resume=auto", f"output_dir={tmp_path}"])
    first, second, _ = request.runs()
    done = make_run(tmp_path, first, **{"val/accuracy": 0.5})
    interrupted = make_run(tmp_path, second, status=None)
    train = Trained(tmp_path)

    def finishing(settings: Any, *, resume: Path | None) -> Run:
        run = train(settings, resume=resume)
        run.write_result({"status": "finished", "seed": settings["seed"], "metrics": {"val/accuracy": 0.7}})
        return run

    runs = train_all(request, finishing)
    assert [run.path for run in runs[:2]] == [done.path, interrupted.path]
    assert train.seeds == [1, 2]
    assert train.resumed == [interrupted.path, None]
    out = capsys.readouterr().out
    assert f"{done.path} is finished." in out
    assert f"Continuing {interrupted.path}." in out
    assert "a new one begins" in out


def test_auto_for_one_run_does_not_stop_at_a_finished_one(tmp_path: Path) -> None:
    request = read_request(["resume=auto", f"output_dir={tmp_path}"])
    make_run(tmp_path, {**request.settings}, **{"val/accuracy": 0.5})
    train = Trained(tmp_path / "elsewhere")
    train_all(request, train)
    assert train.resumed == [None]


def test_a_run_that_was_named_is_continued(tmp_path: Path) -> None:
    run = make_run(tmp_path, read_request(["seed=3"]).settings, status=None)
    train = Trained(tmp_path)
    train_all(read_request([f"resume={run.path}"]), train)
    assert (train.seeds, train.resumed) == ([3], [run.path])


def test_a_nan_in_one_seed_leaves_the_others_theirs(tmp_path: Path) -> None:
    train, reported = Trained(tmp_path, failing=(1,)), list[Run]()
    with pytest.raises(TrainingError) as caught:
        train_all(read_request(["seeds=3", f"output_dir={tmp_path}"]), train, reported.extend)
    assert caught.value.messages == ("seed=1: The loss became NaN.",)
    assert train.seeds == [0, 1, 2]
    assert [run.settings["seed"] for run in reported] == [0, 2]


def interruption_of(*words: str) -> Interruption:
    def train(settings: Any, *, resume: Path | None) -> Run:
        raise Interruption(15, "continue with: python -m sentattn.train resume=DIR")

    with pytest.raises(Interruption) as caught:
        train_all(read_request(list(words)), train)
    return caught.value


def test_an_interruption_among_seeds_says_how_to_continue_with_all_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interruption = interruption_of("seeds=3", f"output_dir={tmp_path}")
    assert "resume=auto" in str(interruption)
    assert "resume=DIR" not in str(interruption)
    assert (interruption.number, capsys.readouterr().err) == (15, "")


def test_an_interruption_of_one_run_names_it(tmp_path: Path) -> None:
    assert "resume=DIR" in str(interruption_of(f"output_dir={tmp_path}"))


def test_a_fault_of_the_data_ends_them_all(tmp_path: Path) -> None:
    def train(settings: Any, *, resume: Path | None) -> Run:
        raise DataError("There is no such file.")

    with pytest.raises(DataError):
        train_all(read_request(["seeds=3", f"output_dir={tmp_path}"]), train)
