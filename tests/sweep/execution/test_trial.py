"""Trials that really train: what they report, and what is in their directories."""

from __future__ import annotations

import json
import multiprocessing
import signal
import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import pytest
from fake_study import Listed, Noted, engine, prepared
from tiny import tiny

from sentattn.distributed import ranks
from sentattn.errors import Fault, Interruption, RunError, SettingError, TrainingError, UserError
from sentattn.run import Run
from sentattn.sweep.execution import trial
from sentattn.sweep.execution.interfaces import Report, TrialOutcome, TrialTask
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.plan import Objective, metric_of
from sentattn.sweep.study.records import continue_from

MODULE = "sentattn.sweep.execution.trial"


class Ran:
    """A sweep of several small studies on one slot, and what was noted of it."""

    def __init__(self, folder: Path, slot: Slot, **studies: tuple[Listed, dict[str, Any]]) -> None:
        self.folder = folder
        self.noted = Noted()
        self.studies = {name: listed for name, (listed, _) in studies.items()}
        listed_studies: list[Any] = [
            prepared(folder / name, listed, study=name, keep=9, **{"trials": len(listed.trials), **plan})
            for name, (listed, plan) in studies.items()
        ]
        Scheduler(listed_studies, [slot], engine(folder, [tiny("test=false")], MODULE), [self.noted]).run()

    def run(self, study: str, name: str = "0") -> Run:
        return Run(self.folder / study / "trials" / name)


def arguments(folder: Path, *settings: str) -> list[str]:
    return tiny("test=false", f"output_dir={folder}", *settings)


def prune(number: int, step: int, value: float) -> bool:
    return step == 2


