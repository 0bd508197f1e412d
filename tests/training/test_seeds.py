"""Several seeds of one setting: which are trained, and which are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import fault_of, refused
from tiny import tiny

from sentattn.config.request import read_request
from sentattn.errors import DataError, Fault, Interruption, TrainingError
from sentattn.run import Run, yaml_text
from sentattn.train import main
from sentattn.training import seeds
from sentattn.training.seeds import fit_seeds


def make_run(folder: Path, settings: dict[str, Any], *, status: str | None = "finished", **metrics: float) -> Run:
    """A run directory as a training leaves it, with these metrics."""
    name = f"20260101-00000{settings['seed']}-abcd{settings['data'].get('fold', '')}"
    path = folder / settings["data"]["name"] / settings["model"]["name"] / name
    (path / "checkpoints").mkdir(parents=True)
    (path / "config.yaml").write_text(yaml_text(settings))
    (path / "checkpoints" / "last.ckpt").touch()
    run = Run(path)
    if status:
        run.write_result({"status": status, "seed": settings["seed"], "metrics": metrics})
    return run


class Trained:
    """Replaces the training: makes the run directory, and records its arguments."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, failing: tuple[int, ...] = ()) -> None:
        self.folder, self.failing = folder, failing
        patch.setattr(seeds, "fit", self)
        self.seeds: list[int] = []
        self.resumed: list[Path | None] = []

    def __call__(self, settings: Any, *, resume: Path | None = None) -> Run:
        self.seeds.append(settings["seed"])
        self.resumed.append(resume)
        if settings["seed"] in self.failing:
            raise TrainingError(Fault("", "failed", "The loss became NaN."))
        if resume:
            return Run(resume)
        return make_run(self.folder, settings, **{"val/accuracy": settings["seed"] / 10})


def test_seeds_are_trained_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Trained(monkeypatch, tmp_path)
    runs = list(fit_seeds(read_request(["seeds=3", "seed=5", f"output_dir={tmp_path}"])))
    assert (train.seeds, train.resumed) == ([5, 6, 7], [None] * 3)
    assert [run.settings["seed"] for run in runs] == [5, 6, 7]
    assert "Seed 6, run 2 of 3." in capsys.readouterr().out


def test_a_seed_among_others_has_the_result_of_one_alone(tmp_path: Path) -> None:
    words = tiny("data.limit=60", "trainer.max_epochs=1", "test=false", f"output_dir={tmp_path}")
    _, among = fit_seeds(read_request([*words, "seeds=2"]))
    [alone] = fit_seeds(read_request([*words, "seed=1"]))
    assert among.metrics == alone.metrics
    assert among.settings == alone.settings


def test_auto_skips_finished_and_resumes_interrupted_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = read_request(["seeds=3", "resume=auto", f"output_dir={tmp_path}"])
    first, second, _ = request.runs()
    done = make_run(tmp_path, first, **{"val/accuracy": 0.5})
    interrupted = make_run(tmp_path, second, status=None)
    train = Trained(monkeypatch, tmp_path)
    runs = list(fit_seeds(request))
    assert [run.path for run in runs[:2]] == [done.path, interrupted.path]
    assert train.seeds == [1, 2]
    assert train.resumed == [interrupted.path, None]
    out = capsys.readouterr().out
    assert f"{done.path} is finished." in out
    assert f"Continuing {interrupted.path}." in out


def test_auto_for_one_run_trains_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = read_request(["resume=auto", f"output_dir={tmp_path}"])
    make_run(tmp_path, {**request.settings}, **{"val/accuracy": 0.5})
    train = Trained(monkeypatch, tmp_path / "elsewhere")
    list(fit_seeds(request))
    assert train.resumed == [None]


def test_a_run_that_was_named_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, read_request(["seed=3"]).settings, status=None)
    train = Trained(monkeypatch, tmp_path)
    list(fit_seeds(read_request([f"resume={run.path}"])))
    assert (train.seeds, train.resumed) == ([3], [run.path])


def test_other_seeds_are_trained_after_a_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Trained(monkeypatch, tmp_path, failing=(1,))
    runs = fit_seeds(read_request(["seeds=3", f"output_dir={tmp_path}"]))
    assert [next(runs).settings["seed"] for _ in range(2)] == [0, 2]
    assert fault_of(lambda: next(runs)).message.startswith("seed=1: ")
    assert train.seeds == [0, 1, 2]


def test_the_command_reports_the_other_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Trained(monkeypatch, tmp_path, failing=(1,))
    assert main(["seeds=3", f"output_dir={tmp_path}"]) == 2
    out = capsys.readouterr().out
    assert f"sentattn.compare {tmp_path / 'demo'}\n" in out
    assert [path.name for path in (tmp_path / "demo" / "structured").iterdir() if str(path) in out] == [
        "20260101-000002-abcd"
    ]


def raising(error: BaseException) -> Callable[..., Run]:
    def train(settings: Any, *, resume: Path | None = None) -> Run:
        raise error

    return train


def interruption_of(patch: pytest.MonkeyPatch, *words: str) -> Interruption:
    interruption = Interruption(15, "continue with: python -m sentattn.train resume=DIR")
    patch.setattr(seeds, "fit", raising(interruption))
    with pytest.raises(Interruption) as caught:
        list(fit_seeds(read_request(list(words))))
    return caught.value


def test_an_interruption_among_seeds_names_resume_auto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interruption = interruption_of(monkeypatch, "seeds=3", f"output_dir={tmp_path}")
    assert "resume=auto" in str(interruption)
    assert "resume=DIR" not in str(interruption)
    assert (interruption.number, capsys.readouterr().err) == (15, "")


def test_an_interruption_of_one_run_names_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "resume=DIR" in str(interruption_of(monkeypatch, f"output_dir={tmp_path}"))


def test_an_error_of_the_data_ends_all_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "fit", raising(DataError(Fault("", "failed", "There is no such file."))))
    assert refused(lambda: list(fit_seeds(read_request(["seeds=3", f"output_dir={tmp_path}"])))) == [("", "failed")]


def test_each_fold_is_trained_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Trained(monkeypatch, tmp_path, failing=(1,))
    words = ["data=table", "data.train=a.csv", "data.folds=2", "seeds=2", f"output_dir={tmp_path}"]
    with pytest.raises(TrainingError) as caught:
        list(fit_seeds(read_request(words)))
    assert train.seeds == [0, 0, 1, 1]
    assert "Seed 0, fold 1, run 2 of 4." in capsys.readouterr().out
    assert [fault.message[:19] for fault in caught.value.faults] == ["seed=1 data.fold=0:", "seed=1 data.fold=1:"]
