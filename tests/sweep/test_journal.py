"""The journal of a study, its locks, and the schedulers that share it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import optuna
import pytest
from full_disk import no_room
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from plans import HOPS, plan
from refusals import assert_refused, refused
from studies import ask, read, run, states, tell, train
from studies import refused as not_opened

from sentattn.errors import RunError
from sentattn.sweep import journal
from sentattn.sweep.__main__ import status
from sentattn.sweep.config import read_plan
from sentattn.sweep.study import SweepStudy

pytestmark = pytest.mark.usefixtures("composed_once")


def lines(folder: Path) -> list[bytes]:
    return (folder / journal.JOURNAL).read_bytes().splitlines(keepends=True)


def test_plain_optuna_reads_a_study(tmp_path: Path) -> None:
    run(plan(trials=3), tmp_path)
    storage = JournalStorage(JournalFileBackend(str(tmp_path / journal.JOURNAL)))
    study = optuna.load_study(study_name="mine", storage=storage)
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.COMPLETE] * 3
    assert study.best_value == max(record.objectives[0] for record in read(tmp_path) if record.objectives)


def test_plain_optuna_that_writes_waits_for_no_lock_of_ours(tmp_path: Path) -> None:
    """As a dashboard does with notes; its lock has a file of its own."""
    with SweepStudy.open(plan(HOPS, trials=2), tmp_path, train) as study:
        job = ask(study)
        storage = JournalStorage(JournalFileBackend(str(tmp_path / journal.JOURNAL)))
        began = time.monotonic()
        storage.set_study_system_attr(storage.get_study_id_from_name("mine"), "dashboard:note", "the best so far")
        assert time.monotonic() - began < 10
        tell(study, job, 0.5)
        tell(study, ask(study), 0.25)
        assert study.next() is None
    assert states(tmp_path) == {"complete": 2}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_study_whose_folder_is_gone_ends_with_a_message(tmp_path: Path, replaced: bool) -> None:
    folder, gone = tmp_path / "study", tmp_path / "gone"

    def lose() -> None:
        with SweepStudy.open(plan(trials=3), folder, train) as study:
            job = ask(study)
            folder.rename(gone)
            if replaced:
                run(plan(trials=1), folder)
            study.interrupt(job)

    assert_refused(lose, "study", "unwritable")
    assert (len(read(folder)) if replaced else 0) == replaced, "it was not written to"
    assert (folder / journal.JOURNAL).exists() == replaced
    shutil.rmtree(folder, ignore_errors=True)
    gone.rename(folder)
    run(plan(trials=3), folder)
    assert states(folder)["complete"] == 3


@pytest.mark.parametrize("torn", [b'{"op_code":5,"worker_id":"', b'{"op_code":5}', b"{"])
def test_a_torn_last_line_is_removed_and_said_at_the_next_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], torn: bytes
) -> None:
    run(plan(HOPS, trials=2), tmp_path)
    before = lines(tmp_path)
    with (tmp_path / journal.JOURNAL).open("ab") as file:
        file.write(torn)
    assert states(tmp_path) == {"complete": 2}
    assert lines(tmp_path)[-1] == torn, "a reader changes nothing"
    assert run(plan(HOPS, trials=3), tmp_path) == [2]
    assert lines(tmp_path)[: len(before)] == before
    assert all(map(json.loads, lines(tmp_path)))
    [said] = capsys.readouterr().err.splitlines()
    assert str(tmp_path / journal.JOURNAL) in said
    assert f"({len(torn)} bytes)" in said


@pytest.mark.parametrize("line", [b"torn\n", b"{}\n", b"[]\n", b'{"op_code":2}\n', b"\xff\n"])
def test_a_damaged_line_is_an_error_with_the_file(tmp_path: Path, line: bytes) -> None:
    folder = tmp_path / "sweeps" / "mine"
    run(plan(HOPS, trials=1), folder)
    kept = lines(folder)
    (folder / journal.JOURNAL).write_bytes(b"".join([*kept[:3], line, *kept[3:]]))
    for read_it in (lambda: read(folder), lambda: read_plan(["study=mine", f"output_dir={tmp_path}"])):
        assert_refused(read_it, "study", "damaged", str(folder / journal.JOURNAL))
    assert not_opened(plan(HOPS), folder) == [("study", "damaged")]


@pytest.mark.parametrize(("key", "value"), [("objectives", "x"), ("values", ["x"])])
def test_a_damaged_value_is_an_error_of_status(tmp_path: Path, key: str, value: object) -> None:
    run(plan(HOPS, trials=1), tmp_path)
    found = [json.loads(line) for line in lines(tmp_path)]
    for line in found:
        for node in (line, line.get("user_attr", {})):
            node |= {key: value} if key in node else {}
    (tmp_path / journal.JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in found))
    assert_refused(lambda: status(tmp_path), "study", "damaged", str(tmp_path / journal.JOURNAL))


def test_a_full_disk_loses_nothing_and_the_same_command_resumes(tmp_path: Path) -> None:
    run(plan(HOPS, trials=1), tmp_path)
    room = (tmp_path / journal.JOURNAL).stat().st_size + 4000
    more = plan(HOPS, trials=100)
    with no_room(room):
        assert refused(lambda: run(more, tmp_path)) == [("study", "unwritable")]
    assert not lines(tmp_path)[-1].endswith(b"\n"), "the last line broke off"
    finished = states(tmp_path)["complete"]
    assert finished > 3
    run(plan(HOPS, trials=finished + 2), tmp_path)
    assert states(tmp_path)["complete"] == finished + 2
    assert all(map(json.loads, lines(tmp_path)))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not_opened(plan(HOPS), tmp_path / "file" / "mine") == [("study", "unwritable")]
    (tmp_path / "trials").write_text("a file")
    with pytest.raises(RunError) as caught, SweepStudy.open(plan(HOPS), tmp_path, train) as study:
        study.next()
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("study", "unwritable")]


def test_a_study_of_an_earlier_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "storage.json").touch()
    assert not_opened(plan(HOPS), tmp_path) == [("format", "unsupported")]
    assert refused(lambda: read(tmp_path)) == [("format", "unsupported")]
    assert not (tmp_path / journal.JOURNAL).exists()


@pytest.mark.parametrize("found", [None, 3])
def test_a_journal_of_another_format_is_refused(tmp_path: Path, found: int | None) -> None:
    run(plan(HOPS, trials=1), tmp_path)
    journal.load(tmp_path).set_user_attr("format", found)
    assert not_opened(plan(HOPS), tmp_path) == [("format", "unsupported")]
    assert refused(lambda: read(tmp_path)) == [("format", "unsupported")]


def test_a_folder_without_a_study(tmp_path: Path) -> None:
    assert refused(lambda: read(tmp_path)) == [("study", "not_found")]
    assert [*tmp_path.iterdir()] == []


def test_a_lock_makes_several_writes_one_and_dies_with_its_process(tmp_path: Path) -> None:
    file = tmp_path / journal.JOURNAL
    file.touch()
    program = f"""
        import os, signal, sys
        from pathlib import Path
        from sentattn.sweep.journal import JournalLock
        with JournalLock(Path({str(file)!r})):
            print("locked", flush=True)
            sys.stdin.read()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"locked\n"
        began = time.monotonic()
        process.stdin.close()
        with journal.JournalLock(file), journal.JournalLock(file):
            assert time.monotonic() - began < 60
    with journal.JournalLock(file):
        pass


