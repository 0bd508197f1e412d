"""The loop, with trials that are real processes and do what trials do, up to dying."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from stand_in import Listed, Noted, member, owner, slots

from sentattn.errors import Interruption, RunError, SettingError
from sentattn.sweep.owner import Owner


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds."""
    until = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_alive(pid)


def test_as_many_trials_as_the_budget_asks_for_and_never_more_at_once_than_slots(tmp_path: Path) -> None:
    study, noted = Listed([[f"x={number}", "sleep=0.02"] for number in range(20)]), Noted()
    owner(tmp_path, study, count=3, trials=7, watchers=[noted])[0].run()
    assert study.told == {number: ("complete", [float(number)], "") for number in range(7)}
    assert noted.most == 3
    assert {name for _, name in noted.starts} == {"CPU 1", "CPU 2", "CPU 3"}
    assert (tmp_path / "trials" / "6" / "log.txt").read_text() == "acting \n"


def test_each_step_is_reported_and_a_pruned_trial_counts(tmp_path: Path) -> None:
    study = Listed([["x=1", "epochs=3"], ["x=0.5", "epochs=3"]], prune=lambda number, step, _: (number, step) == (1, 2))
    owner(tmp_path, study, count=1, trials=2)[0].run()
    assert study.told == {0: ("complete", [1.0], ""), 1: ("pruned", None, "")}
    assert study.reports == [(0, 1, 1.0), (0, 2, 1.0), (0, 3, 1.0), (1, 1, 0.5), (1, 2, 0.5)]


def test_a_killed_trial_is_tried_again_and_takes_no_other_down(tmp_path: Path) -> None:
    study, noted = Listed([["act=once", "x=7"], ["x=1", "sleep=0.2"]]), Noted()
    owner(tmp_path, study, trials=2, watchers=[noted])[0].run()
    state, _, note = study.told[0]
    assert state == "failed"
    assert note == "it was killed (SIGKILL), as a system does that runs out of memory\nacting once"
    assert study.retried == [0]
    assert study.told[1] == ("complete", [1.0], "")
    assert study.told[2] == ("complete", [7.0], "")


@pytest.mark.parametrize(
    ("act", "reason", "line"),
    [
        ("raise", "it ended with exit code 1", "ValueError: nothing works"),
        ("crash", "it ended with exit code 3", "\N{REPLACEMENT CHARACTER} torn"),
    ],
)
def test_a_fault_is_told_with_the_last_lines_of_the_log_and_tried_again(
    tmp_path: Path, act: str, reason: str, line: str
) -> None:
    study, noted = Listed([[f"act={act}"]]), Noted()
    owner(tmp_path, study, trials=1, watchers=[noted])[0].run()
    [first, second, last] = [how for _, how in noted.endings]
    assert first.error == second.error == reason
    assert first.log_lines[-1] == line
    assert study.told[0][2].startswith(f"{reason}\n")
    assert last.state == "complete"


def test_a_setting_that_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    study, noted = Listed([["act=refuse"]]), Noted()
    owner(tmp_path, study, trials=1, watchers=[noted])[0].run()
    assert study.told[0] == ("failed", None, "x=1 is not legal.")
    assert study.retried == []


def test_a_trial_whose_last_words_break_off_has_failed(tmp_path: Path) -> None:
    study, noted = Listed([["act=torn"]]), Noted()
    owner(tmp_path, study, trials=1, watchers=[noted])[0].run()
    assert study.told[0][0] == "failed"
    assert study.told[0][2].startswith("it ended without a result")


def test_a_trial_that_hangs_is_killed(tmp_path: Path) -> None:
    study, noted = Listed([["act=hang"]], retries=0), Noted()
    owner(tmp_path, study, count=1, trials=1, limit_minutes=0.3 / 60, watchers=[noted])[0].run()
    assert study.told[0][2].startswith("it took longer than limit_minutes=0.005")
    assert study.told[1][0] == "complete"
    assert gone(int((tmp_path / "trials" / "0" / "pid").read_text()))


def test_what_a_trial_has_started_ends_with_it(tmp_path: Path) -> None:
    owner(tmp_path, Listed([["act=child"]]), trials=1)[0].run()
    assert gone(int((tmp_path / "trials" / "0" / "child").read_text()))


def test_many_failures_in_a_row_end_it(tmp_path: Path) -> None:
    study, noted = Listed([["act=refuse"], ["x=1"], *[["act=refuse"]] * 9]), Noted()
    with pytest.raises(RunError, match="3 trials failed one after another; the last one: x=1 is not legal"):
        owner(tmp_path, study, count=1, trials=99, watchers=[noted])[0].run()
    assert [state for state, _, _ in study.told.values()] == ["failed", "complete", "failed", "failed", "failed"]


def test_no_trial_finds_what_another_has_changed(tmp_path: Path) -> None:
    owner(tmp_path, Listed([["act=leak"]] * 3), count=1, trials=3)[0].run()
    found = [json.loads((tmp_path / "trials" / str(n) / "found.json").read_text()) for n in range(3)]
    assert len({one.pop("random") for one in found}) == 3, "they draw numbers of their own"
    for one in found:
        files = one.pop("files")
        assert [file for file in files if not file.startswith("socket:")] == sorted(
            ["/dev/null", *[str(tmp_path / "trials" / str(found.index(one)) / "log.txt")] * 2]
        ) or len(files) == 4
        assert one == {
            "touched": 0,
            "cwd": os.getcwd(),
            "variable": None,
            "handlers": [repr(signal.default_int_handler), repr(signal.SIG_DFL), repr(signal.SIG_DFL)],
            "threads": 1,
            "session": True,
            "omp": "1",
        }


