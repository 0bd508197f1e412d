"""Checkpoints: killed runs are continued to the same end, and a full disk costs as little as it can."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from full_disk import no_room
from recorders import make_recorder, make_trainer
from refusals import fault_of
from runs_alike import assert_alike, kill_in_the_second_epoch
from tiny import tiny

from sentattn import fit
from sentattn.distributed import ranks
from sentattn.run import Run
from sentattn.training.recorder import FileInPlace, Recorder


@pytest.mark.parametrize(
    "model",
    [
        ["model=structured", "model.encoder.hidden=4", "model.attention.hidden=5", "trainer.precision=64-true"],
        pytest.param(["model=transformer", "model.encoder.heads=2"], marks=pytest.mark.slow),
        pytest.param(["model=relation"], marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_resumes_to_the_same_result(model: list[str], tmp_path: Path) -> None:
    """One in float32 is killed in `test_start.py`."""
    words = [*model, "model.embedding.size=8", "logger=none", "data.limit=200", "data.batch_size=20"]
    words += ["trainer.max_epochs=3", "trainer.accelerator=cpu", "checkpoint_minutes=0"]
    whole = fit([*words, f"output_dir={tmp_path / 'whole'}"])
    left = kill_in_the_second_epoch([*words, f"output_dir={tmp_path / 'cut'}"], tmp_path / "cut")
    assert_alike(whole.path, fit([f"resume={left}"]).path)


class Killed(BaseException):
    """The end of a process: nothing handles it."""


@contextmanager
def killed_at(operation: int) -> Iterator[list[int]]:
    """Ends the training before the file operation with this number, or with 0 counts them."""
    seen: list[int] = []

    def counted(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen.append(1)
            if len(seen) == operation:
                raise Killed
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "link"):
            patch.setattr(os, name, counted(getattr(os, name)))
        yield seen


def test_a_run_killed_at_any_file_operation_resumes_to_the_same_result(tmp_path: Path) -> None:
    # Each epoch is better than the one before, so that each is the best when it ends.
    words = ["model=mean", "logger=none", "data.limit=60", "data.batch_size=20", "trainer.max_epochs=2"]
    words += ["trainer.accelerator=cpu", "model.embedding.size=8", "test=false", "checkpoint_minutes=0"]
    words += ["objective.metric=val/log_loss", "objective.mode=min"]
    whole = fit([*words, f"output_dir={tmp_path / 'whole'}"])  # it also fills the cache of the data
    with killed_at(0) as operations:
        fit([*words, f"output_dir={tmp_path / 'counted'}"])
    assert whole.result["best_epoch"] == 2
    resumed = 0
    for operation in range(1, len(operations) + 1):
        folder = tmp_path / str(operation)
        with killed_at(operation), pytest.raises(Killed):
            fit([*words, f"output_dir={folder}"])
        for path in [checkpoint.parents[1] for checkpoint in folder.glob("*/*/*/checkpoints/last.ckpt")]:
            if not (path / "result.json").exists():
                assert_alike(fit([f"resume={path}"]).path, whole.path)
                resumed += 1
    assert resumed > 10, "after each step too"


def test_metrics_of_repeated_epochs_are_not_written_twice(tiny_run: Run, left: Path) -> None:
    with (left / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": 3}) + "\n")
        file.write('{"epoch": 4, "torn')
    assert_alike(tiny_run.path, fit([f"resume={left}"]).path)


def test_a_full_disk_within_an_epoch_skips_the_checkpoint(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The second checkpoint of the first epoch does not fit on the disk.
    original = Recorder._write
    writes = iter(range(100))

    def hindered(self: Recorder, trainer: Any, *, batches: int) -> str | None:
        with no_room() if next(writes) == 1 else nullcontext():
            return original(self, trainer, batches=batches)

    monkeypatch.setattr(Recorder, "_write", hindered)
    done = fit(tiny("checkpoint_minutes=0", f"output_dir={tmp_path}"))
    assert_alike(tiny_run.path, done.path)
    assert "last.ckpt cannot be written" in capsys.readouterr().out
    assert not list((done.path / "checkpoints").glob(".*"))


def test_files_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".last.ckpt.123").write_bytes(b"half")
    FileInPlace().save_checkpoint({"a": 1}, tmp_path / "last.ckpt")
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize(
    "place",
    [
        "sentattn.training.recorder.Recorder._write",
        "sentattn.run.Run.write_predictions",
        "safetensors.torch.save_file",
        "sentattn.run.Run.write_result",
    ],
)
def test_a_run_that_did_not_fit_on_the_disk_can_be_resumed(
    tiny_run: Run, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = resolve_name(place)

    def hindered(*args: Any, **kwargs: Any) -> Any:
        is_within_an_epoch = kwargs.get("batches", 0)
        with nullcontext() if is_within_an_epoch else no_room():
            return original(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(place, hindered)
        fault = fault_of(lambda: fit(tiny(f"output_dir={tmp_path}")))
    [left] = tmp_path.glob("*/*/*")
    assert fault.kind == "unwritable"
    assert fault.key.startswith(str(left))
    assert os.strerror(errno.EFBIG) in fault.message
    assert f"resume={left}" in fault.message
    assert not (left / "result.json").exists()
    assert_alike(tiny_run.path, fit([f"resume={left}"]).path)


def test_a_folder_that_vanishes_before_the_best_checkpoint_is_written(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    with monkeypatch.context() as patched:
        patched.setattr("sentattn.training.recorder.os.link", gone)
        patched.setattr("sentattn.training.recorder.shutil.copyfile", gone)
        fault = fault_of(lambda: fit(tiny(f"output_dir={tmp_path}")))
    [left] = tmp_path.glob("*/*/*")
    assert (fault.key, fault.kind) == (str(left / "checkpoints" / "best.ckpt"), "unwritable")
    assert_alike(tiny_run.path, fit([f"resume={left}"]).path)


@pytest.mark.parametrize(("several", "minutes", "asked"), [(True, 5.0, 9), (True, 0.0, 99), (False, 5.0, 99)])
def test_several_ranks_share_signals_every_tenth_step(
    several: bool, minutes: float, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes through main memory, and each rank waits for it; with 0 minutes each step has a checkpoint."""
    asking: list[int] = []
    monkeypatch.setattr(ranks, "several", lambda: several)
    monkeypatch.setattr(ranks, "all_reduce_max", lambda number: asking.append(number) or 0)
    recorder = make_recorder(tmp_path, minutes=minutes)
    monkeypatch.setattr(recorder, "_write", lambda trainer, *, batches: True)
    trainer = make_trainer(batches=100)
    batch = cast("Any", SimpleNamespace(lengths_B=np.array([3])))
    for number in range(100):
        recorder.on_train_batch_end(trainer, cast("Any", None), None, batch, number)
    assert len(asking) == asked
