"""Whatever fails in a logger, the training continues, and one line says what happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers.logger import Logger
from tiny import tiny

from sentattn import fit
from sentattn.loggers import LoggedRun
from sentattn.loggers.guard import Guard


class Recording(Logger):
    """Keeps what it gets, and raises in the methods named in `broken`."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.broken = broken
        self.rows: list[tuple[dict[str, Any], int | None]] = []
        self.status = ""

    def _check(self, method: str) -> None:
        if method in self.broken:
            raise OSError(f"no room for {method}\nand a traceback")

    @property
    def name(self) -> str:
        return "recording"

    @property
    def version(self) -> str:
        return "1"

    @property
    def experiment(self) -> Any:
        self._check("experiment")
        return self

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self._check("log_metrics")
        self.rows.append((dict(metrics), step))

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        raise AssertionError("Lightning's own record of settings is not used")

    def finalize(self, status: str) -> None:
        self._check("finalize")
        self.status = status


def guarded(logger: Logger, directory: Path) -> Guard:
    guard = Guard("Recording", lambda: (logger, "here"), directory=directory)
    guard.start()
    return guard


def test_metrics_of_an_epoch_are_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = Recording()
    guard = guarded(logger, tmp_path)
    guard.log_hyperparams({"x": 1})
    for epoch in (0, 1):
        guard.log_metrics({"val/loss": 0.5, "epoch": epoch}, step=7)
        guard.log_metrics({"train/loss": 0.25, "epoch": epoch}, step=7)
    guard.finalize("success")
    assert logger.status == "", "the evaluation comes after Lightning's end"
    guard.finish({"best_epoch": 2, "train/loss": 0.25, "test/loss": 0.5})
    row = {"val/loss": 0.5, "train/loss": 0.25}
    assert logger.rows == [(row, 1), (row, 2), ({"best_epoch": 2, "test/loss": 0.5}, 2)]
    assert (logger.status, guard.name, capsys.readouterr().out) == ("success", "Recording", "Recording: here\n")


USES: dict[str, Callable[[Guard], Any]] = {
    "experiment": lambda guard: guard.experiment.log({"x": 1}),
    "log_metrics": lambda guard: guard.log_metrics({"train/loss": 1.0, "epoch": 0}),
    "finalize": lambda guard: guard.finish({}),
}


@pytest.mark.parametrize("method", USES)
def test_the_first_error_switches_the_logger_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    guard = guarded(Recording(method), tmp_path)
    for _ in range(2):
        USES[method](guard)
    for use in USES.values():
        use(guard)
    [_, line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"Recording: no room for {method}; ")
    assert str(tmp_path) in line
    guard.experiment.anything("is ignored")


def test_a_logger_that_cannot_be_opened_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> tuple[Logger, str]:
        raise RuntimeError

    guard = Guard("Recording", fail, directory=tmp_path)
    guard.start()
    guard.finish({})
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("Recording: RuntimeError; ")


def test_a_training_continues_without_its_logger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def build_loggers(run: LoggedRun) -> list[Guard]:
        return [guarded(Recording("log_metrics"), run.directory), guarded(other, run.directory)]

    other = Recording()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sentattn.training.evaluate.build_loggers", build_loggers)
        run = fit(tiny(f"output_dir={tmp_path}"))
    assert capsys.readouterr().out.count("no room for log_metrics") == 1
    assert [epoch for row, epoch in other.rows if "val/accuracy" in row] == [1, 2]
    assert (run.result["status"], run.result["epochs"]) == ("finished", 2)
