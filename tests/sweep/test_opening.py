"""A study is opened by one owner, after whatever ended the last one, and with trials that compare."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from plans import plan
from studies import run, states

from sentattn.errors import RunError, SettingError
from sentattn.sweep import storage
from sentattn.sweep.objective import Objective
from sentattn.sweep.records import read
from sentattn.sweep.study import SweepStudy


def test_one_owner(tmp_path: Path) -> None:
    with SweepStudy.open(plan(), tmp_path):
        assert storage.owner(tmp_path) == os.getpid()
        with pytest.raises(RunError, match=f"process {os.getpid()}"):
            SweepStudy.open(plan(), tmp_path)
        assert states(tmp_path) == {}
    assert storage.owner(tmp_path) is None


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plans import plan
from sentattn.sweep.study import SweepStudy
study = SweepStudy.open(plan(), Path(sys.argv[1]))
first, second, third = (study.ask() for _ in range(3))
study.tell(second.number, [0.5])
study.report(third.number, 1, 0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_owner_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    broken = {r.number: r.values for r in read(tmp_path) if r.state == "running"}
    assert set(broken) == {0, 2}
    with SweepStudy.open(plan(), tmp_path) as study:
        assert (study.finished(), study.waiting()) == (1, 2)
        again = [study.ask(), study.ask()]
        assert [one.values for one in again if one] == [broken[0], broken[2]]
    assert run(plan(), tmp_path)
    assert states(tmp_path)["complete"] == 10


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"objectives": (Objective("val/f1_macro", "max"),)}, "objectives="),
        ({"repeats": 3}, "repeats=1 and not 3"),
        ({"seed": 3}, "seed=0 and not 3"),
        ({"overrides": ("model=structured", "trainer.max_epochs=2")}, "nothing where now stands trainer.max_epochs=2"),
    ],
)
def test_what_would_make_trials_incomparable_is_refused(tmp_path: Path, others: dict[str, object], said: str) -> None:
    run(plan(), tmp_path, most=1)
    with pytest.raises(SettingError, match="type study=NAME for another") as caught:
        SweepStudy.open(plan(**others), tmp_path)
    assert said in str(caught.value)
    run(plan(overrides=("model=structured", "logger=none", "threads=2")), tmp_path)
