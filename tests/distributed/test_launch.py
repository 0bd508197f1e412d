"""Two processes against one: the same steps, the same metrics, one record; errors, signals and deaths of processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from encoder_files import write_encoder
from processes import is_alive, until
from refusals import fault_of, faults, refused
from runs_alike import rows
from safetensors.torch import load_file
from tiny import tiny

from sentattn import fit
from sentattn.config.schema import Settings
from sentattn.distributed import devices, ranks
from sentattn.errors import DataError, Fault, Interruption, RunError
from sentattn.run import Run
from sentattn.training import launch, signals
from sentattn.training.fit import fit as train

WITHOUT_NOISE = [
    *(f"model.{part}=0" for part in ("embedding.dropout", "embedding.word_dropout", "encoder.dropout", "head.dropout"))
]
# The scores' bias moves all tokens' scores alike, so its gradient is rounding alone, which Adam would make large.
DEMANDING = [
    *("optimizer=sgd", "optimizer.lr=1.0", "trainer.gradient_clip_val=0.5", "ema_decay=0.9"),
    *("loss.penalty=0.5", "loss.class_weights=[1,3]", "loss.label_smoothing=0.1"),
    *("data.batching=fixed", "data.num_buckets=7", "data.limit=201", "data.batch_size=20"),
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


def test_metrics_are_those_of_one_process(both: list[Run]) -> None:
    one, two = (rows(run.path) for run in both)
    assert len(one) == len(two) == 2
    for row, other in zip(one, two, strict=True):
        assert other == pytest.approx(row, abs=1e-5)
        assert {"train/penalty", "train/cross_entropy", "val/loss", "val/calibration_error"} < set(row)
    assert both[1].metrics == pytest.approx(both[0].metrics, abs=1e-5)


def test_each_test_row_is_predicted_once_and_as_by_one_process(both: list[Run]) -> None:
    one, two = (pq.read_table(run.path / "predictions.parquet").to_pydict() for run in both)
    probabilities, others = (np.array(table.pop("probabilities")) for table in (one, two))
    assert one == two
    np.testing.assert_allclose(others, probabilities, atol=1e-5)


def test_the_result_has_the_devices_and_the_same_setting(both: list[Run]) -> None:
    assert [run.settings["trainer"]["devices"] for run in both] == [1, 2]
    assert len({run.result["setting"] for run in both}) == 1
    assert both[1].result["status"] == "finished"
    words = [run.result["tokens_per_second"] * run.result["seconds"]["train"] for run in both]
    assert words[1] == pytest.approx(words[0], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("frozen", "layer"), [(True, -1), (False, -1), (False, 1)])
def test_two_processes_over_a_pretrained_encoder(frozen: bool, layer: int, tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder", dropout=0.0)
    settings = [
        *("model=pretrained", "model/attention=structured", f"model.embedding.name={encoder}"),
        *(f"model.embedding.frozen={str(frozen).lower()}", f"model.embedding.layer={layer}"),
        *("model.head.dropout=0", "data.max_length=40"),
        *("optimizer=sgd", "optimizer.lr=0.1", "data.limit=101", "data.batch_size=20", "logger=none"),
        *("trainer.max_epochs=2", "trainer.accelerator=cpu"),
    ]
    folders = [tmp_path / "one", tmp_path / "two"]
    devices = [[], ["trainer=ddp", "trainer.accelerator=cpu"]]
    one, two = (
        fit([*settings, *of_these, f"output_dir={folder}", f"data.cache_dir={folder / 'cache'}"])
        for folder, of_these in zip(folders, devices, strict=True)
    )
    assert two.settings["trainer"]["devices"] == 2
    first, second = _checkpoint(one)["state_dict"], _checkpoint(two)["state_dict"]
    assert any("encoder." in name and "layer" in name for name in first) is not frozen
    for name, weights in first.items():
        torch.testing.assert_close(second[name], weights, rtol=0, atol=1e-4, msg=name)
    assert two.metrics == pytest.approx(one.metrics, abs=1e-4)
    chunks = [list(folder.glob("cache/states-*/*.safetensors")) for folder in folders]
    texts = [sum(len(load_file(file)["lengths"]) for file in files) for files in chunks]
    assert texts[0] == texts[1], "each text is encoded by one of the processes"
    assert [len(files) for files in chunks] == ([1, 2] if frozen else [0, 0])


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 2)


def _processes(launcher: int) -> dict[str, int]:
    """The process ids of torchrun, with "", and of the ranks that a process has started, by rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "environ").read_text().split("\0")
            variables = dict(word.split("=", 1) for word in words if "=" in word)
            if variables.get(ranks.LAUNCHER) == str(launcher):
                found[variables.get("RANK", "")] = int(process.name)
    return found


def _trained(folder: Path) -> bool:
    """Whether an epoch has been trained and kept."""
    return any(file.read_text() for file in folder.glob("*/*/*/metrics.jsonl"))


def _after_an_epoch(folder: Path, act: Callable[[], None]) -> threading.Thread:
    def watch() -> None:
        until(lambda: _trained(folder))
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


