"""Two real processes against one: the same steps, the same figures, one record; and what is left when one dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tiny import tiny

from sentattn.distributed import launching
from sentattn.errors import Interruption, RunError
from sentattn.run import Run
from sentattn.training.fitting import fit, train

WITHOUT_NOISE = [
    *(f"model.{part}=0" for part in ("embedding.dropout", "embedding.word_dropout", "encoder.dropout", "head.dropout")),
]
# The scores' bias moves all tokens' scores alike, so its gradient is rounding alone, which Adam would make large.
DEMANDING = [
    *("optimizer=sgd", "optimizer.lr=1.0", "trainer.gradient_clip_val=0.5", "ema_decay=0.9"),
    *("loss.penalty=0.5", "loss.class_weights=[1,3]", "loss.label_smoothing=0.1"),
    *("data.batching=fixed", "data.num_buckets=7", "data.limit=199", "data.batch_size=20"),
]
LONG = ["trainer.max_epochs=500", "trainer.devices=2"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """The same training in one process and in two."""
    folder = tmp_path_factory.mktemp("both")
    settings = tiny(*WITHOUT_NOISE, *DEMANDING, f"output_dir={folder}")
    one = fit(settings)
    assert len(_configs(folder)) == 1
    two = fit([*settings, "trainer=ddp"])
    assert len(_configs(folder)) == 2, "two processes write one run directory"
    return [one, two]


def _configs(folder: Path) -> list[Path]:
    return list(folder.glob("*/*/*/config.yaml"))


def _checkpoint(run: Run) -> dict[str, Any]:
    checkpoint: dict[str, Any] = torch.load(run.path / "checkpoints" / "last.ckpt", weights_only=True)
    return checkpoint


def _rows(run: Run) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def _without_time(row: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name not in ("train_seconds", "train/tokens_per_second")}


def test_weights_and_their_averages_are_those_of_one_process(both: list[Run]) -> None:
    one, two = map(_checkpoint, both)
    assert one["global_step"] == two["global_step"] >= 20
    for state in ("current_model_state", "state_dict"):
        for name, weights in one[state].items():
            torch.testing.assert_close(two[state][name], weights, rtol=0, atol=1e-5, msg=f"{state}: {name}")


def test_batches_are_uneven_and_some_have_one_row(both: list[Run]) -> None:
    from sentattn import build

    data = build.build_data(both[0].settings)
    sizes = [len(batch.labels_B) for batch in data.train_dataloader()]
    assert min(sizes) == 1, "otherwise no rank is ever without a row here"
    assert len(set(sizes)) > 3


def test_figures_are_those_of_one_process(both: list[Run]) -> None:
    one, two = map(_rows, both)
    assert len(one) == len(two) == 2
    for row, other in zip(one, two, strict=True):
        assert _without_time(other) == pytest.approx(_without_time(row), abs=1e-5)
        assert {"train/penalty", "train/cross_entropy", "val/loss", "val/calibration_error"} < set(row)
    assert both[1].metrics == pytest.approx(both[0].metrics, abs=1e-5)


def test_each_test_row_is_predicted_once_and_as_by_one_process(both: list[Run]) -> None:
    one, two = (pq.read_table(run.path / "predictions.parquet").to_pydict() for run in both)
    probabilities, others = (np.array(table.pop("probabilities")) for table in (one, two))
    assert one == two
    np.testing.assert_allclose(others, probabilities, atol=1e-5)


def test_the_record_says_how_many_devices_and_the_setting_is_the_same(both: list[Run]) -> None:
    assert [run.settings["trainer"]["devices"] for run in both] == [1, 2]
    assert len({run.result["setting"] for run in both}) == 1
    assert both[1].result["status"] == "finished"
    words = [run.result["tokens_per_second"] * run.result["seconds"]["train"] for run in both]
    assert words[1] == pytest.approx(words[0], rel=1e-6)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that are started, by rank."""
    started: list[subprocess.Popen[bytes]] = []
    start = launching._start
    monkeypatch.setattr(launching, "_start", lambda *given: started.append(start(*given)) or started[-1])
    yield started
    assert [process.poll() for process in started].count(None) == 0, "none outlives the training"


def _in_the_second_epoch(folder: Path, act: Callable[[], None]) -> threading.Thread:
    """Does something once an epoch has been trained and kept."""

    def watch() -> None:
        for _ in range(1200):
            if any(file.read_text() for file in folder.glob("*/*/*/metrics.jsonl")):
                break
            time.sleep(0.1)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.parametrize("rank", [0, 1])
def test_when_one_dies_the_other_ends_too(
    rank: int, tmp_path: Path, processes: list[subprocess.Popen[bytes]], capfd: pytest.CaptureFixture[str]
) -> None:
    watching = _in_the_second_epoch(tmp_path, lambda: processes[rank].kill())
    with pytest.raises(
        RunError, match=f"Process {rank} of the 2 .* killed by SIGKILL; go on with: .* resume="
    ) as caught:
        fit(tiny(*LONG, f"output_dir={tmp_path}"))
    watching.join()
    [config] = _configs(tmp_path)
    assert str(config.parent) in str(caught.value)
    assert (config.parent / "checkpoints" / "last.ckpt").is_file()
    assert not (config.parent / "result.json").exists()
    captured = capfd.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out.count("epoch 1/500") == 1, "one process prints"


@pytest.mark.slow
def test_a_signal_ends_both_at_one_step_and_the_run_goes_on_to_the_same_end(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    settings = tiny("trainer.devices=2", "trainer.max_epochs=20")
    whole = fit([*settings, f"output_dir={tmp_path / 'whole'}"])
    parted = tmp_path / "parted"
    watching = _in_the_second_epoch(parted, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interruption, match="ended by SIGTERM; go on with"):
        fit([*settings, f"output_dir={parted}"])
    watching.join()
    [config] = _configs(parted)
    assert len(_rows(Run(config.parent))) < 20
    assert [process.returncode for process in processes[2:]] == [143, 143]
    resumed = train(Run(config.parent).settings, resume=config.parent)
    one, two = _checkpoint(whole), _checkpoint(resumed)
    for state in ("current_model_state", "state_dict"):
        assert all(torch.equal(two[state][name], weights) for name, weights in one[state].items())
    assert list(map(_without_time, _rows(resumed))) == list(map(_without_time, _rows(whole)))
    assert resumed.metrics == whole.metrics
