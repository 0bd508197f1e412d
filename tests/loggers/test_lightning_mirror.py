"""TensorBoard, CSV and MLflow beside the record: what they hold, and what happens where they fail or are missing."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny import tiny

from sentattn import build
from sentattn.config.compose import compose
from sentattn.errors import SettingError
from sentattn.loggers import Mirror, packages, require_package
from sentattn.run import Run
from sentattn.training.fitting import fit


def rows(run: Run) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def made(directory: Path, name: str, *, resumed: bool = False) -> Mirror:
    settings = compose(tiny(f"logger={name}"))
    filled = {"directory": directory, "run_id": "abc", "settings": settings, "setting": "5e77", "resumed": resumed}
    mirror = build.build_mirror(settings["logger"], **filled)
    assert isinstance(mirror, Mirror)
    return mirror


def test_csv_has_a_line_an_epoch_and_the_settings(tmp_path: Path) -> None:
    run = fit(tiny(f"output_dir={tmp_path}", "logger=csv"))
    with (run.path / "csv" / "metrics.csv").open() as file:
        found = list(csv.DictReader(file))
    best = run.result["best_epoch"]
    for row in rows(run):
        [line] = [line for line in found if int(line["step"]) == row["epoch"] and line["val/accuracy"]]
        figures = {name: value for name, value in row.items() if "/" in name}
        assert {name: float(line[name]) for name in figures} == pytest.approx(figures)
    [tested] = [line for line in found if line["test/accuracy"]]
    assert (int(tested["step"]), float(tested["best_epoch"])) == (best, best)
    assert float(tested["test/accuracy"]) == pytest.approx(run.metrics["test/accuracy"])
    config = yaml.unsafe_load((run.path / "csv" / "hparams.yaml").read_text())
    assert config["model"]["attention"] == run.settings["model"]["attention"]
    assert config["setting"] == run.result["setting"]


def test_tensorboard_has_curves_by_epoch_and_the_settings(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing import event_accumulator as events

    run = fit(tiny(f"output_dir={tmp_path}", "logger=tensorboard"))
    found = events.EventAccumulator(str(run.path / "tensorboard"))
    found.Reload()
    for name in ("val/accuracy", "train/loss", "train/gradient_norm", "train/tokens_per_second"):
        shown = [(one.step, one.value) for one in found.Scalars(name)]
        assert shown == [(row["epoch"], pytest.approx(row[name], rel=1e-6)) for row in rows(run)]
    [tested] = found.Scalars("test/accuracy")
    assert tested.step == run.result["best_epoch"]
    text = found.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    assert yaml.safe_load(text.removeprefix("```yaml\n").removesuffix("```")) == run.settings
    assert (run.path / "tensorboard" / "hparams.yaml").is_file()


def test_mlflow_has_curves_by_epoch_and_the_settings(tmp_path: Path) -> None:
    import mlflow.tracking as tracking

    run = fit(tiny(f"output_dir={tmp_path}", "logger=mlflow", "logger.experiment=mine"))
    client = tracking.MlflowClient(f"sqlite:///{run.path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mine")
    [kept] = client.search_runs([experiment.experiment_id])
    assert kept.info.run_name == run.path.name
    assert kept.info.status == "FINISHED"
    assert kept.data.params["seed"] == "0"
    for name in ("val/accuracy", "train/loss"):
        shown = [(one.step, one.value) for one in client.get_metric_history(kept.info.run_id, name)]
        assert shown == [(row["epoch"], pytest.approx(row[name])) for row in rows(run)]


@pytest.mark.parametrize("name", ["csv", "tensorboard", "mlflow"])
def test_a_resumed_run_has_each_epoch_once(tmp_path: Path, name: str) -> None:
    first = made(tmp_path, name)
    first.start()
    for epoch in (1, 2):
        first.log_metrics({"train/loss": 1 / epoch, "epoch": epoch - 1})
    first.finish({"best_epoch": None}, failed=True)
    second = made(tmp_path, name, resumed=True)
    second.start()
    second.restore([{"epoch": epoch, "train/loss": 1 / epoch, "train_seconds": 3.0} for epoch in (1, 2)])
    second.log_metrics({"train/loss": 1 / 3, "epoch": 2})
    second.finish({"best_epoch": 3, "train/loss": 1 / 3, "test/accuracy": 0.5})
    assert curve(tmp_path, name) == [(epoch, pytest.approx(1 / epoch)) for epoch in (1, 2, 3)]


def curve(directory: Path, name: str) -> list[tuple[int, float]]:
    """The losses of training by epoch, as a mirror has them."""
    if name == "csv":
        with (directory / "csv" / "metrics.csv").open() as file:
            lines = [line for line in csv.DictReader(file) if line["train/loss"]]
        return [(int(line["step"]), float(line["train/loss"])) for line in lines]
    if name == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        found = EventAccumulator(str(directory / "tensorboard"))
        found.Reload()
        return [(one.step, one.value) for one in found.Scalars("train/loss")]
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{directory / 'mlflow.db'}")
    [kept] = client.search_runs([client.get_experiment_by_name("sentattn").experiment_id])
    return [(one.step, one.value) for one in client.get_metric_history(kept.info.run_id, "train/loss")]


def test_a_mirror_that_cannot_be_written_stops_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = made(tmp_path, "csv")
    (tmp_path / "csv").write_text("a file where the folder should be")
    mirror.start()
    for epoch in range(3):
        mirror.log_metrics({"train/loss": 0.5, "epoch": epoch})
    mirror.finish({"best_epoch": 1})
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert "CSV: " in shown
    assert "the run goes on without it" in shown


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda package: None)
    node: dict[str, Any] = compose([f"logger={name}"])["logger"]
    with pytest.raises(SettingError) as caught:
        require_package(node)
    assert f"pip install 'sentattn[{name}]'" in str(caught.value)
    require_package(compose(["logger=csv"])["logger"])


@pytest.mark.parametrize(
    "typed",
    ["logger=csv logger.project=x", "logger=tensorboard logger.directory=x", "logger=mlflow logger.mode=offline"],
)
def test_settings_that_have_no_effect_are_refused(typed: str) -> None:
    with pytest.raises(SettingError):
        compose(typed.split())