def test_schedulers_have_the_lowest_free_number_while_they_live(tmp_path: Path) -> None:
    with journal.joined(tmp_path) as first:
        with journal.joined(tmp_path) as second:
            assert (first, second) == (0, 1)
            here = f"process {os.getpid()} on {os.uname().nodename}"
            assert {number: str(each) for number, each in journal.schedulers(tmp_path).items()} == {0: here, 1: here}
        assert [*journal.schedulers(tmp_path)] == [0]
        (tmp_path / ".scheduler-1.lock").touch()
        (tmp_path / ".scheduler-1").write_text("torn")
        assert [*journal.schedulers(tmp_path)] == [0]
    assert journal.schedulers(tmp_path) == {}


def leave_sign(folder: Path, host: str, age: float) -> None:
    """What a scheduler that holds no lock here has left in a folder."""
    (folder / ".scheduler-0.lock").touch()
    file = folder / ".scheduler-0"
    file.write_text(f"{host} 7")
    os.utime(file, (time.time() - age,) * 2)


def test_a_scheduler_of_another_machine_is_dead_when_its_file_is_a_minute_old(tmp_path: Path) -> None:
    leave_sign(tmp_path, "elsewhere", 50)
    assert {0: "process 7 on elsewhere"} == {n: str(each) for n, each in journal.schedulers(tmp_path).items()}
    leave_sign(tmp_path, "elsewhere", 70)
    assert journal.schedulers(tmp_path) == {}
    leave_sign(tmp_path, os.uname().nodename, 1)
    assert journal.schedulers(tmp_path) == {}, "of this machine the lock alone counts"


