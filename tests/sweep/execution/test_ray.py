"""Trials on a real Ray cluster of two nodes with one core each, started on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fake_sweep
import pytest
from fake_study import FAKE, Listed, Noted, prepared
from processes import gone, until

from sentattn.errors import DataError, RunError, SettingError, UserError
from sentattn.sweep.execution import ray
from sentattn.sweep.execution.interfaces import RunningTrial
from sentattn.sweep.execution.ray import RayEngine, connected
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy

cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = pytest.mark.slow
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
ROOT = Path(__file__).parents[3]
PATH = os.pathsep.join([str(ROOT), str(Path(__file__).parents[1])])


@contextmanager
def started_cluster(folder: Path) -> Iterator[Any]:
    """A cluster that has only a head, whose processes work in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PATH)  # which nodes and their workers inherit
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.chdir(folder)
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        patch.chdir(ROOT)
        yield cluster
        cluster.shutdown()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The head, and a second node that tests may remove; `second` replaces it."""
    with started_cluster(tmp_path_factory.mktemp("nodes")) as cluster:
        yield cluster


@pytest.fixture
def second(cluster: Any) -> Any:
    """The second node, added again where a test has removed it."""
    if len(cluster.list_all_nodes()) < 2:
        cluster.add_node(**NODE)
        cluster.wait_for_nodes()
    return cluster.list_all_nodes()[1]


@pytest.fixture(autouse=True)
def _head_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the check whether the head answers: tests reach loopback only, and Ray's head has another address."""
    monkeypatch.setattr(ray, "INTERVAL", 1e6)


def address(cluster: Any) -> str:
    """The address of its head on the loopback device."""
    return f"127.0.0.1:{cluster.address.rpartition(':')[2]}"


