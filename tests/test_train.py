"""What the train command prints after a run, and its exit code."""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from tiny import tiny

from sentattn.compare import __main__ as compare
from sentattn.train import fit, main, predict_command


@pytest.mark.parametrize("folder", ["outputs/demo/structured", "outputs/demo/a-variant-with-a-long-name", "o"])
def test_the_printed_command_fits_a_terminal(folder: str) -> None:
    path = Path(folder) / "20260101-120000-1a2b"
    lines = predict_command(path).splitlines()
    assert all(len(line) <= 100 for line in lines[:1])
    assert max(len(line) for line in lines) <= max(80, len(f"  python -m sentattn.predict run={path} {chr(92)}"))
    assert " ".join(line.strip().rstrip(chr(92)).strip() for line in lines) == (
        f'python -m sentattn.predict run={path} text="..."'
    )
    assert all(line.endswith(" " + chr(92)) for line in lines[:-1])


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