def test_who_may_only_read_a_study_sees_its_schedulers(tmp_path: Path) -> None:
    leave_sign(tmp_path, "elsewhere", 10)
    with journal.joined(tmp_path):
        tmp_path.chmod(0o555)
        if not (pid := os.fork()):
            os.chdir(tmp_path)
            if not os.geteuid():
                os.setegid(65534)
                os.seteuid(65534)
            os._exit(len(journal.schedulers(Path())))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
        tmp_path.chmod(0o755)


def test_the_clock_is_that_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_sign(tmp_path, "elsewhere", 0)
    monkeypatch.setattr("time.time", lambda: 1e12)
    assert [*journal.schedulers(tmp_path)] == [0]


def test_trials_of_another_machine_are_left_alone_until_it_is_dead(tmp_path: Path) -> None:
    if not (pid := os.fork()):
        SweepStudy.open(plan(HOPS, trials=1), tmp_path, train).__enter__().next()
        os._exit(0)
    os.waitpid(pid, 0)
    leave_sign(tmp_path, "elsewhere", 10)
    with SweepStudy.open(plan(HOPS, trials=1), tmp_path, train) as study:
        assert study.number == 1
        assert (study.next(), study.elsewhere()) == (None, 1)
        leave_sign(tmp_path, "elsewhere", 70)
        again = ask(study)
        assert (again.number, study.elsewhere()) == (1, 0)
    assert read(tmp_path)[1].retry_of == 0


def test_a_scheduler_shows_the_other_machines_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SweepStudy.open(plan(HOPS), tmp_path, train) as study:
        file = tmp_path / ".scheduler-0"
        os.utime(file, (0, 0))
        study.tick()
        assert file.stat().st_mtime == 0
        now = time.monotonic()
        monkeypatch.setattr("time.monotonic", lambda: now + 11)
        study.tick()
        assert file.stat().st_mtime > 0


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:25 / /home rw - nfs4 server:/home rw,vers=4.2,hard,local_lock=none,addr=10.0.0.1
31 30 0:26 / /home/old rw,nosuid - nfs server:/old rw,vers=3,nolock,local_lock=all,addr=10.0.0.1
32 22 0:27 / /lustre rw - lustre mgs@tcp:/fs rw,flock,lazystatfs
33 22 0:28 / /scratch rw shared:9 master:2 - lustre mgs@tcp:/fs2 rw,localflock,lazystatfs
34 22 0:29 / /samba rw - cifs //server/share rw,vers=3.1.1,nobrl,soft
35 22 0:30 / /with\\040space rw - nfs4 server:/x rw,local_lock=flock
"""


@pytest.mark.parametrize(
    ("folder", "option"),
    [
        ("/data/outputs", ""),
        ("/home/me/outputs", ""),
        ("/home/old/outputs", "nolock"),
        ("/lustre/outputs", ""),
        ("/scratch/outputs", "localflock"),
        ("/samba/outputs", "nobrl"),
        ("/with space/outputs", "local_lock=flock"),
    ],
)
def test_locks_that_hold_on_their_own_machine_alone(folder: str, option: str) -> None:
    assert journal.local_lock(Path(folder), MOUNTS) == option


def test_the_mounts_of_this_machine_are_read(tmp_path: Path) -> None:
    assert journal.local_lock(tmp_path) in {"", *journal.LOCAL_LOCKS}
    assert journal.local_lock(tmp_path, "") == "", "where there are none"


def test_a_second_machine_is_refused_where_locks_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "local_lock", lambda _: "local_lock=all")
    run(plan(HOPS, trials=1), tmp_path)
    leave_sign(tmp_path, "elsewhere", 10)
    with pytest.raises(RunError) as caught, SweepStudy.open(plan(HOPS, trials=2), tmp_path, train):
        pass
    [fault] = caught.value.faults
    assert (fault.key, fault.kind) == ("study", "busy")
    assert all(word in fault.message for word in ("process 7 on elsewhere", "local_lock=all"))
    leave_sign(tmp_path, "elsewhere", 70)
    assert run(plan(HOPS, trials=2), tmp_path) == [1]


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", missing)
    assert not_opened(plan(HOPS), tmp_path) == [("study", "unwritable")]
