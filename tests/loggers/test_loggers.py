"""TensorBoard, CSV and MLflow next to the record: what they have, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml
from refusals import assert_refused
from tiny import tiny
from wandb_reader import log

from sentattn import fit
from sentattn.config.compose import compose
from sentattn.loggers import LoggedRun, build_loggers, require_installed
from sentattn.loggers.guard import Guard

SUMMARY = {"best_epoch": 2, "train/loss": 0.5, "val/accuracy": 0.6, "test/accuracy": 0.75, "parameters/total": 321}


def open_logger(directory: Path, name: str, *extra: str, resumed: bool = False) -> Guard:
    settings = compose(tiny(f"logger={name}", *extra))
    [logger] = build_loggers(LoggedRun(directory, settings, "5e77", resumed))
    assert isinstance(logger, Guard)
    return logger


def curve(directory: Path, name: str, metric: str = "train/loss") -> list[tuple[int, float]]:
    """The values of a metric by step, as a logger has them."""
    if name == "csv":
        with (directory / "csv" / "metrics.csv").open() as file:
            return [(int(line["epoch"]), float(line[metric])) for line in csv.DictReader(file) if line[metric]]
    if name == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(directory / "tensorboard"))
        events.Reload()
        return [(one.step, one.value) for one in events.Scalars(metric)]
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{directory / 'mlflow.db'}")
    [run] = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert (run.info.run_name, run.info.status, run.data.params["seed"]) == (directory.name, "FINISHED", "0")
    return [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, metric)]


def test_csv_has_epochs_settings_and_steps(tmp_path: Path) -> None:
    run = fit(tiny(f"output_dir={tmp_path}", "logger=csv", "trainer.log_every_n_steps=5"))
    with (run.path / "csv" / "metrics.csv").open() as file:
        lines = list(csv.DictReader(file))
    for row in map(json.loads, (run.path / "metrics.jsonl").read_text().splitlines()):
        [line] = [line for line in lines if line["epoch"] == str(row["epoch"]) and line["val/accuracy"]]
        metrics = {name: value for name, value in row.items() if "/" in name}
        assert {name: float(line[name]) for name in metrics} == pytest.approx(metrics)
    [tested] = [line for line in lines if line["test/accuracy"]]
    assert int(tested["epoch"]) == float(tested["best_epoch"]) == run.result["best_epoch"]
    assert float(tested["test/accuracy"]) == pytest.approx(run.metrics["test/accuracy"])
    assert float(tested["seconds/total"]) > 0
    config = yaml.unsafe_load((run.path / "csv" / "hparams.yaml").read_text())
    assert config["model"]["attention"] == run.settings["model"]["attention"]
    assert config["setting"] == run.result["setting"]
    points = [line for line in lines if line["step/loss"]]
    assert [int(line["step"]) for line in points] == [5, 10, 15, 20]
    assert all(float(line["step/lr"]) > 0 for line in points)
    assert all((line["epoch"] == "") == (line in points) == bool(line["step"]) for line in lines)


@pytest.mark.parametrize("name", ["csv", "tensorboard", "mlflow"])
def test_a_resumed_run_has_each_epoch_once(tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    extra = ["logger.experiment=mine"] if name == "mlflow" else []
    first = open_logger(tmp_path, name, *extra)
    log(first, 1, 2)
    first.finish({"best_epoch": None}, failed=True)
    second = open_logger(tmp_path, name, *extra, resumed=True)
    log(second, 2, 3)  # the second epoch is trained again
    second.finish(SUMMARY)
    assert curve(tmp_path, name) == [(epoch, pytest.approx(1 / epoch)) for epoch in (1, 2, 3)]
    assert curve(tmp_path, name, "val/accuracy") == [(epoch, pytest.approx(epoch / 10)) for epoch in (1, 2, 3)]
    assert curve(tmp_path, name, "test/accuracy") == [(2, 0.75)]
    assert curve(tmp_path, name, "parameters/total") == [(2, 321)]
    shown = capfd.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert "INFO" not in shown.err


def test_tensorboard_has_settings_next_to_the_metrics_of_the_best_epoch(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    logger = open_logger(tmp_path, "tensorboard", "model.attention.hops=2")
    log(logger, 1, 2, 3)
    logger.finish(SUMMARY)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    text = events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    written = yaml.safe_load(text.removeprefix("```yaml\n").removesuffix("```"))
    assert written == compose(tiny("logger=tensorboard", "model.attention.hops=2"))
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    assert (values["model/attention/hops"].number_value, values["setting"].string_value) == (2, "5e77")
    experiment = HParamsPluginData.FromString(events.SummaryMetadata("_hparams_/experiment").plugin_data.content)
    assert [metric.name.tag for metric in experiment.experiment.metric_infos] == ["best/val/accuracy"]
    assert [(one.step, one.value) for one in events.Scalars("best/val/accuracy")] == [(2, pytest.approx(0.6))]
    assert "hp_metric" not in events.Tags()["scalars"]


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    settings = compose([f"logger=[csv,{name}]"])
    assert_refused(lambda: require_installed(settings), "logger", "package", f'pip install "sentattn[{name}]"')
    require_installed(compose(["logger=csv"]))
