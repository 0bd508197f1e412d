"""`sentattn sweep status|stop|best`, beside a sweep that runs in another process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from fake_sweep import plan, sweep
from processes import pids, start, until

from sentattn.sweep.__main__ import main
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy


def test_status_and_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweeps" / "fake"
    sweep(folder, plan(3))
    assert main(["status", "fake", f"output_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("fake: 3 complete")
    assert out.splitlines()[1].startswith("  trial 0: complete ")
    assert main(["best", f"output_dir={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fake, ")
    assert "val/accuracy (max)" in lines[0]
    best = max((float(line.split()[3].rstrip(":")), line) for line in out.splitlines() if line.startswith("  trial"))
    assert lines[1] == best[1]
    (folder / "best.yaml").write_text("overrides: [model=mean]\n")
    assert main(["best", "fake", f"output_dir={tmp_path}"]) == 0
    assert f"from={folder / 'best.yaml'}" in capsys.readouterr().out


def test_trials_of_a_killed_sweep_are_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweeps" / "fake"
    sweep(folder, plan(1))
    if not (pid := os.fork()):
        SweepStudy(plan(3), folder).ask()  # and nothing records its end
        os._exit(0)
    os.waitpid(pid, 0)
    (folder / "report.html").touch()
    assert main(["status", f"output_dir={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "1 complete, 1 interrupted" in lines[0]
    assert lines[2].startswith("  trial 1: interrupted: ")
    assert lines[-1] == f"report: {folder / 'report.html'}"


def test_stop_ends_a_sweep_once_its_trials_have_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = start(tmp_path / "sweeps" / "fake", 50, "sleep=1")
    until(lambda: pids(tmp_path / "sweeps" / "fake"))
    assert main(["stop", f"output_dir={tmp_path}"]) == 0
    assert f"process {process.pid} on" in capsys.readouterr().out
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 130, out
    assert main(["status", f"output_dir={tmp_path}"]) == 0
    assert "running" not in capsys.readouterr().out
    assert main(["stop", "fake", f"output_dir={tmp_path}"]) == 2
    assert "there is nothing to stop" in capsys.readouterr().err


@pytest.mark.parametrize("names", [[], ["a", "b"]])
def test_stop_asks_a_sweep_of_several_studies_once(tmp_path: Path, names: list[str]) -> None:
    program = """
        import sys
        from contextlib import ExitStack
        from pathlib import Path
        from fake_study import engine, slots
        from fake_sweep import plan
        from sentattn.config import command_line
        from sentattn.sweep.execution.scheduler import Scheduler
        from sentattn.sweep.study.study import SweepStudy
        def main(words):
            folder = Path(words[0])
            with ExitStack() as stack:
                studies = [
                    stack.enter_context(SweepStudy.open(plan(50, "sleep=1", study=name), folder / name))
                    for name in ("a", "b")
                ]
                Scheduler(studies, slots(2), engine(folder), []).run()
        sys.exit(command_line.command(main)())
    """
    folder = tmp_path / "sweeps"
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder)]
    searched = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": searched}, stderr=subprocess.PIPE, text=True)
    until(lambda: all(pids(folder / name) for name in ("a", "b")))
    assert main(["stop", *names, f"output_dir={tmp_path}"]) == 0
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert all(record.state == "complete" for name in ("a", "b") for record in read(folder / name))


def test_studies_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", f"output_dir={tmp_path}"]) == 2
    assert capsys.readouterr().err == f"error: There is no study in {tmp_path / 'sweeps'}.\n"
    sweep(tmp_path / "sweeps" / "one", plan(1))
    sweep(tmp_path / "sweeps" / "two", plan(1))
    assert main(["best", "tow", f"output_dir={tmp_path}"]) == 2
    assert "Did you mean 'two'?" in capsys.readouterr().err
    assert main(["best", f"output_dir={tmp_path}"]) == 2
    assert "one, two" in capsys.readouterr().err


def test_help_needs_nothing_heavy() -> None:
    program = (
        "import sys; from sentattn.sweep.__main__ import main; assert main(['--help']) == 0; "
        "assert not {'torch', 'optuna', 'pytorch_lightning'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2], capture_output=True)
