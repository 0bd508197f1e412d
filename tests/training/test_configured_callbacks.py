"""Callbacks of `callbacks=`: early stopping, learning rates, classes of one's own, and what happens when they fail."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import own_callbacks
import pytest
from refusals import fault_of, refused
from runs_alike import assert_alike
from tiny import tiny

from sentattn import fit
from sentattn.config.compose import compose
from sentattn.prediction.model import LoadedRun
from sentattn.training.trainer import build_callbacks

STOP = ["callbacks.early_stopping.patience=2", "callbacks.early_stopping.min_delta=0.9", "trainer.max_epochs=6"]
"""No epoch after the first one improves by so much, and the third is the last."""
OWN = ["trust=true", "callbacks.own._target_=own_callbacks.Counting", "callbacks.own.start=5"]
RATES = ["callbacks=[early_stopping,lr_monitor]", "logger=csv", "trainer.log_every_n_steps=5"]


def trained(folder: Path, *words: str) -> LoadedRun:
    return fit(tiny(f"output_dir={folder}", "callbacks=early_stopping", *STOP, *words))


@pytest.mark.parametrize(("metric", "mode"), [("val/accuracy", "max"), ("val/log_loss", "min")])
def test_early_stopping_watches_the_objective(metric: str, mode: str) -> None:
    words = ["callbacks=early_stopping", f"objective.metric={metric}", f"objective.mode={mode}"]
    [callback] = build_callbacks(compose(words)).values()
    assert (callback.monitor, callback.mode, callback.patience) == (metric, mode, 2)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A training that early stopping ended, with a callback that could have failed."""
    return trained(tmp_path_factory.mktemp("whole"), *OWN, *RATES)


def test_early_stopping_ends_the_training(whole: LoadedRun) -> None:
    assert (whole.result["epochs"], whole.result["status"]) == (3, "finished")


@pytest.mark.parametrize(
    ("hook", "epoch"), [("on_validation_start", 3), ("on_train_epoch_end", 3), ("on_train_end", 4)]
)
def test_a_callback_that_fails_is_named_and_the_resumed_run_is_the_same(
    whole: LoadedRun, hook: str, epoch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `on_train_end` the training has stopped already: it is evaluated, not continued."""
    monkeypatch.setattr("own_callbacks.FAILS_IN", (hook, epoch))
    fault = fault_of(lambda: trained(tmp_path, *OWN, *RATES))
    assert (fault.key, fault.kind) == ("callbacks.own", "failed")
    assert f"Counting.{hook} raised RuntimeError: counting failed" in fault.message
    [left] = tmp_path.glob("*/*/*")
    assert not (left / "result.json").exists()
    monkeypatch.setattr("own_callbacks.FAILS_IN", None)
    resumed = fit(shlex.split(fault.message.partition("python -m sentattn.train ")[2]))
    assert resumed.result["epochs"] == 3
    assert_alike(resumed.path, whole.path)


def points(path: Path, name: str = "lr-Adam") -> list[tuple[str, str]]:
    """The learning rates of Lightning's monitor, or other values, by step."""
    with (path / "csv" / "metrics.csv").open() as file:
        return [(line["step"], line[name]) for line in csv.DictReader(file) if line[name]]


def test_values_of_callbacks_are_recorded_and_rates_of_the_monitor_are_points(whole: LoadedRun) -> None:
    rows = [json.loads(line) for line in (whole.path / "metrics.jsonl").read_text().splitlines()]
    assert [row["own/count"] for row in rows] == [6, 7, 8]
    source = Path(own_callbacks.__file__).read_bytes()
    assert (whole.path / "sources" / "own_callbacks.py").read_bytes() == source
    assert not any(name.startswith("lr-") for row in rows for name in row)
    steps, rates = zip(*points(whole.path), strict=True)
    assert [int(step) for step in steps] == list(range(5, 31, 5))
    assert all(float(rate) > 0 for rate in rates)
    assert points(whole.path) == points(whole.path, "step/lr")


def test_an_epoch_that_a_callback_stops_is_validated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["trust=true", "callbacks.own._target_=own_callbacks.Stopping", "checkpoint_minutes=0"]
    run = fit(tiny(f"output_dir={tmp_path}", *own, "trainer.max_epochs=4"))
    assert run.result["epochs"] == 2
    assert f"stopped after epoch 2 of 4, best {run.result['best_epoch']}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "key", "kind"),
    [
        ("own_callbacks.Other", "callbacks.x", "invalid"),
        ("own_callbacks.Refusing", "callbacks.x", "invalid"),
        ("own_callbacks.Unreadable", "callbacks", "failed"),
        ("pytorch_lightning.callbacks.EarlyStopping", "callbacks.x", "invalid"),  # without a metric
        ("pytorch_lightning.callbacks.TQDMProgressBar", "trainer", "invalid"),
    ],
)
def test_classes_that_cannot_be_used_are_named(target: str, key: str, kind: str, tmp_path: Path) -> None:
    words = tiny(f"output_dir={tmp_path}", "trust=true", f"callbacks.x._target_={target}")
    assert refused(lambda: fit(words)) == [(key, kind)]


@pytest.mark.slow
def test_all_ranks_stop_together(tmp_path: Path) -> None:
    words = ["trainer.devices=2", "trainer.strategy=ddp", *OWN, *RATES]
    run = trained(tmp_path, *words)
    assert run.result["epochs"] == 3
    assert points(run.path)
