"""Every attention and every variant learns the demo corpus as far as its kind can, by the shared recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentattn.config import compose
from sentattn.settings.choices import conf_dir
from sentattn.training.fitting import train

ATTENTIONS = sorted(path.stem for path in (conf_dir() / "model" / "attention").glob("*.yaml"))
PRESETS = sorted(path.stem for path in (conf_dir() / "model").glob("*.yaml"))
OVER_A_BILSTM = [f"model/attention={name}" for name in ATTENTIONS]
VARIANTS = [f"model={name}" for name in PRESETS if name != "structured"]  # stands among the attentions


def assert_learns(choice: str, seed: int, folder: Path) -> None:
    settings = compose([choice, f"seed={seed}", "logger=none", "trainer.accelerator=cpu", f"output_dir={folder}"])
    run = train(settings)
    blind_to_order = settings["model"]["encoder"]["_target_"].endswith("Identity")
    low, high = (0.65, 0.85) if blind_to_order else (0.95, 1.0)
    for split in ("val", "test"):
        assert low <= run.metrics[f"{split}/accuracy"] <= high, (choice, seed, split)


@pytest.mark.parametrize("choice", OVER_A_BILSTM + VARIANTS)
def test_learns(choice: str, tmp_path: Path) -> None:
    assert_learns(choice, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("choice", OVER_A_BILSTM + VARIANTS)
def test_learns_from_other_seeds(choice: str, seed: int, tmp_path: Path) -> None:
    assert_learns(choice, seed, tmp_path)
