"""`python -m sentattn.train -m`, from the command line to the comparison."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import until
from tiny import tiny

from sentattn.compare.comparison import read_comparisons
from sentattn.run import Run
from sentattn.train import main


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sentattn.train", *words]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=root)


def results(folder: Path) -> dict[tuple[str, int], dict[str, float]]:
    """The metrics of finished runs by variant and seed, of which there is one each."""
    runs = [Run(file.parent) for file in folder.glob("demo/*/*/result.json")]
    found = {(run.settings["model"]["name"], run.settings["seed"]): run.metrics for run in runs}
    assert len(found) == len(runs)
    return found


def checkpoints(folder: Path) -> set[int]:
    """When the last checkpoint of each run was written."""
    return {file.stat().st_mtime_ns for file in folder.glob("demo/*/*/checkpoints/last.ckpt")}


@pytest.mark.slow
def test_a_grid_that_is_killed_and_interrupted_reaches_the_results_of_one_that_is_not(tmp_path: Path) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    setting = tiny("model=mean,lstm_mean", "checkpoint_minutes=0", "trainer.max_epochs=20")
    of_structured = ("model.encoder", "model.attention")
    words = ["-m", *(word for word in setting if not word.startswith(of_structured)), "seeds=2", "slots=2", "threads=1"]
    for stop in (signal.SIGKILL, signal.SIGINT):
        before = checkpoints(broken)
        process = start(*words, f"output_dir={broken}")
        until(lambda before=before: checkpoints(broken) - before)
        os.kill(process.pid, stop)
        out, _ = process.communicate(timeout=600)
        assert "Traceback" not in out
        if stop == signal.SIGINT:
            assert process.returncode == 130
            assert f"python -m sentattn.train -m {words[1]} " in out
    assert len(results(broken)) < 4
    last = start(*words, f"output_dir={broken}")
    out, _ = last.communicate(timeout=600)
    assert last.returncode == 0, out
    assert len([*broken.glob("demo/*/*")]) == 4, "no directory is left of a run that was begun"
    [comparison] = read_comparisons([broken], split="test")[0]
    assert sorted((one.name, len(one.runs)) for one in comparison.settings) == [("lstm_mean", 2), ("mean", 2)]
    assert "lstm_mean" in out.partition("demo, split test")[2]
    assert start(*words, f"output_dir={whole}").wait(600) == 0
    assert results(broken) == results(whole)


def test_under_torchrun_it_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "2")
    assert main(["-m", "model=mean,structured"]) == 2
    assert capsys.readouterr().err.startswith("error: -m ")