def run_studies(folder: Path) -> Ran:
    alike = [arguments(folder, "optimizer.lr=0.05", "trainer.max_epochs=3") for _ in range(2)]
    return Ran(
        folder,
        Slot("CPU", (), 1),
        plain=(Listed(alike), {}),
        repeated=(Listed([arguments(folder)]), {"repeats": 2}),
        pruned=(Listed([arguments(folder, "trainer.max_epochs=3")], prune=prune), {}),
        ended=(Listed([arguments(folder, "trainer.max_epochs=2")], prune=prune), {}),
        diverged=(Listed([arguments(folder, "optimizer.lr=1e30"), arguments(folder)], retries=1), {"trials": 1}),
        refused=(Listed([arguments(folder, "model.attention.hops=0"), arguments(folder)]), {"trials": 1}),
        cost=(
            Listed([arguments(folder)]),
            {"objectives": (Objective("latency_ms.one", "min"), Objective("parameters.total", "min"))},
        ),
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    # In a new process: this process may have a server of other tests, which has not imported what these trials need.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run_studies, tmp_path_factory.mktemp("sweep")).result()


def test_the_value_is_that_of_the_best_epoch(ran: Ran) -> None:
    result, metric = ran.run("plain").result, "val/accuracy"
    assert ran.studies["plain"].results[0] == ("complete", [result["metrics"][metric]], "")
    so_far = [max(row[metric] for row in rows(ran.run("plain").path)[:count]) for count in (1, 2, 3)]
    assert result["metrics"][metric] == pytest.approx(so_far[-1], abs=1e-6)
    reports = [(step, value) for number, step, value in ran.studies["plain"].reports if number == 0]
    assert reports == [(step, pytest.approx(value)) for step, value in enumerate(so_far, start=1)]
    assert (result["status"], result["study"]) == ("finished", "plain")
    assert not any(name.startswith("test/") for name in result["metrics"]), "trials never use the test set"


def test_trials_with_the_same_settings_have_the_same_metrics(ran: Ran) -> None:
    run, again = (ran.run("plain", name) for name in ("0", "1"))
    assert run.metrics == again.metrics
    first, second = (
        [{key: row[key] for key in row if "second" not in key} for row in rows(run.path)] for run in (run, again)
    )
    assert first == second
    assert len(first[0]) > 5


def test_repeats_have_seeds_of_their_own_and_count_by_their_mean(ran: Ran) -> None:
    runs = [ran.run("repeated", f"0/seed-{seed}") for seed in (0, 1)]
    assert [run.settings["seed"] for run in runs] == [0, 1]
    values = [run.metrics["val/accuracy"] for run in runs]
    assert ran.studies["repeated"].results[0] == ("complete", [pytest.approx(statistics.fmean(values))], "")
    assert ran.studies["repeated"].reports == [(0, 1, values[0]), (0, 2, values[1])]


def test_a_pruned_trial_has_metrics_and_no_model(ran: Ran) -> None:
    run = ran.run("pruned")
    assert ran.studies["pruned"].results[0] == ("pruned", None, "")
    assert run.result["status"] == "pruned"
    assert 0 <= run.result["metrics"]["val/accuracy"] <= 1
    assert len(rows(run.path)) == 2
    assert not (run.path / "model").exists()


def test_no_trial_is_pruned_after_its_last_epoch(ran: Ran) -> None:
    study, run = ran.studies["ended"], ran.run("ended")
    assert [step for _, step, _ in study.reports] == [1, 2]
    assert study.results[0] == ("complete", [run.metrics["val/accuracy"]], "")
    assert run.result["status"] == "finished"


def test_trials_that_diverge_or_are_refused_are_not_tried_again(ran: Ran) -> None:
    outcomes = [outcome for _, outcome in ran.noted.outcomes if outcome.state == "failed"]
    assert [outcome.diverged for outcome in outcomes] == [True, False]
    assert outcomes[1].error.startswith("model.attention.hops")
    assert ran.studies["diverged"].retried == ran.studies["refused"].retried == []


def test_costs_of_a_run_are_objectives(ran: Ran) -> None:
    result = ran.run("cost").result
    values = [result["latency_ms"]["one"], result["parameters"]["total"]]
    assert ran.studies["cost"].results[0] == ("complete", values, "")
    assert ran.studies["cost"].reports == [], "trials are not compared before their end"


def test_no_trial_builds_the_corpus_again(ran: Ran) -> None:
    logs = [file.read_text() for file in ran.folder.glob("*/trials/*/log.txt")]
    assert len(logs) >= 6
    assert not any("corpus is cached" in log for log in logs), "the server has built it"


@pytest.mark.slow
def test_two_devices_train_a_trial_in_fresh_processes(tmp_path: Path) -> None:
    slot = Slot("GPUs 0+1", ("0", "1"), 1)
    study = Listed(
        [arguments(tmp_path), arguments(tmp_path, "trainer.max_epochs=9")],
        prune=lambda number, step, value: number == 1 and step == 2,
    )
    ran = Ran(tmp_path, slot, pair=(study, {}))
    run = ran.run("pair")
    assert study.results[0] == ("complete", [run.metrics["val/accuracy"]], "")
    assert run.settings["trainer"]["devices"] == 2
    assert study.results[1] == ("pruned", None, "")
    assert ran.run("pair", "1").result["status"] == "pruned"


class Sent:
    """A connection that keeps what a trial sends."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def send(self, message: Any) -> bool:
        self.messages.append(message)
        return False


class Ended(Sent):
    """A connection whose scheduler has died when the second epoch is reported."""

    def send(self, message: Any) -> bool:
        if isinstance(message, Report) and message.step == 2:
            raise Interruption(signal.SIGTERM, "the scheduler of the study has ended")
        return super().send(message)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("repeats", [1, 2])
def test_the_next_attempt_at_an_interrupted_trial_resumes(tmp_path: Path, repeats: int) -> None:
    words = arguments(tmp_path, "trainer.max_epochs=3", "model.head.dropout=0.3")

    def run(name: str, connection: Any) -> Any:
        task = TrialTask(0, {}, words, tmp_path / name, ["val/accuracy"], repeats, "study")
        trial.run(task, connection)
        return connection.messages

    alone = run("alone", Sent())
    with pytest.raises(SystemExit):
        run("0", Ended())
    (tmp_path / "1").mkdir()
    continue_from(tmp_path / "0", tmp_path / "1")
    assert not [*(tmp_path / "0").rglob("*.ckpt")]
    again = run("1", Sent())
    assert again[-1] == alone[-1]
    assert again[-1].state == "complete"
    steps = [message.step for message in again if isinstance(message, Report)]
    assert steps == ([1, 2, 3] if repeats == 1 else [1, 2, 3, 1, 1, 2, 3, 2]), "the study has them all"
    values = [message.value for message in again if isinstance(message, Report)]
    assert values == [message.value for message in alone if isinstance(message, Report)]
    before, after = (rows(tmp_path / name / ("seed-0" if repeats > 1 else ".")) for name in ("0", "1"))
    assert after[0] == before[0], "with its seconds: it was not trained again"
    assert len(after) == 3
    assert run("1", Sent())[-1] == alone[-1], "a study that was killed before it knew the outcome takes what is there"


def test_a_trial_whose_checkpoint_cannot_be_read_starts_anew(tmp_path: Path) -> None:
    task = TrialTask(0, {}, arguments(tmp_path), tmp_path / "0", ["val/accuracy"], study="study")
    with pytest.raises(SystemExit):
        trial.run(task, Ended())
    Run(tmp_path / "0").last_checkpoint.write_bytes(b"torn")
    connection = Sent()
    trial.run(task, connection)
    assert connection.messages[-1].state == "complete"
    assert [row["epoch"] for row in rows(tmp_path / "0")] == [1, 2]


def failure(
    folder: Path, rank: int, exitcode: int, error: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """What torchrun's agent knows of a rank that failed, from the error file that the rank has left."""
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    file = folder / f"{rank}.json"
    if error is not None:
        monkeypatch.setenv(ranks.ERROR_FILE, str(file))
        ranks.write_error_file(error)
    return ProcessFailure(local_rank=rank, pid=1, exitcode=exitcode, error_file=str(file))


def pair(folder: Path) -> TrialTask:
    """A trial on two devices."""
    return TrialTask(0, {}, [], folder, ["val/accuracy"], study="pair", devices=2)


MEMORY = TrainingError(Fault("data.batch_size", "resources", "The memory of the GPU is not enough."))
NAN = TrainingError(Fault("optimizer.lr", "diverged", "The loss became NaN."))
REFUSED = SettingError(Fault("model.attention.hops", "type", "hops must be positive."))
GONE = RunError(Fault("trainer.devices", "interrupted", "Another process of this training has ended."))


@pytest.mark.parametrize(
    ("errors", "sent", "expected"),
    [
        ({1: MEMORY, 0: None}, None, TrialOutcome("failed", error=str(MEMORY), retry=True)),
        ({0: GONE, 1: MEMORY}, None, TrialOutcome("failed", error=str(MEMORY), retry=True)),
        ({0: GONE, 1: NAN}, None, TrialOutcome("failed", error=str(NAN), diverged=True)),
        ({1: REFUSED}, None, TrialOutcome("failed", error=str(REFUSED))),
        ({}, TrialOutcome("complete", [0.5]), TrialOutcome("complete", [0.5])),
        ({1: GONE}, TrialOutcome("complete", [0.5]), TrialOutcome("complete", [0.5])),
    ],
)
def test_the_error_of_any_rank_is_that_of_the_trial(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    errors: dict[int, UserError | None],
    sent: TrialOutcome | None,
    expected: TrialOutcome,
) -> None:
    def run_ranks(arguments: Any, processes: int, logs: Path, **variables: str) -> dict[int, Any]:
        address, key = json.loads(variables[trial.RELAY])
        with Client(address, authkey=bytes.fromhex(key)) as rank:
            if sent:
                rank.send(sent)
        return {rank: failure(tmp_path, rank, 1, error, monkeypatch) for rank, error in errors.items()}

    monkeypatch.setattr(trial, "run_ranks", run_ranks)
    connection = Sent()
    trial.run(pair(tmp_path), connection)
    assert connection.messages == [expected]


def test_a_rank_that_was_killed_is_named_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = {1: failure(tmp_path, 1, -9, None, monkeypatch)}
    monkeypatch.setattr(trial, "run_ranks", lambda *_, **__: killed)
    monkeypatch.setattr(ranks, "GRACE", 0.1)
    connection = Sent()
    trial.run(pair(tmp_path), connection)
    [outcome] = connection.messages
    assert (outcome.state, outcome.retry) == ("failed", True)
    assert "SIGKILL" in outcome.error


def test_a_rank_leaves_its_error_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MEMORY

    monkeypatch.setattr(trial, "_train", fail)
    monkeypatch.setenv(ranks.ERROR_FILE, str(tmp_path / "error.json"))
    connection = Sent()
    with pytest.raises(SystemExit):
        trial._train_and_send(pair(tmp_path), connection)
    assert connection.messages == []
    assert json.loads((tmp_path / "error.json").read_text())["faults"][0]["kind"] == "resources"


def _raised(kind: type[UserError], cause: Exception | None = None) -> UserError:
    error = kind(Fault("", "failed", "It failed."))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (_raised(TrainingError, RuntimeError("CUDA out of memory")), True),
        (_raised(TrainingError, OSError(28, "No space left on device")), True),
        (_raised(TrainingError), False),
        (_raised(SettingError, RuntimeError("within a library")), False),
    ],
)
def test_what_the_machine_lacked_is_tried_again(error: UserError, again: bool) -> None:
    assert trial.may_succeed_again(error) is again


def test_metrics_that_can_be_objectives(tiny_run: Run) -> None:
    assert metric_of(tiny_run.result, "parameters.total") == tiny_run.result["parameters"]["total"]
    assert metric_of(tiny_run.result, "val/accuracc") is None
    assert metric_of({"metrics": {"val/loss": float("nan")}}, "val/loss") is None
