"""`python -m sentattn.sweep`: `status` and `best`, and commands that work on one study at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_sweep import X, finish, plan
from processes import children, gone, is_alive, until
from studies import ask, complete, read, states, train
from tiny import tiny

from sentattn.errors import SettingError
from sentattn.run import Run
from sentattn.sweep.__main__ import main
from sentattn.sweep.config import read_plan
from sentattn.sweep.study import SweepStudy


def test_the_status_of_a_study_that_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweeps" / "fake"
    finish(folder, plan(3))
    assert main(["status", "fake", f"output_dir={tmp_path}"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "fake: 3 complete; no process works on it"
    best = max(read(folder), key=lambda record: record.values[X])
    shown = f"  trial {best.number}: complete {best.objectives[0]:.4f}: penalty={best.values[X]:.4g}"  # type: ignore[index]
    assert lines[best.number] == shown
    assert lines[3:] == ["fake, best of val/accuracy (max):", shown]
    (folder / "best.yaml").write_text("overrides: [model=mean]\n")
    assert main([f"output_dir={tmp_path}", "status", "fake"]) == 0
    assert f"from={folder / 'best.yaml'}" in capsys.readouterr().out


def test_the_status_of_a_study_that_is_worked_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweeps" / "fake"
    with SweepStudy.open(plan(3), folder, train) as first, SweepStudy.open(plan(3), folder, train):
        ask(first)
        assert main(["status", f"output_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    process = f"process {os.getpid()} on {os.uname().nodename}"
    assert out.startswith(f"fake: 1 running; {process} and {process} work on it\n")
    assert "fake: no trial is complete yet.\n" in out


def test_trials_of_a_killed_sweep_are_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweeps" / "fake"
    finish(folder, plan(1))
    if not (pid := os.fork()):
        ask(SweepStudy.open(plan(3), folder, train).__enter__())  # and nothing records its end
        os._exit(0)
    os.waitpid(pid, 0)
    (folder / "report.html").touch()
    assert main(["status", f"output_dir={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fake: 1 complete, 1 interrupted; no process works on it"
    assert lines[2].startswith("  trial 1: interrupted: ")
    assert lines[-1] == f"report: {folder / 'report.html'}"


def test_studies_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", f"output_dir={tmp_path}"]) == 2
    assert capsys.readouterr().err == f"error: There is no study in {tmp_path / 'sweeps'}.\n"
    for name in ("one", "two"):
        finish(tmp_path / "sweeps" / name, plan(1))
    assert main(["status", "tow", f"output_dir={tmp_path}"]) == 2
    assert "Did you mean 'two'?" in capsys.readouterr().err
    assert main(["status", f"output_dir={tmp_path}"]) == 2
    assert "one, two" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["study.db", "storage.json"])
def test_a_study_of_an_earlier_format(tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    folder = tmp_path / "sweeps" / "old"
    folder.mkdir(parents=True)
    (folder / file).touch()
    for words in (["status"], ["status", "old"], ["study=old", "data=demo", "model.attention.hops=range(1,4)"]):
        assert main([*words, f"output_dir={tmp_path}"]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"error: study {folder} has format 1")


LIGHT = """
import sys
from sentattn.sweep.__main__ import main
assert main(["--help"]) == 0
assert not {"torch", "optuna", "pytorch_lightning"} & {*sys.modules}
import sentattn.sweep.search
from sentattn.sweep.config import read_plan
read_plan(["sweep=default"])
heavy = {"torch", "pytorch_lightning", "wandb", "plotly", "scipy", "sklearn", "pyarrow", "optuna.visualization"}
assert not heavy & {*sys.modules}
"""


def test_help_a_plan_and_a_scheduler_need_nothing_heavy() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True, cwd=Path(__file__).parents[2], capture_output=True)


def sweep(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Starts a sweep of trainings of seconds."""
    settings = tiny("model.attention.hops=range(1,30)", "pruner=none", "threads=1", f"output_dir={folder}", *words)
    command = [sys.executable, "-m", "sentattn.sweep", "study=mine", *settings]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )


