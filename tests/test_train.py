"""What the train command prints after a run, and its exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tiny import tiny

from sentattn.compare import __main__ as compare
from sentattn.train import main, predict_command


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