def sweep(cluster: Any, folder: Path, study: Any, *callbacks: Any, count: int = 2, studies: Any = ()) -> None:
    """Runs fake trials on the cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    with connected(address(cluster)) as nodes:
        slots = [Slot(f"Ray {number}", (), 1) for number in range(1, count + 1)]
        engine = RayEngine(FAKE, studies, folder / "server.txt", nodes)
        Scheduler([study], slots, engine, callbacks).run()


def faults(error: type[UserError], *arguments: Any, **settings: Any) -> list[tuple[str, str]]:
    """Key and kind of each error with which a sweep ends."""
    with pytest.raises(error) as caught:
        sweep(*arguments, **settings)
    return [(fault.key, fault.kind) for fault in caught.value.faults]


class OnceAllRun(Noted):
    """Calls a function once, when this many trials have begun."""

    def __init__(self, count: int, call: Any) -> None:
        super().__init__()
        self._trials: list[RunningTrial] = []
        self._count = count
        self._call = call

    def started(self, trial: RunningTrial) -> None:
        super().started(trial)
        self._trials.append(trial)

    def tick(self) -> None:
        if sum(trial.first_batch is not None for trial in self._trials) >= self._count and self._call:
            call, self._call = self._call, None
            call()


def refused(where: str) -> tuple[str, str]:
    """Key and kind of the error of a cluster to which this process cannot connect."""
    with pytest.raises(RunError) as caught, connected(where):
        pass
    [fault] = caught.value.faults
    return fault.key, fault.kind


def test_the_cluster_of_this_machine_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes first: Ray prefers a cluster that runs."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "CONNECT", 15.0)
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    began = time.monotonic()
    assert refused("auto") == ("engine.address", "not_found")
    assert time.monotonic() - began >= 15, "Ray itself waits for longer"


def test_no_cluster() -> None:
    assert refused("127.0.0.1:1") == ("engine.address", "not_found")


@pytest.mark.usefixtures("second")
def test_trials_report_and_are_pruned(cluster: Any, tmp_path: Path) -> None:
    study = Listed(
        [["x=1", "epochs=3"], ["x=2", "epochs=3"], ["x=3"]], prune=lambda number, step, _: (number, step) == (1, 2)
    )
    noted = Noted()
    sweep(cluster, tmp_path, prepared(tmp_path, study, trials=3), noted)
    assert study.results == {0: ("complete", [1.0], ""), 1: ("pruned", None, ""), 2: ("complete", [3.0], "")}
    assert [step for number, step, _ in study.reports if number == 0] == [1, 2, 3]
    assert [step for number, step, _ in study.reports if number == 1] == [1, 2]
    assert len({(tmp_path / "trials" / str(n) / "pid").read_text() for n in range(3)}) == 3, "each has a process"
    assert "acting" in (tmp_path / "trials" / "0" / "log.txt").read_text()
    assert [file.name for file in tmp_path.glob(".node-*")] == []


@pytest.mark.usefixtures("second")
def test_a_trial_that_fails_or_dies_is_tried_again(cluster: Any, tmp_path: Path) -> None:
    study, noted = Listed([["act=raise"], ["act=crash"]], retries=1), Noted()
    sweep(cluster, tmp_path, prepared(tmp_path, study, trials=1, failures=9), noted, count=1)
    (_, raised), *_, (_, last) = noted.outcomes
    assert raised.error == "it ended with exit code 1"
    assert raised.log_lines[-1] == "ValueError: nothing works"
    assert [study.results[number][0] for number in range(4)] == ["failed", "failed", "failed", "complete"]
    crashed = noted.outcomes[2][1]
    assert crashed.log_lines[-1].endswith("torn")
    assert crashed.retry
    assert last.state == "complete"


@pytest.mark.usefixtures("second")
def test_a_trial_that_hangs_is_killed(cluster: Any, tmp_path: Path) -> None:
    study = Listed([["act=hang"]], retries=0)
    sweep(cluster, tmp_path, prepared(tmp_path, study, trials=1, limit_minutes=3 / 60), count=1)
    assert "limit_minutes" in study.results[0][2]
    assert study.results[1][0] == "complete"
    assert gone(int((tmp_path / "trials" / "0" / "pid").read_text()))


def test_trials_of_a_node_that_dies_are_tried_again_elsewhere(cluster: Any, second: Any, tmp_path: Path) -> None:
    plan = fake_sweep.plan(3, "epochs=20", "sleep=0.2", retries=0, failures=1)
    noted = OnceAllRun(2, lambda: cluster.remove_node(second, allow_graceful=False))
    with SweepStudy.open(plan, tmp_path) as study:
        sweep(cluster, tmp_path, study, noted)
        records = study.records()
    assert sorted(record.state for record in records) == ["complete"] * 3 + ["interrupted"]
    [lost] = [record for record in records if record.state == "interrupted"]
    [again] = [record for record in records if record.retry_of == lost.number]
    assert (again.values, again.state) == (lost.values, "complete")


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_that_nodes_do_not_see(
    cluster: Any,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    exists: bool,
) -> None:
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path)
    folder = Path("/proc/self/cwd/study")  # another folder for each process
    for nodes in tmp_path_factory.getbasetemp().glob("nodes*") if exists else ():
        (nodes / "study").mkdir(exist_ok=True)
    study = prepared(folder, Listed([["x=1"]]), trials=1)
    found = faults(SettingError, cluster, folder, study)
    assert set(found) == {("output_dir", "not_found")}
    assert study.results == {}


@pytest.mark.usefixtures("second")
def test_nodes_with_other_versions(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = ray.versions()
    study = prepared(tmp_path, Listed([["x=1"]]), trials=1)
    with monkeypatch.context() as patch:
        patch.setattr(ray, "versions", lambda: {**versions, "torch": "1.0"})
        assert faults(SettingError, cluster, tmp_path, study) == [("engine", "conflict")] * 2
    assert study.results == {}
    sweep(cluster, tmp_path, study)
    assert study.results[0][0] == "complete", "the same sweep runs then"


@pytest.mark.usefixtures("second")
def test_unusable_data_ends_it_before_the_first_trial(cluster: Any, tmp_path: Path) -> None:
    study = prepared(tmp_path, Listed([["x=1"]]), trials=1)
    assert faults(DataError, cluster, tmp_path, study, studies="refuse") == [("data.path", "not_found")]
    assert faults(RunError, cluster, tmp_path, study, studies="die") == [("engine", "failed")]
    assert study.assigned == {}


def test_a_cluster_with_another_version_of_ray(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("ray.__version__", "2.0.0")
        assert refused(address(cluster)) == ("engine.address", "conflict")
    with connected(address(cluster)) as nodes:
        assert nodes


RESUMED = """
import sys
from pathlib import Path
import fake_sweep
from sentattn.config import command_line
from sentattn.sweep.execution.ray import RayEngine, connected
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.study.study import SweepStudy
def main(words):
    folder = Path(words[0])
    with connected(words[1]) as nodes, SweepStudy.open(fake_sweep.plan(3, "epochs=4", "sleep=0.5"), folder) as study:
        engine = RayEngine("fake_trial", (), folder / "server.txt", nodes)
        Scheduler([study], [Slot("Ray 1", (), 1)], engine, []).run()