@pytest.mark.slow
def test_two_commands_work_on_one_study_and_confirm_it_together(tmp_path: Path) -> None:
    words = (tmp_path, "trials=6", "confirm=3", "slots=2")
    both = [sweep(*words), sweep(*words)]
    texts = [process.communicate(timeout=1200)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert not any("Traceback" in text for text in texts), texts
    study = tmp_path / "sweeps" / "mine"
    assert states(study) == {"complete": 6}
    started = [{line.split()[1] for line in text.splitlines() if " on CPU" in line} for text in texts]
    assert all(started)
    assert not started[0] & started[1]
    assert all("best of val/accuracy" in text and "confirmed with 3 seeds" in text for text in texts)
    runs = [Run(file.parent) for file in tmp_path.glob("demo/*/*/result.json")]
    assert sorted(run.settings["seed"] for run in runs) == [1, 2, 3], "each was trained once"
    assert not any("corpus is cached" in file.read_text() for file in study.glob("trials/*/log.txt"))
    again = sweep(*words)
    text, _ = again.communicate(timeout=600)
    assert again.returncode == 0
    assert "trial 6 " not in text


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_of_trainings_that_is_ended_and_resumed(tmp_path: Path, number: signal.Signals) -> None:
    words = (tmp_path, "trials=4", "slots=2", "trainer.max_epochs=6", "checkpoint_minutes=0")
    process = sweep(*words)
    study = tmp_path / "sweeps" / "mine"
    until(lambda: len([*study.glob("trials/*/checkpoints/last.ckpt")]) >= 2)
    family = [process.pid, *children(process.pid)]
    os.killpg(process.pid, number)
    text, _ = process.communicate(timeout=600)
    assert process.returncode == (130 if number == signal.SIGINT else -number), text
    assert all(map(gone, family))
    assert len(complete(study)) == (2 if number == signal.SIGINT else 0)
    again = sweep(*words)
    text, _ = again.communicate(timeout=600)
    assert again.returncode == 0, text
    assert states(study)["complete"] == 4
    assert all(len((run / "metrics.jsonl").read_text().splitlines()) == 6 for run in runs_of(study))


def runs_of(study: Path) -> list[Path]:
    return [study / "trials" / str(record.number) for record in complete(study)]


@pytest.mark.slow
def test_a_trial_on_two_devices_leaves_no_process_when_it_is_killed(tmp_path: Path) -> None:
    program = TWO_DEVICES.format(folder=str(tmp_path), words=tiny("trainer.max_epochs=200", f"output_dir={tmp_path}"))
    process = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[2], text=True)
    log = tmp_path / "study" / "trials" / "0" / "log.txt"
    until(lambda: [*log.parent.glob("metrics.jsonl")] or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    family = descendants(process.pid)
    assert len(family) >= 5, "the server, the trial, torchrun and two ranks"
    process.kill()
    killed = time.monotonic()
    process.wait()
    until(lambda: not any(map(is_alive, family)), 60)
    assert time.monotonic() - killed < 5


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


TWO_DEVICES = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/sweep")
from fake_sweep import plan
from sentattn.jobs import scheduler
from sentattn.jobs.pool import LocalPool
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.slots import Slot
from sentattn.sweep.search import run_trial
from sentattn.sweep.config import read_plan
from sentattn.sweep.study import SweepStudy
one = plan(1, overrides=("model=structured", *{words!r}), output_dir={folder!r})
with SweepStudy.open(one, Path({folder!r}) / "study", run_trial) as study:
    scheduler.run([study], [Slot("GPUs 0+1", ("0", "1"), 1)], LocalPool(), JobProgress([study], 1))
"""


def begin(*words: str) -> None:
    """Begins a study as it is typed, without a trial."""
    typed = read_plan(words)
    with SweepStudy.open(typed, Path(typed.output_dir) / "sweeps" / typed.study, train):
        pass


def test_a_study_is_resumed_by_its_name_and_the_own_keys_of_the_sweep(tmp_path: Path) -> None:
    alone = ["study=s1", f"output_dir={tmp_path}"]
    words = [*alone, "model=mean", "optimizer.lr=interval(0.001,0.01)", "trials=3", "repeats=2", "sampler=random"]
    begin(*words)
    resumed = read_plan([*alone, "trials=9"])
    assert resumed.trials == 9
    assert resumed.space == read_plan(words).space
    assert (resumed.overrides, resumed.repeats, resumed.sampler) == (("model=mean",), 2, {"name": "random"})
    with pytest.raises(SettingError) as caught:
        begin(*alone, "model=structured", "optimizer.lr=interval(0.001,0.01)", "repeats=2")
    assert {(fault.key, fault.kind) for fault in caught.value.faults} == {("study", "conflict")}


def test_a_study_is_resumed_with_another_sampler_without_the_settings_of_the_first(tmp_path: Path) -> None:
    alone = ["study=s1", f"output_dir={tmp_path}"]
    first = ["sampler=tpe", "sampler.n_ei_candidates=9", "pruner=percentile", "pruner.percentile=50"]
    begin(*alone, *first, "model=mean", "optimizer.lr=interval(0.001,0.01)")
    resumed = read_plan([*alone, "sampler=random", "pruner=none"])
    assert (resumed.sampler, resumed.pruner) == ({"name": "random"}, {"name": "none"})
    assert read_plan([*alone, "trials=9"]).sampler == {"name": "tpe", "n_ei_candidates": 9}


def test_what_may_run_code_counts_only_where_it_is_typed(tmp_path: Path) -> None:
    alone, folder = ["study=s1", f"output_dir={tmp_path}"], tmp_path / "conf"
    (folder / "model").mkdir(parents=True)
    begin(*alone, "model=mean", "optimizer.lr=interval(0.001,0.01)", "trust=true", "--config-dir", str(folder))
    assert read_plan([*alone, "trials=9"]).overrides == ("model=mean",)
    typed = read_plan([*alone, "trials=9", "trust=true", "--config-dir", str(folder)]).overrides
    assert {*typed} == {"model=mean", "trust=true", f"--config-dir={folder}"}