@linux
@pytest.mark.slow  # below, torchrun has ended with its code
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_killed_rank_ends_the_others(rank: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handlers = [signal.getsignal(number) for number in signals.HANDLED]
    started: dict[str, int] = {}

    def kill() -> None:
        started.update(_processes(os.getpid()))
        os.kill(started[rank], signal.SIGKILL)

    thread = _after_an_epoch(tmp_path, kill)
    fault = fault_of(lambda: fit(tiny(*LONG, f"output_dir={tmp_path}")))
    thread.join()
    [config] = _configs(tmp_path)
    assert (fault.key, fault.kind) == ("trainer.devices", "failed")
    assert f"resume={config.parent}" in fault.message
    assert (config.parent / "checkpoints" / "last.ckpt").is_file()
    assert not (config.parent / "result.json").exists()
    captured = capfd.readouterr()
    assert f"exitcode  : -9 (pid: {started[rank]})" in captured.err, "torchrun says it"
    assert captured.out.count("epoch 1/500") == 1, "one process prints"
    assert not any(map(is_alive, started.values()))
    assert started.keys() == {"", "0", "1"}
    assert [signal.getsignal(number) for number in signals.HANDLED] == handlers
    assert not {launch.FOLDER, ranks.LAUNCHER, "OMP_PROC_BIND"} & set(os.environ)


@pytest.mark.parametrize(("code", "number"), [(1, None), (130, signal.SIGINT), (143, signal.SIGTERM)])
def test_a_launch_that_ended_early_names_the_run_to_resume(
    code: int, number: int | None, tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_after_a_checkpoint(program: list[str], devices: int) -> int:
        folder = Path(json.loads(Path(program[-1]).read_text())["path"])
        shutil.copytree(tiny_run.path, folder, ignore=shutil.ignore_patterns("result.json"))
        return code

    monkeypatch.setattr(launch, "run_ranks", end_after_a_checkpoint)
    with pytest.raises(Interruption if number else RunError) as caught:
        fit(tiny(*LONG, f"output_dir={tmp_path}"))
    assert getattr(caught.value, "number", None) == number
    assert f"resume={tmp_path}" in str(caught.value)
    if isinstance(caught.value, RunError):
        assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("trainer.devices", "failed")]


@linux
@pytest.mark.slow  # test_ranks.py has processes that import nothing
def test_no_process_is_left_of_a_training_that_was_killed(tmp_path: Path) -> None:
    """Neither a signal to a group of processes nor torchrun ends the ranks then."""
    program = "import sys; from sentattn import fit; fit(sys.argv[1:])"
    arguments = [sys.executable, "-c", program, *tiny(*LONG, f"output_dir={tmp_path}")]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as training:
        until(lambda: _trained(tmp_path))
        started = _processes(training.pid)
        training.kill()
    assert started.keys() == {"", "0", "1"}
    time.sleep(5)
    assert not any(map(is_alive, started.values()))
    assert not list(tmp_path.glob("*/*/*/result.json"))


@pytest.mark.slow
def test_a_run_of_two_ranks_resumes_after_a_signal(tmp_path: Path) -> None:
    settings = tiny("trainer.devices=2", "trainer.max_epochs=20")
    whole = fit([*settings, f"output_dir={tmp_path / 'whole'}"])
    interrupted = tmp_path / "interrupted"
    thread = _after_an_epoch(interrupted, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interruption) as caught:
        fit([*settings, f"output_dir={interrupted}"])
    thread.join()
    [config] = _configs(interrupted)
    assert caught.value.number == signal.SIGINT
    assert f"resume={config.parent}" in str(caught.value)
    assert len(rows(config.parent)) < 20
    resumed = train(Settings.of(Run(config.parent).settings), resume=config.parent)
    one, two = _checkpoint(whole), _checkpoint(resumed)
    for state in ("current_model_state", "state_dict"):
        assert all(torch.equal(two[state][name], weights) for name, weights in one[state].items())
    assert rows(resumed.path) == rows(whole.path)
    assert resumed.metrics == whole.metrics


@pytest.mark.slow  # below, a rank alone prints its fault
def test_a_fault_of_the_ranks_is_printed_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = tiny("data=table", f"data.train={tmp_path / 'missing.csv'}", f"output_dir={tmp_path}")
    [fault] = faults(words, fit)
    assert refused(lambda: fit([*words, "trainer.devices=2"])) == [("trainer.devices", "failed")]
    assert capfd.readouterr().err.count(f"error: {fault}\n") == 1


@pytest.mark.slow
def test_the_exit_code_of_rank_zero_is_returned(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from sentattn.training.launch import run_rank; exit(run_rank(lambda: exit(75)))")
    assert launch.run_ranks([str(program)], 2) == 75


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (None, 0, 0),
        (DataError(Fault("data.path", "not_found", "data.path: no file.")), 2, 2),
        (Interruption(signal.SIGTERM), 143, 0),
        (SystemExit(75), 75, 75),
    ],
)
def test_what_torchrun_and_the_launcher_learn_of_a_rank(
    error: BaseException | None,
    code: int,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def train() -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(ranks, "end_with_torchrun", lambda: None)
    monkeypatch.setenv(launch.FOLDER, str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    assert launch.run_rank(train) == status
    assert (tmp_path / launch.CODE).read_text() == str(code)
    assert capsys.readouterr().err == (f"error: {error}\n" if isinstance(error, DataError) else "")
