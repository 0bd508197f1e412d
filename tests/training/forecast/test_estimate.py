"""What is told of a training before it begins."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny

from sentattn.config.compose import compose
from sentattn.errors import DataError, TrainingError
from sentattn.models.embedding import Words
from sentattn.training.forecast import estimate
from sentattn.training.forecast.estimate import check
from sentattn.training.forecast.probing import Step

STEP = Step(torch.device("cpu"), 10**6, 10**6, 2 * 10**6, 10**6, 4 * 10**6, 3 * 10**8, 0.1)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is told of the tiny training; nothing is left behind."""
    here = tmp_path_factory.mktemp("here")
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(here)
        check(compose(tiny()), seeds=3)
    assert list(here.iterdir()) == []
    return out.getvalue()


def figures(told: str, line: str) -> list[int]:
    [found] = re.findall(rf"^ *{line} .*$", told, flags=re.MULTILINE)
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", found)]


def test_the_data_is_told(told: str) -> None:
    assert re.search(r"^demo: 200 train, 200 val, 200 test rows; classes: negative, positive\.$", told, re.MULTILINE)
    mean, most_have, longest, *_ = figures(told.replace("95% have", "have"), "Training texts:")
    assert 0 < mean < most_have <= longest


def test_shapes_and_parameters_by_hand(told: str) -> None:
    [words] = re.findall(r"^Vocabulary: (\d+) words", told, flags=re.MULTILINE)
    [(batches, rows, longest)] = re.findall(r"largest of (\d+) training batches has (\d+) texts of at most (\d+)", told)
    B, L = int(rows), int(longest)
    embedding = (int(words) + 2) * 8
    encoder = 2 * (4 * 4 * (8 + 4) + 8 * 4)  # two directions of 4 units on vectors of 8
    attention = (8 * 5 + 5) + (5 * 4 + 4)  # 8 -> 5 -> 4 hops
    head = (4 * 8 + 1) * 2
    assert (batches, B) == ("10", 20)
    assert figures(told, "tokens_BL") == [B, L]
    assert figures(told, "embedding  states_BLE") == [B, L, 8, embedding]
    assert figures(told, "encoder    states_BLD") == [B, L, 8, encoder]
    assert figures(told, "attention  values_BRD") == [B, 4, 8, attention]
    assert figures(told, "weights_BRL") == [B, 4, L]
    assert figures(told, "pooling    vector_BP") == [B, 32, 0]
    assert figures(told, "head       logits_BC") == [B, 2, head]
    assert f"  {embedding + encoder + attention + head:,} parameters, all learned." in told


def test_memory_time_and_disk_are_told(told: str) -> None:
    assert re.search(r"^Memory: about [\d.]+ [MG]B of main memory .* weights \d+ kB, gradients \d+ kB, .*", told, re.M)
    assert re.search(r"^Time: about [\d.]+ s a run: 2 epochs of [\d.]+ s of training and [\d.]+ s of valid", told, re.M)
    assert re.search(r"^  3 runs, one after another: about [\d.]+ s\.$", told, re.M)
    assert re.search(
        r"^Disk: about \d+ kB for checkpoints and models; [\d,.]+ \wB are free under outputs\.$", told, re.M
    )
    assert told.endswith("Nothing was trained; leave out check=true to train.\n")


def test_time_by_hand() -> None:
    settings = compose(["trainer.max_epochs=10"])
    seconds = np.array([1.0, 2.0, 3.0])
    # 10 epochs of 6 s and 4 s, then 4 s and 8 s for the best epoch
    [line] = estimate._time(settings, seconds, {"val": 4.0, "test": 8.0}, seeds=1, world=1)
    assert line == (
        "Time: about 2 min a run: 10 epochs of 6.0 s of training and 4.0 s of validation each, then 8.0 s of testing."
    )
    lines = list(estimate._time(settings, seconds, {"val": 4.0}, seeds=3, world=2))
    # validation is shared by two devices: 10 x (6 + 2) + 4, three times 84
    assert lines[0] == "Time: about 84 s a run: 10 epochs of 6.0 s of training and 2.0 s of validation each."
    assert "on 2 devices" in lines[1]
    assert lines[2] == "  3 runs, one after another: about 4 min."


@pytest.mark.parametrize(("limit", "number"), [(None, 10), (4, 4), (40, 10), (1.0, 10), (0.25, 2), (1, 1)])
def test_how_many_batches_lightning_takes(limit: float | None, number: int) -> None:
    assert estimate._batches(limit, 10) == number


def test_memory_by_its_parts() -> None:
    assert estimate._memory(STEP._replace(average=0)) == (
        "Memory: about 300 MB of main memory for the process, with Python and libraries (cpu): weights 1 MB, "
        "gradients 1 MB, optimizer 2 MB, activations of the largest batch 4 MB."
    )


def test_disk_by_hand(tmp_path: Path) -> None:
    # two checkpoints of weights, optimizer and average, and the model: 2 x 4 + 1
    line = estimate._disk({"output_dir": str(tmp_path / "not" / "yet")}, STEP, seeds=1)
    assert line.startswith("Disk: about 9 MB for checkpoints and model;")
    assert line.endswith(f"are free under {tmp_path}/not/yet.")
    line = estimate._disk({"output_dir": str(tmp_path)}, STEP._replace(weights=10**18), seeds=2)
    assert line.endswith("That is not enough: name another folder with output_dir=FOLDER.")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.01, "0.1 s"), (9.9, "9.9 s"), (59.6, "60 s"), (170, "3 min"), (6000, "1.7 h")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert estimate._duration(seconds) == text


def test_devices_share_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    check(compose(tiny("trainer=ddp", "trainer.devices=2", "trainer.num_nodes=2")))
    told = capsys.readouterr().out
    assert "largest of 10 training batches has 5 texts" in told  # of 20
    assert "on 4 devices" in told


def test_data_that_is_missing_is_told_as_in_training(tmp_path: Path) -> None:
    settings = compose(tiny("data=table", f"data.train={tmp_path / 'missing.csv'}"))
    with pytest.raises(DataError, match=r"missing\.csv"):
        check(settings)


def test_a_step_for_which_there_is_too_little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forward = Words.forward

    def too_much(self: Words, tokens_BL: torch.Tensor, mask_BL: torch.Tensor) -> Any:
        if len(tokens_BL) > 1:
            torch.empty(1 << 56, dtype=torch.uint8)
        return forward(self, tokens_BL, mask_BL)

    monkeypatch.setattr(Words, "forward", too_much)
    with pytest.raises(TrainingError, match="memory of this machine is not enough for a batch"):
        check(compose(tiny(f"output_dir={tmp_path / 'outputs'}")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["transformer", "cnn", "mean"])
def test_other_variants_are_told_as_well(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    check(compose([f"model={model}", "data.limit=100", "trainer.accelerator=cpu", "test=false"]))
    told = capsys.readouterr().out
    assert len(figures(told, "encoder    states_BLD")) == 4
    assert "testing" not in told
