"""What the train command prints after a run, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import tiny

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


def test_a_run_ends_with_its_leaderboard_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1", "test=false")
    assert main(words) == 0
    assert "settings in the newest runs" not in capsys.readouterr().out
    assert main([*words, "optimizer.lr=0.01"]) == 0
    out = capsys.readouterr().out
    assert out.index("best epoch 1") < out.index("2 settings in the newest runs") < out.index("sentattn.predict")
