"""`sentattn.search`: the study of a sweep in Python."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from fake_sweep import plan
from refusals import refused
from sentattn.sweep.execution.interfaces import TrialOutcome
from tiny import tiny

import sentattn
from sentattn.config.request import read_request
from sentattn.sweep.search import SearchStudy
from sentattn.sweep.spec.plan import Objective
from sentattn.sweep.study.study import SweepStudy


@pytest.mark.slow
def test_a_search_and_the_training_of_its_best_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = tiny("model.attention.hops=range(1,4)", f"output_dir={tmp_path}", "trainer.max_epochs=1")
    study = sentattn.search(words, 1, study="hops", slots=1)
    assert isinstance(study, optuna.Study)
    assert study.folder == tmp_path / "sweeps" / "hops"
    study = sentattn.search(words, trials=2, study="hops", slots=1)  # the same study, resumed
    assert "1 of 2 trials done" in capsys.readouterr().out
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.COMPLETE] * 2
    settings = study.best_settings
    assert f"model.attention.hops={study.best_params['model.attention.hops']}" in settings
    assert read_request(settings).settings == read_request([f"from={study.folder / 'best.yaml'}"]).settings
    run = sentattn.fit([*settings, f"output_dir={tmp_path}", "threads=1"])
    assert run.metrics["val/accuracy"] == study.best_value
    assert "test/accuracy" in run.metrics


def test_best_settings_of_several_objectives_and_of_no_trial(tmp_path: Path) -> None:
    objectives = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    of_two = plan(4, "model=mean", objectives=objectives)
    with SweepStudy.open(of_two, tmp_path) as study:
        opened = SearchStudy(of_two, tmp_path)
        assert refused(lambda: opened.best_settings) == [("study", "missing")]
        values = []
        for reached in ([0.9, 900.0], [0.85, 200.0], [0.5, 100.0], [0.6, 950.0]):
            task = study.ask()
            assert task
            values.append(task.values["x"])
            study.tell(task.number, TrialOutcome("complete", reached))
    assert len(opened.best_trials) == 3
    assert opened.best_settings[:2] == ["model=mean", f"x={values[1]}"]


@pytest.mark.parametrize(
    ("words", "options", "fault"),
    [
        (["model.attention.hops=range(1,4)"], {"trals": 3}, ("trals", "unknown")),
        (["model.attention.hops=range(1,4)"], {"trials": 0}, ("trials", "range")),
        (["model.attention.hops=range(1,4)", "trials=3"], {"trials": 4}, ("trials", "conflict")),
        ("model.attention.hops=range(3,3)", {}, ("model.attention.hops", "range")),
        ([], {"sweep": "nothing"}, ("sweep", "not_found")),
    ],
)
def test_bad_input(words: list[str] | str, options: dict[str, object], fault: tuple[str, str]) -> None:
    assert fault in refused(lambda: sentattn.search(words, **options))  # type: ignore[arg-type]


def test_a_sweep_of_several_studies_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "studies: {a: [loss.penalty=0.1], b: [loss.penalty=0.2]}\nspace: {model.attention.hops: 'range(1,4)'}\n"
    )
    assert refused(lambda: sentattn.search(sweep=file)) == [("sweep", "unsupported")]
