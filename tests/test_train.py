"""What the train command prints after a run, and its exit code."""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from refusals import assert_refused, refused
from tiny import tiny

from sentattn.compare import __main__ as compare
from sentattn.train import fit, main, predict_command


@pytest.mark.parametrize("folder", ["outputs/demo/structured", "outputs/demo/a-variant-with-a-long-name", "o"])
def test_the_printed_command_fits_a_terminal(folder: str) -> None:
    path = Path(folder) / "20260101-120000-1a2b"
    command = predict_command(path)
    assert shlex.split(command.replace("\\\n", "")) == ["python", "-m", "sentattn.predict", f"run={path}", "text=..."]
    longest = max(map(len, command.splitlines()))
    assert longest <= max(80, len(f"  python -m sentattn.predict run={path} \\"))


def test_a_run_ends_with_the_commands_that_compare_and_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1", "test=false")) == 0
    out = capsys.readouterr().out
    [command] = [line.split("sentattn.compare ")[1] for line in out.splitlines() if "sentattn.compare " in line]
    assert out.index("best epoch 1") < out.index("sentattn.compare") < out.index("sentattn.predict")
    assert compare.main(shlex.split(command)) == 0
    assert "split val" in capsys.readouterr().out


def test_several_threads_train(tmp_path: Path) -> None:
    words = tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1", "test=false")
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(lambda seed: fit([*words, f"seed={seed}"]), (1, 2)))
    assert [run.result["seed"] for run in runs] == [1, 2]


def test_an_application_of_hydras_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    (tmp_path / "app.yaml").write_text("number: 0\n")

    @hydra.main(version_base=None, config_path=str(tmp_path), config_name="app")
    def application(config: Any) -> None:
        run = fit(tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1", "test=false", f"seed={config.number}"))
        names.append((run.result["seed"], HydraConfig.get().job.name, GlobalHydra.instance().is_initialized()))

    none = [f"hydra/{logging}=none" for logging in ("job_logging", "hydra_logging")]
    monkeypatch.setattr(sys, "argv", ["app.py", "number=7", f"hydra.run.dir={tmp_path}", *none])
    application()
    assert names == [(7, "test_train", True)]


ROWS = {"review": [f"{'good' if i % 2 else 'bad'} film {i}" for i in range(60)], "stars": [i % 2 for i in range(60)]}
IN_MEMORY = [
    *(word for word in tiny("data.text=review", "data.label=stars", "data.min_count=1") if "data.limit" not in word),
    *("trust=true", "callbacks.own._target_=own_callbacks.Counting"),
]


def test_rows_in_memory_are_trained_as_those_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(ROWS).to_csv("rows.csv", index=False)
    of_file = fit([*IN_MEMORY, "data=table", "data.train=rows.csv"])
    run = fit(IN_MEMORY, data=pd.DataFrame(ROWS))
    assert run.metrics == of_file.metrics
    assert run.result["data_fingerprint"] == of_file.result["data_fingerprint"]
    again = fit([f"from={run.path}", "trust=true"], data=ROWS)
    assert (again.metrics, again.result["setting"]) == (run.metrics, run.result["setting"])
    for read_again in (run.evaluate, lambda: fit([f"from={run.path}", "trust=true"])):
        assert_refused(read_again, "data.train", "not_found", "in memory", "data.train=FILE")
    assert "test/accuracy" in run.evaluate("data.test=rows.csv")


def test_a_training_on_rows_in_memory_is_resumed_with_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = fit([*IN_MEMORY, "output_dir=whole"], data=ROWS)
    for output, words in (("auto", [*IN_MEMORY, "output_dir=auto", "resume=auto"]), ("dir", ["trust=true"])):
        monkeypatch.setattr("own_callbacks.FAILS_IN", ("on_train_epoch_end", 2))
        assert refused(lambda output=output: fit([*IN_MEMORY, f"output_dir={output}"], data=ROWS)) == [
            ("callbacks.own", "failed")
        ]
        monkeypatch.setattr("own_callbacks.FAILS_IN", None)
        [left] = Path(output).glob("*/*/*")
        resume = words if output == "auto" else [*words, f"resume={left}"]
        other = {**ROWS, "review": [f"{text}!" for text in ROWS["review"]]}
        assert refused(lambda resume=resume, other=other: fit(resume, data=other)) == [("data", "conflict")]
        assert fit(resume, data=ROWS).metrics == whole.metrics
        assert len([*Path(output).glob("*/*/*")]) == 1
