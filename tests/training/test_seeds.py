"""Several seeds of one setting: which are trained, and their metrics together."""

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
from sentattn.training.seeds import half_width, summary, train_all

# scipy.stats.t.ppf(0.975, df), SciPy 1.17.1
STUDENT = {
    1: 12.706204736174694,
    2: 4.302652729749462,
    3: 3.1824463052837078,
    4: 2.7764451051977934,
    5: 2.5705818356363146,
    9: 2.262157162798205,
    10: 2.228138851986274,
    29: 2.045229642132703,
    100: 1.9839715185235518,
}


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


@pytest.mark.parametrize("freedom", STUDENT)
def test_the_interval_is_students(freedom: int) -> None:
    values = [0.0] * freedom + [1.0]
    n = freedom + 1
    error = (1 / n) ** 0.5 / n**0.5  # of one 1 among zeros: the variance is (1/n) (1 - 1/n) n / (n - 1) = 1/n
    assert half_width(values) == pytest.approx(STUDENT[freedom] * error, rel=1e-12)


def test_the_table_by_hand(tmp_path: Path) -> None:
    settings = read_request(["seed=5"]).settings
    values = (0.7, 0.8, 0.9)
    runs = [
        make_run(
            tmp_path, {**settings, "seed": 5 + i}, **{"train/loss": 1.0, "test/accuracy": x, "val/accuracy": x / 2}
        )
        for i, x in enumerate(values)
    ]
    # 0.1 / sqrt(3) x 4.302653 = 0.248414
    assert summary(runs) == [
        "3 runs, seeds 5, 6, 7:",
        "                                mean       min       max   95% interval of the mean",
        "  val/accuracy                0.4000    0.3500    0.4500   0.2758 to 0.5242",
        "  test/accuracy               0.8000    0.7000    0.9000   0.5516 to 1.0484",
    ]


def test_one_run_has_no_interval(tmp_path: Path) -> None:
    run = make_run(tmp_path, read_request([]).settings, **{"val/loss": 0.25})
    assert summary([run])[1:] == [
        "                                mean       min       max",
        "  val/loss                    0.2500    0.2500    0.2500",
    ]


def test_seeds_follow_one_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = Trained(tmp_path)
    runs = train_all(read_request(["seeds=3", "seed=5", f"output_dir={tmp_path}"]), train)
    assert (train.seeds, train.resumed) == ([5, 6, 7], [None] * 3)
    assert [run.settings["seed"] for run in runs] == [5, 6, 7]
    out = capsys.readouterr().out
    assert "Seed 6, run 2 of 3." in out
    assert "  val/accuracy                0.6000    0.5000    0.7000   0.3516 to 0.8484" in out


def test_a_seed_among_others_trains_as_it_does_alone(tmp_path: Path) -> None:
    _, among = train_all(read_request(tiny("seeds=2", f"output_dir={tmp_path}")), training)
    [alone] = train_all(read_request(tiny("seed=1", f"output_dir={tmp_path}")), training)
    assert among.metrics == alone.metrics
    assert among.settings == alone.settings


def test_one_run_has_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_all(read_request([f"output_dir={tmp_path}"]), Trained(tmp_path))
    assert capsys.readouterr().out == ""


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


def test_a_nan_in_one_seed_leaves_the_others_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = Trained(tmp_path, failing=(1,))
    with pytest.raises(TrainingError) as caught:
        train_all(read_request(["seeds=3", f"output_dir={tmp_path}"]), train)
    assert caught.value.messages == ("seed=1: The loss became NaN.",)
    assert train.seeds == [0, 1, 2]
    assert "2 runs, seeds 0, 2:" in capsys.readouterr().out


def test_an_interruption_ends_them_all_and_says_how_to_continue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(settings: Any, *, resume: Path | None) -> Run:
        raise Interruption(15)

    with pytest.raises(Interruption):
        train_all(read_request(["seeds=3", f"output_dir={tmp_path}"]), train)
    assert "type the same command with resume=auto" in capsys.readouterr().err


def test_a_fault_of_the_data_ends_them_all(tmp_path: Path) -> None:
    def train(settings: Any, *, resume: Path | None) -> Run:
        raise DataError("There is no such file.")

    with pytest.raises(DataError):
        train_all(read_request(["seeds=3", f"output_dir={tmp_path}"]), train)
