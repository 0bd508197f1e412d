"""Losses and loggers of one's own, or of other packages, by a YAML file in a folder of one's own."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tiny import tiny

from sentattn import fit
from sentattn.compare.comparison import read_comparisons
from sentattn.compare.runs import read_runs
from sentattn.errors import RunError
from sentattn.train import main
from sentattn.training.resume import advice, open_interrupted

CLASSES = """
from pytorch_lightning.loggers.logger import DummyLogger
from torch import nn
from torch.nn import functional

from sentattn.models.attention.base import Attended, Attention, masked_softmax


class Focal(nn.Module):
    def __init__(self, gamma: float = 2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, labels):
        entropy = functional.cross_entropy(logits, labels, reduction="none")
        return ((1 - (-entropy).exp()) ** self.gamma * entropy).mean()


class Mine(DummyLogger):
    pass


class Own(Attention):
    def __init__(self, *, dim: int, hidden: int, masked: bool):
        super().__init__()
        self.out_dim, self.hops, self.masked = dim, 1, masked
        self.scores = nn.Linear(dim, 1)

    def forward(self, states_BLD, mask_BL):
        scores_B1L = self.scores(states_BLD).transpose(1, 2)
        weights_B1L = masked_softmax(scores_B1L, mask_BL) if self.masked else scores_B1L.softmax(dim=-1)
        return Attended(weights_B1L @ states_BLD, weights_B1L)
"""
FILES = {
    "loss/focal.yaml": "# Focal loss.\n_target_: users_classes.Focal\ngamma: 2.0\n",
    "model/attention/masked.yaml": "# With the mask.\n_target_: users_classes.Own\nhidden: 1\nmasked: true\n",
    "model/attention/unmasked.yaml": "# Without the mask.\n_target_: users_classes.Own\nhidden: 1\nmasked: false\n",
    "logger/lightning.yaml": "lightning:\n  _target_: pytorch_lightning.loggers.CSVLogger\n  name: own\n",
    "logger/mine.yaml": "mine:\n  _target_: users_classes.Mine\n",
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The argument that names a folder with choices of one's own, and where runs are written."""
    for name, text in FILES.items():
        (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / name).write_text(text)
    (tmp_path / "users_classes.py").write_text(CLASSES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return [f"--config-dir={tmp_path / 'conf'}", f"output_dir={tmp_path / 'outputs'}"]


def test_a_loss_of_ones_own_is_trained_evaluated_and_read_again(own: list[str]) -> None:
    run = fit([*own, *tiny("loss=focal", "loss.gamma=0")])
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [row["val/loss"] for row in rows] == pytest.approx([row["val/log_loss"] for row in rows], abs=1e-5)
    focal = fit([*own, *tiny("loss=focal", "loss.gamma=3")])
    assert focal.metrics["val/loss"] < focal.metrics["val/log_loss"]
    assert focal.evaluate()["test/loss"] == pytest.approx(focal.metrics["test/loss"], abs=1e-5)
    assert run.result["setting"] != focal.result["setting"]


def test_loggers_of_lightning_and_of_ones_own(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run = fit([*own, *tiny("logger=[lightning,mine]", "test=false")])
    [file] = run.path.rglob("own/version_0/metrics.csv")
    lines = list(csv.DictReader(file.read_text().splitlines()))
    assert {"val/accuracy", "train/loss"} <= lines[0].keys()
    assert {int(line["step"]) for line in lines} >= {1, 2}
    out = capsys.readouterr().out
    assert {"CSVLogger: open", "Mine: open"} <= set(out.splitlines())


def test_a_check_finds_an_attention_that_forgets_the_mask(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*own, *tiny("model/attention=masked", "check=true")]) == 0
    assert capsys.readouterr().out.count("\nCheck: ") == 4
    assert main([*own, *tiny("model/attention=unmasked", "check=true")]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert all(part in line for part in ("padded batch", "weights of padding are 0", "masked_softmax"))
    assert "sum to 1" not in line


def test_commands_for_runs_with_a_class_of_ones_own_can_be_typed(
    own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*own, *tiny("loss=focal")]) == 0
    assert " trust=true \\\n" in capsys.readouterr().out
    [path] = Path(own[1].partition("=")[2]).glob("demo/*/*")
    [comparison], _ = read_comparisons([path], split="test")
    [[command]] = [items for title, items in comparison.messages if "To train the others" in title]
    assert command.endswith(" trust=true")
    with pytest.raises(RunError, match=r"trust=true$"):
        open_interrupted(path)
    with pytest.raises(RunError, match="trust=true"):
        read_runs([path], split="other")
    assert "trust=true" not in advice(None)
