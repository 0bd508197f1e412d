"""W&B next to the record: what an offline run has, what a server gets of a run and of one that was resumed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import wandb
from encoder_files import write_encoder
from refusals import assert_refused
from runs_alike import rows
from tiny import tiny
from wandb_reader import log, read, records, table
from wandb_server import serving

import sentattn
from sentattn import fit
from sentattn.config.compose import compose
from sentattn.config.hashing import setting_hash
from sentattn.data.hub import content_hash
from sentattn.loggers import LoggedRun, wandb_logger
from sentattn.loggers.wandb import run as wandb_run
from sentattn.loggers.wandb import upload
from sentattn.loggers.wandb.run import WandbGuard
from sentattn.prediction.model import LoadedRun
from sentattn.prediction.prediction import Prediction
from sentattn.rendering.png import picture

SETTINGS: dict[str, Any] = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": ["try"]}
KEY = "a" * 40


def logger(directory: Path, **extra: Any) -> WandbGuard:
    run = {name: extra.pop(name) for name in ("settings", "setting", "resumed") if name in extra}
    return wandb_logger(**extra, run=LoggedRun(**{"directory": directory, "settings": SETTINGS, "setting": "x", **run}))


@pytest.fixture(scope="module")
def drawn() -> list[Prediction]:
    """The predictions of which the training of `run` draws the attention."""
    return []


@pytest.fixture(scope="module")
def run(drawn: list[Prediction], tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """The tiny run with a logger to W&B."""
    settings = ["logger=wandb", "tags=[try]", "logger.examples=3", "logger.texts=[Slow but wonderful.]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wandb_run, "picture", lambda predictions: drawn.extend(predictions) or picture(predictions))
        return fit(tiny(f"output_dir={tmp_path_factory.mktemp('outputs')}", *settings, "logger.table=7"))


@pytest.fixture(scope="module")
def logged(run: LoadedRun) -> dict[str, Any]:
    return read(run.path)


def test_offline_run_has_settings_group_tags_and_job_type(run: LoadedRun, logged: dict[str, Any]) -> None:
    assert logged["config"]["model"]["attention"]["hops"] == run.settings["model"]["attention"]["hops"]
    assert logged["config"]["seed"] == 0
    assert {"structured", "demo", "try"} == set(logged["run"].tags)
    name = "structured, size=8, encoder.hidden=4, attention.hidden=5"
    assert logged["run"].run_group == logged["config"]["setting"] == f"demo-{name}-{run.result['setting']}"
    assert logged["run"].job_type == "train"
    assert logged["run"].run_id == run.path.name
    assert logged["run"].display_name == f"{name}-demo-{run.path.name}"
    assert logged["exit_code"] == 0
    parts = {name: logged["config"][name] for name in ("embedding", "encoder", "attention", "pooling")}
    assert parts == {"embedding": "words", "encoder": "bilstm", "attention": "structured", "pooling": "flatten"}


def test_variables_of_the_loggers_count_where_nothing_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_wandb = {"PROJECT": "2026", "ENTITY": "us", "JOB_TYPE": "try", "NAME": "mine", "RUN_GROUP": "all", "TAGS": "a,b"}
    for name, value in of_wandb.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:1")
    node = compose(["logger=wandb"])["logger"]
    assert (node["project"], node["entity"], node["job_type"]) == ("2026", "us", "try")
    assert compose(["logger=wandb", "logger.project=typed"])["logger"]["project"] == "typed"
    assert compose(["logger=mlflow"])["logger"]["tracking_uri"] == "http://localhost:1"
    (built := logger(tmp_path)).start()
    run = built.experiment
    assert (run.name, run.group, run.tags) == ("mine", "all", ("mean", "demo", "try", "a", "b"))
    built.finish({})


def test_rows_have_the_metrics_of_the_epochs(run: LoadedRun, logged: dict[str, Any]) -> None:
    recorded = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in logged["history"] if "val/accuracy" in row]
    assert [row["epoch"] for row in rows] == [1, 2]
    for row, line in zip(rows, recorded, strict=True):
        metrics = {name: value for name, value in line.items() if "/" in name}
        assert {"train/loss", "train/gradient_norm", "train/tokens_per_second", "val/accuracy"} <= metrics.keys()
        assert {name: row[name] for name in metrics} == pytest.approx(metrics, rel=1e-6)


def test_the_epoch_is_the_axis_of_all_but_step_metrics(run: LoadedRun, logged: dict[str, Any]) -> None:
    [path] = run.path.glob("wandb/offline-run-*/run-*.wandb")
    metrics = [record.metric for record in records(path) if record.WhichOneof("record_type") == "metric"]
    axes = {metric.glob_name or metric.name: metric.step_metric for metric in metrics}
    assert {axes[group] for group in ("train/*", "val/*", "attention/*")} == {"epoch"}
    assert axes["step/*"] == "step"
    assert set(axes.values()) == {"", "epoch", "step"}
    assert not any("global_step" in name for name in [*axes, *(name for row in logged["history"] for name in row)])


def test_summary_has_the_best_epoch_and_the_costs(run: LoadedRun, logged: dict[str, Any]) -> None:
    summary, result = logged["summary"], run.result
    assert summary["best_epoch"] == result["best_epoch"]
    for name in ("val/accuracy", "test/accuracy", "train/loss"):
        assert summary[name] == pytest.approx(run.metrics[name])
    for name in ("peak_memory_bytes", "tokens_per_second"):
        assert summary[name] == pytest.approx(result[name])
    for name in ("seconds/train", "seconds/total", "parameters/total", "latency_ms/one", "latency_ms/batch"):
        group, _, key = name.partition("/")
        assert summary[name] == pytest.approx(result[group][key])


def test_a_pretrained_run_has_the_name_and_the_hash_of_its_encoder(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    settings = ["model=pretrained", f"model.embedding.name={encoder}", "data.max_length=40", "data.limit=60"]
    small = ["trainer.max_epochs=1", "trainer.accelerator=cpu", "logger=wandb"]
    run = fit([*settings, *small, f"output_dir={tmp_path / 'outputs'}"])
    logged = read(run.path)
    assert logged["config"]["model"]["embedding"]["name"] == str(encoder)
    assert logged["summary"]["encoder"] == run.result["encoder"] == content_hash(encoder)
    assert logged["config"]["embedding"] == "pretrained"
    assert logged["summary"]["val/accuracy"] == pytest.approx(run.metrics["val/accuracy"])


def test_the_best_epoch_has_heat_maps(run: LoadedRun, logged: dict[str, Any]) -> None:
    [row] = [row for row in logged["history"] if "attention/text_1.path" in row]
    names = {name.removesuffix(".path") for name in row if re.fullmatch(r"attention/.*\.path", name)}
    assert row["epoch"] == run.result["best_epoch"]
    assert len(names) == 4
    for name in names:
        [picture] = run.path.glob(f"wandb/offline-run-*/files/{row[f'{name}.path']}")
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_confusion_matrix_counts_the_recorded_predictions(run: LoadedRun, logged: dict[str, Any]) -> None:
    [row] = [row for row in logged["history"] if "val/confusion_matrix_table.path" in row]
    assert row["epoch"] == run.result["best_epoch"]
    recorded = pq.read_table(run.path / "predictions.parquet").to_pylist()
    names = ("negative", "positive")
    for split in ("val", "test"):
        counted = Counter((one["label"], one["predicted"]) for one in recorded if one["split"] == split)
        cells = table(run.path, row, f"{split}/confusion_matrix_table")
        assert {(names.index(a), names.index(p)): n for a, p, n in cells if n} == counted
        panel = logged["config"][f"_wandb.visualize.{split}/confusion_matrix"]
        assert panel["panel_config"]["panelDefId"] == "wandb/confusion_matrix/v1"


def test_table_has_predictions(run: LoadedRun, logged: dict[str, Any]) -> None:
    [row] = [row for row in logged["history"] if "val/predictions.path" in row]
    cells = table(run.path, row, "val/predictions")
    assert len(cells) == 7
    predictions = pq.read_table(run.path / "predictions.parquet").to_pylist()
    recorded = {one["row"]: one for one in predictions if one["split"] == "val"}
    gaps = np.diff([[*recorded].index(position) for position, *_ in cells])
    assert max(gaps) - min(gaps) <= 1  # spread evenly
    classifier = sentattn.load(run.path)
    for position, text, label, predicted, probability in cells:
        one = recorded[position]
        assert label == ("negative", "positive")[one["label"]]
        assert predicted == ("negative", "positive")[one["predicted"]]
        assert probability == pytest.approx(max(one["probabilities"]))
        assert classifier.predict([text])[0].probabilities[predicted] == pytest.approx(probability, abs=1e-5)


def test_next_to_another_logger_the_run_is_complete_and_has_steps(tmp_path: Path) -> None:
    """20 steps in two epochs; a learning rate that a point shows is that of its step."""
    several = ["logger=[csv,wandb]", "logger.wandb.project=two", "logger.wandb.examples=1", "callbacks=lr_monitor"]
    run = fit(tiny(f"output_dir={tmp_path}", *several, "trainer.log_every_n_steps=4"))
    logged = read(run.path)
    assert logged["run"].project == "two"
    assert [row["epoch"] for row in logged["history"] if "val/accuracy" in row] == [1, 2]
    assert len([row for row in logged["history"] if "lr-Adam" in row]) == 5
    keys = {key for row in logged["history"] for key in row}
    assert {"val/confusion_matrix_table.path", "val/predictions.path"} <= keys
    assert any(key.startswith("attention/") for key in keys)
    assert (run.path / "csv" / "metrics.csv").is_file()
    points = [row for row in logged["history"] if "step/loss" in row]
    assert [row["step"] for row in points] == [4, 8, 12, 16, 20]
    assert all(0 < row["step/loss"] < 5 for row in points)
    last = json.loads((run.path / "metrics.jsonl").read_text().splitlines()[-1])
    assert points[-1]["step/lr"] == pytest.approx(last["train/lr"])


def test_plots_may_be_switched_off(tmp_path: Path) -> None:
    off = ["logger.examples=0", "logger.table=0", "test=false"]
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb", "trainer.max_epochs=1", *off))
    names = {name for row in read(run.path)["history"] for name in row}
    assert not any(name.startswith(("attention/", "val/predictions", "test/")) for name in names)
    assert any(name.startswith("val/confusion_matrix") for name in names)


def test_the_command_to_upload_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    offline = logger(tmp_path)
    offline.start()
    offline.finish({})
    shown = capfd.readouterr()
    assert f"python -m sentattn.sync {tmp_path}" in shown.out
    assert len(shown.out.splitlines()) == 1
    assert shown.err == ""


def test_seeds_of_a_setting_share_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr(wandb, "init", lambda **arguments: opened.append(arguments) or 1 / 0)

    def group(*typed: str) -> str:
        settings = compose(tiny(*typed))
        logger(Path("x"), settings=settings, setting=setting_hash(settings)).start()
        return str(opened[-1]["group"])

    assert group("seed=1") == group("seed=2") == group("seed=3", "logger=wandb", "logger.job_type=trial")
    assert group("seed=1") != group("seed=1", "model.attention.hops=3")
    assert group("group=mine") == "mine"
    own = str(opened[-1]["config"]["setting"])  # by which charts average over seeds
    assert group("group=mine", "model.attention.hops=3") == "mine"
    assert str(opened[-1]["config"]["setting"]) != own
    assert "hops=3" in str(opened[-1]["name"])


def test_the_last_file_of_a_resumed_offline_run_is_complete(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for epochs, resumed in (((1, 2), False), ((2, 3), True)):  # the second epoch is trained again after a crash
        offline = logger(tmp_path, resumed=resumed)
        offline.start()
        log(offline, *epochs)
        offline.finish({"best_epoch": epochs[-1]}, failed=not resumed)
    logged = read(tmp_path)
    assert logged["run"].run_id == tmp_path.name
    rows = [(row["epoch"], row["val/accuracy"]) for row in logged["history"]]
    assert rows == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert not any("train_seconds" in row for row in logged["history"])
    assert logged["exit_code"] == 0
    assert capfd.readouterr().err == ""


def test_a_resumed_online_run_continues_under_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        for epochs, resumed in (((1, 2), False), ((2, 3), True)):  # the second epoch is trained again after a crash
            online = logger(tmp_path, mode="online", host=server.address, resumed=resumed, job_type="probe")
            online.start()
            log(online, *epochs)
            online.finish({"best_epoch": epochs[-1]}, failed=not resumed)
        [run] = server.runs.values()
    wandb.teardown()
    assert [(row["epoch"], row["val/accuracy"]) for row in run.history] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert run.complete
    assert run.arguments["jobType"] == "probe"
    assert run.arguments["groupName"] == "demo-mean-x"
    assert set(run.arguments["tags"]) == {"mean", "demo", "try"}


def test_an_online_run_uploads_plots_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        online = ["logger=wandb", "logger.mode=online", f"logger.host={server.address}", "logger.examples=1"]
        run = fit(tiny(f"output_dir={tmp_path}", *online))
        [(name, uploaded)] = server.runs.items()
        shown = capfd.readouterr()
        printed = [line for line in shown.out.splitlines() if line.startswith("W&B")]
        assert printed == [f"W&B: {server.address}/someone/sentattn/runs/{run.path.name}"]
    wandb.teardown()
    assert KEY not in shown.out + shown.err
    assert name == run.path.name
    assert [row["epoch"] for row in uploaded.history if "val/accuracy" in row] == [1, 2]
    assert uploaded.complete
    assert len([file for file in uploaded.files if file.startswith("media/images/attention/")]) == 1
    tables = {artifact.removeprefix(f"run-{name}-").partition("-")[0] for artifact in server.artifacts}
    assert tables == {"valconfusion_matrix_table", "testconfusion_matrix_table", "valpredictions"}


def test_wandb_mode_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    disabled = logger(tmp_path)
    disabled.start()
    log(disabled, 1)
    disabled.finish({"best_epoch": 1})
    assert capsys.readouterr().out == "W&B: disabled by WANDB_MODE\n"
    assert not (tmp_path / "wandb").exists()


@pytest.mark.parametrize(
    ("words", "key"), [(["logger=wandb"], "logger.host"), (["logger=[csv,wandb]"], "logger.wandb.host")]
)
def test_a_host_without_scheme_is_refused_before_anything_is_written(
    words: list[str], key: str, tmp_path: Path
) -> None:
    typed = tiny(f"output_dir={tmp_path}", *words, f"{key}=wandb.example.org")
    assert_refused(lambda: fit(typed), key, "type", f"{key} must be", "wandb.example.org")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "netrc", "host", "expected"),
    [
        (None, "", None, False),
        (KEY, "", None, True),
        (KEY, "", "https://wandb.example.org", False),
        (KEY, "", "https://api.wandb.ai", True),
        (KEY, "", "https://api.forge.coreweave.com", True),
        (None, f"machine api.wandb.ai login user password {KEY}\n", None, True),
        (None, f"machine api.wandb.ai login user password {KEY}\n", "https://api.forge.coreweave.com", True),
        (None, f"machine api.forge.coreweave.com login user password {KEY}\n", None, True),
        (None, f"machine api.wandb.ai login user password {KEY}\n", "https://wandb.example.org", False),
        (None, f"machine wandb.example.org login user password {KEY}\n", "https://wandb.example.org", True),
        (None, f"machine example.org login user password {KEY}\n", None, False),
        (None, "nonsense", None, False),
    ],
)
def test_a_key_is_read_from_environment_or_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, netrc: str, host: str | None, expected: bool
) -> None:
    (tmp_path / "netrc").write_text(netrc)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("WANDB_API_KEY", key)
    assert (upload.api_key(host) == KEY) is expected


def assert_same_training(with_it: LoadedRun, without: LoadedRun) -> None:
    for name in ("model/model.safetensors", "predictions.parquet"):
        assert (with_it.path / name).read_bytes() == (without.path / name).read_bytes()
    assert rows(with_it.path) == rows(without.path)


def test_a_training_is_the_same_with_and_without_wandb(run: LoadedRun, tiny_run: LoadedRun) -> None:
    assert_same_training(run, tiny_run)


@pytest.mark.slow
def test_a_training_with_pairs_is_the_same_with_and_without_wandb(tmp_path: Path) -> None:
    shared = [setting for setting in tiny() if not setting.startswith(("model.", "logger"))]
    shared += ["model=relation", "model.attention.hidden=4", "model.embedding.size=8"]
    drawn = ["logger=wandb", "logger.examples=1", "logger.texts=[A fine film.]"]
    with_it = fit([*shared, *drawn, f"output_dir={tmp_path / 'with'}"])
    assert_same_training(with_it, fit([*shared, "logger=none", f"output_dir={tmp_path / 'without'}"]))


def test_the_drawn_weights_are_those_of_the_best_epoch(run: LoadedRun, drawn: list[Prediction]) -> None:
    assert len(drawn) == 4, "once, and not in each of two epochs"
    for prediction in drawn:
        [own] = run.predict([prediction.text])
        assert prediction.probabilities == pytest.approx(own.probabilities, abs=1e-6)
        assert prediction.attention[0] == pytest.approx(own.attention[0], abs=1e-6)
