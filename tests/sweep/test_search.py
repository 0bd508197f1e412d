"""`sentattn.search`: the study of a sweep in Python, with trials that train in this process."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pyarrow.parquet as pq
import pytest
import yaml
from fake_jobs import InlinePool
from fake_sweep import X, plan
from refusals import refused
from studies import ask, states, tell, train
from tiny import tiny

import sentattn
from sentattn.config.request import read_request
from sentattn.jobs.slots import Slot, SlotOptions, find_slots
from sentattn.run import Run
from sentattn.sweep import __main__ as command
from sentattn.sweep import search
from sentattn.sweep.plan import Objective
from sentattn.sweep.records import TrialReport
from sentattn.sweep.search import SearchStudy, write_files, write_new_best
from sentattn.sweep.study import SweepStudy

HOPS = "model.attention.hops=range(1,4)"
PAGE = "sentattn.sweep.report.page"


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials train in this process, one after another."""
    monkeypatch.setattr(search, "LocalPool", InlinePool)


@pytest.fixture
def untrained(inline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials end without a training."""
    monkeypatch.setattr(search, "run_trial", lambda task, *_: TrialReport(task).end([0.5]))


def words(folder: Path, *settings: str) -> list[str]:
    return tiny(HOPS, f"output_dir={folder}", "trainer.max_epochs=1", "pruner=none", "threads=1", *settings)


@pytest.mark.usefixtures("inline")
def test_a_search_and_the_training_of_its_best_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = sentattn.search(words(tmp_path), 1, study="hops", slots=1)
    assert isinstance(study, optuna.Study)
    assert study.folder == tmp_path / "sweeps" / "hops"
    study = sentattn.search(words(tmp_path), trials=2, study="hops", slots=1)  # the same study, resumed
    assert "1 of 2 trials done" in capsys.readouterr().out
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.COMPLETE] * 2
    settings = study.best_settings
    assert f"model.attention.hops={study.best_params['model.attention.hops']}" in settings
    assert read_request(settings).settings == read_request([f"from={study.folder / 'best.yaml'}"]).settings
    run = sentattn.fit([*settings, f"output_dir={tmp_path}", "threads=1"])
    assert run.metrics["val/accuracy"] == study.best_value
    assert "test/accuracy" in run.metrics
    assert {file.name for file in study.folder.iterdir()} >= {"trials.parquet", "report.html", "trials"}
    assert sentattn.search(words(tmp_path), trials=2, study="hops").best_value == study.best_value
    assert "2 of 2 trials done" in capsys.readouterr().out


@pytest.mark.usefixtures("untrained")
def test_a_confirmation_that_is_asked_for_later_trains_once_with_other_seeds_on_the_devices_of_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, int | None]] = []

    def on_this_machine(options: SlotOptions, accelerator: str, jobs: int | None) -> list[Slot]:
        asked.append((accelerator, jobs))
        return find_slots(options, "cpu", jobs)

    monkeypatch.setattr(search, "find_slots", on_this_machine)
    arguments = [*words(tmp_path, "trainer.accelerator=auto"), "study=hops", "trials=1", "seed=4", "slots=2"]
    assert command.main(arguments) == command.main([*arguments, "confirm=2"]) == 0
    assert asked == [("auto", 1), ("auto", 2)]
    assert "confirmed with 2 seeds" in capsys.readouterr().out
    file = tmp_path / "sweeps" / "hops" / "confirm.json"
    confirmed = json.loads(file.read_text())
    runs = [Run(Path(path)) for path in confirmed["runs"]]
    assert [run.settings["seed"] for run in runs] == confirmed["seeds"] == [5, 6]
    assert all("test/accuracy" in run.metrics for run in runs)
    file.unlink()
    assert command.main([*arguments, "confirm=2"]) == 0
    assert "confirmed with 2 seeds" in capsys.readouterr().out, "from the runs that there are"
    assert {*tmp_path.glob("demo/*/*")} == {run.path for run in runs}


@pytest.mark.usefixtures("untrained")
def test_the_studies_of_a_file_share_the_slots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump({"studies": {"a": ["loss.penalty=0.1"], "b": ["loss.penalty=0.2"]}}))
    assert command.main([f"sweep={file}", *words(tmp_path), "trials=2", "slots=1"]) == 0
    out = capsys.readouterr().out
    started = [line.partition(",")[0] for line in out.splitlines() if " on CPU: " in line]
    names = ["structured-demo-a", "structured-demo-b"]
    assert started == [*names, *names]
    assert all(states(tmp_path / "sweeps" / name) == {"complete": 2} for name in names)
    assert refused(lambda: sentattn.search(words(tmp_path), sweep=file)) == [("sweep", "unsupported")]


@pytest.mark.usefixtures("untrained")
def test_rows_that_have_changed_are_refused(tmp_path: Path) -> None:
    rows = ["text,label", *(f"{word} {number},{word}" for word in ("good", "bad") for number in range(60))]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(rows))
    arguments = words(tmp_path, "data=table", f"data.train={file}", "data.limit=null")
    sentattn.search(arguments, 1, study="rows")
    sentattn.search(arguments, 1, study="rows")
    file.write_text("\n".join(rows[:-10]))
    assert refused(lambda: sentattn.search(arguments, 2, study="rows")) == [("study", "conflict")]


@pytest.mark.usefixtures("untrained")
def test_vectors_that_have_changed_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    arguments = [word for word in words(tmp_path, f"data.vectors={file}") if "embedding.size" not in word]
    file.write_text("good 1 2 3 4 5 6 7 8\nfood 2 1 2 1 2 1 2 1\n")
    sentattn.search(arguments, 1, study="vectors")
    file.write_text("good 1 2 3 4 5 6 7 8\nfood 1 2 1 2 1 2 1 2\n")
    assert refused(lambda: sentattn.search(arguments, 2, study="vectors")) == [("study", "conflict")]


OWN_MEAN = """
from sentattn.models.attention.base import Attended, Attention

class OwnMean(Attention):
    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, 1

    def forward(self, states_BLD, mask_BL):
        weights_BHL = (mask_BL / mask_BL.sum(1, keepdim=True)).unsqueeze(1).to(states_BLD.dtype)
        return Attended(weights_BHL @ states_BLD, weights_BHL)
"""


@pytest.mark.usefixtures("inline")
def test_the_best_setting_of_a_class_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains again, and is confirmed, with the folder that was typed."""
    folder = tmp_path / "own"
    (folder / "model" / "attention").mkdir(parents=True)
    (folder / "model" / "attention" / "mine.yaml").write_text("_target_: own_mean.OwnMean\n")
    (tmp_path / "own_mean.py").write_text(OWN_MEAN)
    monkeypatch.syspath_prepend(tmp_path)
    setting = [word for word in words(tmp_path, "model/attention=mine") if not word.startswith("model.attention.")]
    arguments = [f"--config-dir={folder}", *setting, "optimizer.lr=interval(1e-3,1e-2)", "study=own"]
    assert command.main([*arguments, "trials=1", "confirm=1", "slots=1"]) == 0
    best = tmp_path / "sweeps" / "own" / "best.yaml"
    settings = read_request([f"--config-dir={folder}", f"from={best}"]).settings
    assert settings["model"]["attention"]["_target_"] == "own_mean.OwnMean"


class Interrupted(InlinePool):
    """Ctrl-C comes while a job runs."""

    def ended(self, running: Any, seconds: float) -> list[Any]:
        signal.raise_signal(signal.SIGINT)
        return super().ended(running, seconds)


@pytest.mark.usefixtures("untrained")
def test_an_interruption_in_the_last_trial_prints_the_best_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "LocalPool", Interrupted)
    assert command.main([*words(tmp_path), "study=hops", "trials=2", "slots=1"]) == 130
    out = capsys.readouterr()
    assert "the same command resumes" in out.err
    assert command.main([*words(tmp_path), "study=hops", "trials=2", "slots=1"]) == 0
    out = capsys.readouterr()
    assert "best of val/accuracy" in out.out
    assert "resumes" not in out.err


