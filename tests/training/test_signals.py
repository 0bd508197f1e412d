"""Signals at every stage of a training, really sent; the run that is left is continued to the same end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs_alike import assert_alike
from tiny import tiny

from sentattn import fit
from sentattn.data import datamodule
from sentattn.distributed import ranks
from sentattn.errors import Interruption
from sentattn.run import Run
from sentattn.training.lit_module import LitClassifier
from sentattn.training.recorder import Recorder
from sentattn.training.signals import Signals


def sends(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, call: int = 1, number: int = signal.SIGTERM
) -> None:
    """Lets a function send a signal to this process when it is called for the nth time."""
    original = getattr(owner, name)
    calls = iter(range(1, 10_000))

    def sending(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, sending)


def interrupted(tmp_path: Path, *settings: str) -> tuple[Interruption, Path | None]:
    """Trains until the signal; returns what was said and the run that is left."""
    with pytest.raises(Interruption) as caught:
        fit(tiny(f"output_dir={tmp_path}", *settings))
    left = list(tmp_path.glob("*/*/*"))
    assert len(left) < 2
    return caught.value, left[0] if left else None


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        pytest.param(LitClassifier, "training_step", 1, marks=pytest.mark.slow),
        (LitClassifier, "training_step", 13),
        pytest.param(LitClassifier, "training_step", 20, marks=pytest.mark.slow),
        pytest.param(LitClassifier, "validation_step", 2, marks=pytest.mark.slow),
        (LitClassifier, "validation_step", 12),
        pytest.param(LitClassifier, "validation_step", 22, marks=pytest.mark.slow),
        (LitClassifier, "test_step", 1),
    ],
)
def test_a_run_ended_by_sigterm_can_be_resumed(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int
) -> None:
    with monkeypatch.context() as patched:
        sends(patched, owner, name, call=call)
        said, left = interrupted(tmp_path)
    assert said.exit_code == 143
    assert left is not None
    assert f"resume={left}" in str(said)
    assert not (left / "result.json").exists()
    again = fit([f"resume={left}"])
    assert_alike(tiny_run.path, again.path)


@pytest.mark.parametrize(("owner", "name"), [(datamodule, "open_corpus"), (Recorder, "on_fit_start")])
def test_sigterm_before_the_first_step_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    sends(monkeypatch, owner, name)
    said, left = interrupted(tmp_path)
    assert left is None
    assert (said.exit_code, "resume=" in str(said)) == (143, False)


def test_ctrl_c_ends_after_the_step_and_a_second_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[int] = []
    original = LitClassifier.training_step

    def twice(self: LitClassifier, *args: Any) -> Any:
        steps.append(1)
        if len(steps) in (2, 4):
            os.kill(os.getpid(), signal.SIGINT)
        if len(steps) == 4:
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("the second one does not wait for the step")
        return original(self, *args)

    monkeypatch.setattr(LitClassifier, "training_step", twice)
    said, left = interrupted(tmp_path)
    assert (said.exit_code, len(steps)) == (130, 2)
    assert left is not None
    assert "a second signal stops at once" in capsys.readouterr().err
    with pytest.raises(Interruption) as caught:
        fit([f"resume={left}"])
    assert f"resume={left}" in str(caught.value)
    assert len(steps) == 4


def test_a_training_stops_after_an_optimizer_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["trainer.accumulate_grad_batches=4", "scheduler=cosine"]
    whole = fit(tiny(f"output_dir={tmp_path / 'whole'}", *settings))
    stopped: list[int] = []
    write = Recorder._write

    def listening(self: Recorder, trainer: Any, *, batches: int) -> str | None:
        stopped.append(batches)
        return write(self, trainer, batches=batches)

    monkeypatch.setattr(Recorder, "_write", listening)
    with monkeypatch.context() as patched:
        sends(patched, LitClassifier, "training_step", call=2)
        _, left = interrupted(tmp_path / "cut", *settings)
    assert left is not None
    assert stopped[0] == 4
    assert_alike(whole.path, fit([f"resume={left}"]).path)


def test_ranks_stop_after_their_step_however_many_signals_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may send a signal to all processes, and their launcher passes it on."""
    monkeypatch.setattr(ranks, "several", lambda: True)
    with Signals() as signals:
        signals.deferred = True
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM


def test_worker_processes_ignore_ctrl_c_and_end_by_sigterm() -> None:
    with Signals() as signals:
        signals.deferred = True
        if (child := os.fork()) == 0:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGTERM
        assert signals.received is None
