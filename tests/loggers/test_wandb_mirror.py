"""W&B beside the record: what an offline run holds, and what a server gets of one that was resumed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import wandb
from tiny import tiny
from wandb_reader import read, table
from wandb_server import serving

import sentattn
from sentattn.config.compose import compose, setting_hash
from sentattn.errors import SettingError
from sentattn.loggers import WandbMirror, wandb_service
from sentattn.run import Run
from sentattn.training.fitting import fit

SETTINGS: dict[str, Any] = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": ["try"]}
ID = "20260101-000000-abcd"
KEY = "a" * 40


def mirror(directory: Path, **extra: Any) -> WandbMirror:
    arguments = {"directory": directory, "run_id": ID, "settings": SETTINGS, "setting": "5e77"}
    return WandbMirror(**{**arguments, **extra})


def epoch(mirror: WandbMirror, number: int) -> None:
    """Logs an epoch as Lightning does: validation, then training."""
    mirror.log_metrics({"val/accuracy": number / 10, "epoch": number - 1}, step=7)
    mirror.log_metrics({"train/loss": 1 / number, "epoch": number - 1}, step=7)


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = ["logger=wandb", "tags=[try]", "logger.examples=3", "logger.texts=[Slow but wonderful.]"]
    return fit(tiny(f"output_dir={tmp_path_factory.mktemp('outputs')}", *settings, "logger.table=7"))


@pytest.fixture(scope="module")
def kept(offline: Run) -> dict[str, Any]:
    return read(offline.path)


def test_offline_run_holds_settings_group_tags_and_job_type(offline: Run, kept: dict[str, Any]) -> None:
    assert kept["config"]["model"]["attention"]["hops"] == offline.settings["model"]["attention"]["hops"]
    assert kept["config"]["seed"] == 0
    assert kept["config"]["setting"] == offline.result["setting"]
    assert {"structured", "demo", "try"} == set(kept["run"].tags)
    assert kept["run"].run_group == f"demo-structured-{offline.result['setting']}"
    assert kept["run"].job_type == "train"
    assert kept["run"].run_id == offline.path.name
    assert kept["exit_code"] == 0


def test_a_row_is_an_epoch_and_has_the_figures_of_the_record(offline: Run, kept: dict[str, Any]) -> None:
    recorded = [json.loads(line) for line in (offline.path / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in kept["history"] if "val/accuracy" in row]
    assert [row["epoch"] for row in rows] == [row["_step"] for row in rows] == [1, 2]
    for row, own in zip(rows, recorded, strict=True):
        figures = {name: value for name, value in own.items() if "/" in name}
        assert {"train/loss", "train/gradient_norm", "train/tokens_per_second", "val/accuracy"} <= figures.keys()
        assert {name: row[name] for name in figures} == pytest.approx(figures, rel=1e-6)


def test_summary_holds_the_best_epoch(offline: Run, kept: dict[str, Any]) -> None:
    assert kept["summary"]["best_epoch"] == offline.result["best_epoch"]
    for name in ("val/accuracy", "test/accuracy", "train/loss"):
        assert kept["summary"][name] == pytest.approx(offline.metrics[name])


def test_each_epoch_has_its_heat_maps(offline: Run, kept: dict[str, Any]) -> None:
    rows = [row for row in kept["history"] if "val/accuracy" in row]
    names = {name.removesuffix(".path") for name in rows[0] if name.startswith("attention/") and name.endswith(".path")}
    assert len(names) == 4
    assert "attention/text_1" in names
    for row in rows:
        for name in names:
            [picture] = offline.path.glob(f"wandb/offline-run-*/files/{row[f'{name}.path']}")
            assert picture.read_bytes().startswith(b"\x89PNG")
    assert len({row["attention/text_1.sha256"] for row in rows}) == 2  # the weights have changed


def test_confusion_matrix_counts_the_recorded_predictions(offline: Run, kept: dict[str, Any]) -> None:
    [row] = [row for row in kept["history"] if "val/confusion_matrix_table.path" in row]
    assert row["epoch"] == offline.result["best_epoch"]
    recorded = pq.read_table(offline.path / "predictions.parquet").to_pylist()
    for split in ("val", "test"):
        counted = Counter((one["label"], one["predicted"]) for one in recorded if one["split"] == split)
        names = ("negative", "positive")
        cells = {
            (names.index(a), names.index(p)): n
            for a, p, n in table(offline.path, row, f"{split}/confusion_matrix_table")
        }
        assert {pair: n for pair, n in cells.items() if n} == counted
        panel = kept["config"][f"_wandb.visualize.{split}/confusion_matrix"]
        assert panel["panel_config"]["panelDefId"] == "wandb/confusion_matrix/v1"


def test_table_holds_rows_with_what_was_predicted(offline: Run, kept: dict[str, Any]) -> None:
    [row] = [row for row in kept["history"] if "val/predictions.path" in row]
    cells = table(offline.path, row, "val/predictions")
    assert len(cells) == 7
    recorded = {
        one["row"]: one
        for one in pq.read_table(offline.path / "predictions.parquet").to_pylist()
        if one["split"] == "val"
    }
    classifier = sentattn.load(offline.path)
    for position, text, label, predicted, probability in cells:
        one = recorded[position]
        assert label == ("negative", "positive")[one["label"]]
        assert predicted == ("negative", "positive")[one["predicted"]]
        assert probability == pytest.approx(max(one["probabilities"]))
        assert classifier.predict([text])[0].probabilities[predicted] == pytest.approx(probability, abs=1e-5)


def test_switched_off_nothing_is_drawn(tmp_path: Path) -> None:
    off = ["logger.examples=0", "logger.table=0", "test=false"]
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb", "trainer.max_epochs=1", *off))
    names = {name for row in read(run.path)["history"] for name in row}
    assert not any(name.startswith(("attention/", "val/predictions", "test/")) for name in names)
    assert "val/confusion_matrix_table.path" in names


def test_upload_is_told_by_our_own_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = mirror(tmp_path)
    one.start()
    one.finish({})
    shown = capfd.readouterr()
    assert f"python -m sentattn.sync {tmp_path}" in shown.out
    assert shown.err == ""


def test_seeds_of_a_setting_share_a_group_and_other_settings_do_not() -> None:
    def group(*typed: str) -> str:
        settings = compose(tiny(*typed))
        made = mirror(Path("x"), settings=settings, setting=setting_hash(settings))
        return str(made._arguments["group"])

    assert group("seed=1") == group("seed=2") == group("seed=3", "logger=wandb", "logger.job_type=trial")
    assert group("seed=1") != group("seed=1", "model.attention.hops=3")
    assert group("group=mine") == "mine"


def test_job_type_can_be_set(tmp_path: Path) -> None:
    one = mirror(tmp_path, job_type="trial")
    one.start()
    one.finish({})
    assert read(tmp_path)["run"].job_type == "trial"


def test_resumed_offline_run_is_whole(tmp_path: Path) -> None:
    first = mirror(tmp_path)
    first.start()
    for number in (1, 2):
        first.show(number, lambda: {"attention/row_3": wandb.Image(_dot(), caption="dot")})
        epoch(first, number)
    first.finish({"best_epoch": None}, failed=True)
    second = mirror(tmp_path, resumed=True)
    second.start()
    second.restore([{"epoch": n, "val/accuracy": n / 10, "train/loss": 1 / n, "train_seconds": 5.0} for n in (1, 2)])
    epoch(second, 3)
    second.finish({"best_epoch": 3})
    kept = read(tmp_path)
    assert kept["run"].run_id == ID
    assert [(row["_step"], row["epoch"], row["val/accuracy"]) for row in kept["history"]] == [
        (1, 1, 0.1),
        (2, 2, 0.2),
        (3, 3, 0.3),
    ]
    assert ["attention/row_3.path" in row for row in kept["history"]] == [True, True, False]
    assert not any("train_seconds" in row for row in kept["history"])
    assert kept["exit_code"] == 0


def test_resumed_online_run_goes_on_under_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        for numbers, resumed in (([1, 2], False), ([3], True)):
            one = mirror(tmp_path, mode="online", host=server.address, resumed=resumed, job_type="trial")
            one.start()
            one.restore([{"epoch": n, "val/accuracy": n / 10, "train/loss": 1 / n} for n in (1, 2) if resumed])
            for number in numbers:
                epoch(one, number)
            one.finish({"best_epoch": numbers[-1]}, failed=not resumed)
        [run] = server.runs.values()
    wandb.teardown()
    assert [(row["_step"], row["epoch"], row["val/accuracy"]) for row in run.history] == [
        (1, 1, 0.1),
        (2, 2, 0.2),
        (3, 3, 0.3),
    ]
    assert run.complete
    assert run.arguments["jobType"] == "trial"
    assert run.arguments["groupName"] == "demo-mean-5e77"
    assert set(run.arguments["tags"]) == {"mean", "demo", "try"}
    assert not list(tmp_path.glob(f"wandb/*/{wandb_service.UNSENT}"))


def test_online_run_goes_to_the_server_with_its_pictures_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        online = ["logger=wandb", "logger.mode=online", f"logger.host={server.address}", "logger.examples=1"]
        run = fit(tiny(f"output_dir={tmp_path}", *online))
        [(name, uploaded)] = server.runs.items()
        told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("W&B")]
        assert told == [f"W&B: {server.address}/someone/sentattn/runs/{run.path.name}"]
    wandb.teardown()
    assert name == run.path.name
    assert [row["epoch"] for row in uploaded.history if "val/accuracy" in row] == [1, 2]
    assert uploaded.complete
    assert len([file for file in uploaded.files if file.startswith("media/images/attention/")]) == 2
    tables = {artifact.removeprefix(f"run-{name}-").partition("-")[0] for artifact in server.artifacts}
    assert tables == {"valconfusion_matrix_table", "testconfusion_matrix_table", "valpredictions"}


def test_a_host_is_an_address() -> None:
    with pytest.raises(SettingError, match=r"logger\.host=https://HOST"):
        mirror(Path("x"), host="wandb.example.org")


@pytest.mark.parametrize(
    ("key", "netrc", "host", "expected"),
    [
        (None, "", None, "offline"),
        (KEY, "", None, "online"),
        (None, f"machine api.wandb.ai login user password {KEY}\n", None, "online"),
        (None, f"machine api.wandb.ai login user password {KEY}\n", "https://wandb.example.org", "offline"),
        (None, f"machine wandb.example.org login user password {KEY}\n", "https://wandb.example.org", "online"),
        (None, "machine example.org login user password x\n", None, "offline"),
        (None, "nonsense", None, "offline"),
    ],
)
def test_online_only_where_a_key_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, netrc: str, host: str | None, expected: str
) -> None:
    (tmp_path / "netrc").write_text(netrc)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("WANDB_API_KEY", key)
    assert wandb_service.mode(host) == expected


def _dot() -> Any:
    from PIL import Image

    return Image.new("RGB", (4, 4))