@pytest.mark.usefixtures("untrained")
def test_an_interruption_in_the_last_trial_leaves_the_confirmation_to_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*words(tmp_path), "study=hops", "trials=1", "confirm=1", "slots=1"]
    monkeypatch.setattr(search, "LocalPool", Interrupted)
    assert command.main(arguments) == 130
    assert "the same command confirms the best setting" in capsys.readouterr().err
    monkeypatch.setattr(search, "LocalPool", InlinePool)
    assert command.main(arguments) == 0
    assert "confirmed with 1 seed" in capsys.readouterr().out


def test_best_settings_of_several_objectives_and_of_no_trial(tmp_path: Path) -> None:
    objectives = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    of_two = plan(4, objectives=objectives)
    with SweepStudy.open(of_two, tmp_path, train) as study:
        opened = SearchStudy(of_two, tmp_path)
        assert refused(lambda: opened.best_settings) == [("study", "missing")]
        values = []
        for reached in ([0.9, 900.0], [0.85, 200.0], [0.5, 100.0], [0.6, 950.0]):
            job = ask(study)
            values.append(job.values[X])
            tell(study, job, *reached)
        write_new_best(study, {})
        assert best_trial(study) == 1
    assert len(opened.best_trials) == 3
    assert opened.best_settings[:2] == ["model=structured", f"{X}={values[1]}"]