sys.exit(command_line.command(main)())
"""


def resume(folder: Path, cluster: Any) -> subprocess.Popen[str]:
    """Begins a sweep of three trials in a process of its own, or resumes it."""
    command = [sys.executable, "-c", RESUMED, str(folder), cluster.address]
    environment = {**os.environ, "PYTHONPATH": PATH}
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.parametrize("with_its_node", [False, True])
def test_the_head_dies_and_the_same_command_resumes(tmp_path: Path, with_its_node: bool) -> None:
    with started_cluster(tmp_path) as first:
        process = resume(tmp_path, first)
        until(lambda: process.poll() is not None or [*tmp_path.glob("trials/*/done")])
        if with_its_node:
            first.remove_node(first.head_node, allow_graceful=False)
        else:
            first.head_node.kill_gcs_server()
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 2, out
    assert out.startswith("error: ")
    assert out.count("\n") == 1, out
    before = {record.number for record in read(tmp_path) if record.state == "complete"}
    assert before
    with started_cluster(tmp_path) as second:
        process = resume(tmp_path, second)
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    records = [record for record in read(tmp_path) if record.state == "complete"]
    assert len({record.values["x"] for record in records}) == len(records) == 3
    assert before <= {record.number for record in records}
    assert {record.state for record in read(tmp_path)} <= {"complete", "interrupted"}


DRIVER = """
import sys
from pathlib import Path
from types import SimpleNamespace
from fake_study import Listed, prepared
sys.path.insert(0, str(Path(sys.argv[3])))
import test_ray
folder = Path(sys.argv[1])
study = prepared(folder, Listed([["act=hang"]] * 2), trials=2)
test_ray.sweep(SimpleNamespace(address=sys.argv[2]), folder, study)
"""


@pytest.mark.usefixtures("second")
def test_a_scheduler_that_dies_leaves_no_trial(cluster: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRIVER, str(tmp_path), cluster.address, str(Path(__file__).parent)]
    driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": PATH}, cwd=ROOT)
    files = [tmp_path / "trials" / str(number) / "pid" for number in range(2)]
    until(lambda: all(file.exists() and file.read_text() for file in files) or driver.poll() is not None, 60)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert [gone(int(file.read_text())) for file in files] == [True, True]


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Metrics of all epochs of the trials, without times."""
    rows = [json.loads(line) for file in sorted(folder.rglob("trials/*/metrics.jsonl")) for line in file.open()]
    return [{key: row[key] for key in row if "second" not in key} for row in rows]


@pytest.mark.usefixtures("second")
def test_a_trial_has_the_metrics_of_a_local_one(cluster: Any, tmp_path: Path) -> None:
    words = ["model=mean", "trainer.accelerator=cpu", "trainer.max_epochs=2", "optimizer.lr=interval(0.001,0.01)"]
    words += ["trials=1", "threads=1", "slots=1", "study=one"]
    on_cluster = ["engine=ray", f"engine.address={address(cluster)}"]
    for name, engine in {"local": [], "ray": on_cluster}.items():
        command = [sys.executable, "-m", "sentattn.sweep", *words, *engine, f"output_dir={tmp_path / name}"]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": PATH})
    local, on_ray = (metrics(tmp_path / name) for name in ("local", "ray"))
    assert len(local) == 2
    assert local == on_ray