def _when(condition: Any, act: Any) -> threading.Thread:
    """Does something as soon as a condition holds."""

    def watch() -> None:
        until = time.monotonic() + 20
        while not condition() and time.monotonic() < until:
            time.sleep(0.005)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_ctrl_c_lets_running_trials_finish(tmp_path: Path) -> None:
    study, noted = Listed([["x=1", "sleep=0.4"]] * 5), Noted()
    before = signal.getsignal(signal.SIGINT)
    both = [tmp_path / "trials" / str(number) / "pid" for number in range(2)]
    thread = _when(lambda: all(map(Path.exists, both)), lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interruption) as caught:
        owner(tmp_path, study, trials=5, watchers=[noted])[0].run()
    thread.join()
    assert study.told == {number: ("complete", [1.0], "") for number in range(2)}
    assert noted.sentences == ["No new trials; waiting for 2 that run. Ctrl-C again ends at once."]
    assert str(caught.value) == "interrupted; the same command goes on where it was."
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_and_sigterm_end_it_at_once(tmp_path: Path, number: int) -> None:
    study, noted = Listed([["act=hang"]] * 5), Noted()

    def act() -> None:
        os.kill(os.getpid(), number)
        if number == signal.SIGINT:
            _when(lambda: noted.sentences, lambda: os.kill(os.getpid(), number)).join()

    pids = [tmp_path / "trials" / str(n) / "pid" for n in range(2)]
    thread = _when(lambda: all(p.exists() and p.read_text() for p in pids), act)
    with pytest.raises(Interruption) as caught:
        owner(tmp_path, study, trials=5, watchers=[noted])[0].run()
    thread.join()
    assert study.told == {}
    assert study.broken_off == [0, 1]
    assert str(caught.value).endswith("; 2 trials will be run again; the same command goes on where it was.")
    assert caught.value.exit_code == 128 + number
    assert all(gone(int(pid.read_text())) for pid in pids)


def test_a_server_that_dies_is_replaced(tmp_path: Path) -> None:
    study, noted = Listed([["act=hang"], ["x=2"]], retries=0), Noted()
    one, _ = owner(tmp_path, study, count=1, trials=1, watchers=[noted])
    pid = tmp_path / "trials" / "0" / "pid"
    thread = _when(lambda: pid.exists() and pid.read_text(), lambda: os.kill(one._server.pid, signal.SIGKILL))
    one.run()
    thread.join()
    assert study.told[0][:2] == ("failed", None)
    assert study.told[0][2].startswith("the process that had started it has died")
    assert study.told[1] == ("complete", [2.0], "")
    assert gone(int(pid.read_text())), "no trial outlives the server"


def test_a_server_that_cannot_be_warmed_is_told_with_its_reason(tmp_path: Path) -> None:
    study = Listed([])
    with pytest.raises(SettingError, match=re.escape("There is no data.")):
        owner(tmp_path, study, warming="refuse")[0].run()
    with pytest.raises(RunError, match=r"No trial can be started.*no module named nonsense"):
        owner(tmp_path, study, warming="die", failures=99)[0].run()


def test_a_study_that_is_over_is_told(tmp_path: Path) -> None:
    study, noted = Listed([["sleep=0.05"]] * 9), Noted()
    one, _ = owner(tmp_path, study, count=1, trials=9, watchers=[noted])
    thread = _when(lambda: study.told, lambda: setattr(study, "over", "1 hour is over"))
    one.run()
    thread.join()
    assert 1 <= study.finished() < 9
    assert noted.sentences == ["fake: 1 hour is over."]


def test_several_studies_share_the_slots_in_turn(tmp_path: Path) -> None:
    studies, noted = [Listed([["x=1"]] * 9), Listed([["x=2", "sleep=0.01"]] * 9)], Noted()
    members = [
        member(tmp_path / name, study, study=name, trials=4) for name, study in zip(("a", "b"), studies, strict=True)
    ]
    Owner(members, slots(2), module="fake_trial", warming=None, folder=tmp_path, watchers=[noted]).run()
    assert [study.finished() for study in studies] == [4, 4]
    assert sorted(file.parents[2].name for file in tmp_path.glob("*/*/*/done")) == ["a"] * 4 + ["b"] * 4


def test_only_the_best_keep_what_is_large(tmp_path: Path) -> None:
    class Writing(Listed):
        def tell(self, number: int, *args: Any, **kwargs: Any) -> None:
            folder = tmp_path / "trials" / str(number)
            for name in ("checkpoints", "model", "wandb"):
                (folder / name).mkdir()
            (folder / "result.json").touch()
            super().tell(number, *args, **kwargs)

    study = Writing([["x=1"], ["x=3"], ["x=2"], ["act=refuse"], ["x=4"]])
    one, ours = owner(tmp_path, study, count=1, trials=4, keep=2)
    one.run()
    assert [*ours.kept] == [4, 1]
    for number in range(5):
        kept = {"checkpoints", "model"} if number in (1, 4) else set()
        there = {file.name for file in (tmp_path / "trials" / str(number)).iterdir()}
        assert there & {"checkpoints", "model"} == kept
        assert there >= {"wandb", "result.json", "log.txt"}


def test_a_budget_that_is_met_starts_nothing(tmp_path: Path) -> None:
    study = Listed([["x=1"]])
    study.told = {number: ("complete", [0.0], "") for number in range(3)}
    owner(tmp_path, study, trials=3)[0].run()
    assert study.given == {}
    assert not (tmp_path / "server.txt").exists()