@pytest.mark.parametrize(
    ("typed", "options", "fault"),
    [
        ([HOPS], {"trals": 3}, ("trals", "unknown")),
        ([HOPS], {"trials": 0}, ("trials", "range")),
        ([HOPS, "trials=3"], {"trials": 4}, ("trials", "conflict")),
        ([HOPS, "trainer=ddp"], {}, ("trainer.devices", "unsupported")),
        ("model.attention.hops=range(3,3)", {}, ("model.attention.hops", "range")),
        ([], {"sweep": "nothing"}, ("sweep", "not_found")),
    ],
)
def test_bad_input(typed: list[str] | str, options: dict[str, object], fault: tuple[str, str]) -> None:
    assert fault in refused(lambda: sentattn.search(typed, **options))  # type: ignore[arg-type]


@pytest.fixture
def study(tmp_path: Path) -> Iterator[SweepStudy]:
    with SweepStudy.open(plan(9), tmp_path, train) as study:
        yield study


def best_trial(study: SweepStudy) -> int:
    number: int = yaml.safe_load((study.folder / "best.yaml").read_text())["trial"]
    return number


def test_the_best_setting_is_written_when_it_changes_and_all_files_at_the_end(study: SweepStudy) -> None:
    fronts: dict[str, set[int]] = {}
    write_new_best(study, fronts)
    assert not (study.folder / "best.yaml").exists()
    tell(study, ask(study), 0.5)
    write_new_best(study, fronts)
    assert best_trial(study) == 0
    (study.folder / "best.yaml").unlink()
    tell(study, ask(study), 0.4)
    tell(study, ask(study), state="failed")
    write_new_best(study, fronts)
    assert not (study.folder / "best.yaml").exists()
    tell(study, ask(study), 0.6)
    write_new_best(study, fronts)
    assert best_trial(study) == 3
    write_files(study)
    assert best_trial(study) == 3
    assert "Best setting: trial 3" in (study.folder / "report.html").read_text()
    table = pq.read_table(study.folder / "trials.parquet").to_pydict()
    assert table["val/accuracy"] == [0.5, 0.4, None, 0.6]


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_an_error_at_the_end_of_a_study(
    study: SweepStudy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "write_best", full)
    tell(study, ask(study), 0.5)
    write_new_best(study, {})
    assert refused(lambda: write_files(study)) == [(str(study.folder), "unwritable")]
    write_files(study, KeyError)  # the error that has ended the sweep counts
    assert "No space left on device" in capsys.readouterr().out


def test_an_error_in_the_report_costs_a_line(
    study: SweepStudy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PAGE, lambda _: 1 / 0)
    tell(study, ask(study), 0.5)
    write_files(study)
    assert best_trial(study) == 0
    assert "division by zero" in capsys.readouterr().out
