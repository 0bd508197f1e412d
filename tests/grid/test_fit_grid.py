"""`sentattn.fit_grid`: a grid from Python."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from refusals import refused
from tiny import tiny

import sentattn
from sentattn.prediction.model import LoadedRun


def test_a_run_that_fails_is_named_and_the_others_are_found_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1", "threads=1", "seeds=2")
    assert refused(lambda: sentattn.fit_grid([*words, "optimizer.lr=0.01,1e30"])) == [
        ("lr=1e+30, seed=0", "failed"),
        ("lr=1e+30, seed=1", "failed"),
    ]
    finished = {file.parent for file in tmp_path.glob("demo/structured/*/predictions.parquet")}
    assert len(finished) == 2
    capfd.readouterr()
    runs: list[LoadedRun] = []
    thread = threading.Thread(target=lambda: runs.extend(sentattn.fit_grid([*words, "optimizer.lr=0.01,0.02"])))
    thread.start()
    thread.join()
    out, err = capfd.readouterr()
    assert not err
    assert out.startswith("4 runs: 2 settings, 2 seeds. 2 finished, 0 to be resumed.")
    assert [(run.settings["optimizer"]["lr"], run.settings["seed"]) for run in runs] == [
        (0.01, 0),
        (0.02, 0),
        (0.01, 1),
        (0.02, 1),
    ]
    assert {run.path for run in runs} > finished
    assert runs[0].predict("good")[0].label in ("negative", "positive")
    assert not any("\x1b" in (run.path / "log.txt").read_text() for run in runs)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("modle=mean", ("modle", "unknown")),
        (["model=mean,cnn", "check=true"], ("check", "unsupported")),
        (["logger=none,csv"], ("logger", "no_effect")),
    ],
    ids=["key", "check", "logger"],
)
def test_bad_input(words: str | list[str], fault: tuple[str, str]) -> None:
    assert refused(lambda: sentattn.fit_grid(words)) == [fault]


@pytest.mark.slow
def test_in_a_script_without_a_guard_that_has_a_server_of_its_own_and_changes_its_folder(tmp_path: Path) -> None:
    program = f"""
import multiprocessing, os, sentattn
process = multiprocessing.get_context("forkserver").Process(target=print)
if multiprocessing.current_process().name == "MainProcess":  # the user's own process needs one
    process.start()
    process.join()
    words = {tiny("threads=1")}
    sentattn.fit_grid([*words, "seed=1"])
    os.mkdir("other")
    os.chdir("other")
    [run] = sentattn.fit_grid(words)
    assert run.metrics["val/accuracy"]
"""
    (tmp_path / "script.py").write_text(program)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, check=True, timeout=600)
    assert len([*tmp_path.glob("outputs/demo/*/*/result.json")]) == 1
    assert len([*tmp_path.glob("other/outputs/demo/*/*/result.json")]) == 1
