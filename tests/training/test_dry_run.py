"""What is printed of a training before it begins, and which of its batches are timed for it."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from encoder_files import write_encoder
from refusals import refused
from tiny import tiny

from sentattn.config.request import read_request
from sentattn.config.schema import Settings
from sentattn.distributed import devices
from sentattn.models.embedding import Words
from sentattn.training import dry_run, environment
from sentattn.training.dry_run import check


def settings_of(words: list[str]) -> Settings:
    return read_request(words).settings


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed of the tiny training; nothing is written."""
    folder = tmp_path_factory.mktemp("check")
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        check(settings_of(tiny()), seeds=3)
    assert list(folder.iterdir()) == []
    return out.getvalue()


def numbers(printed: str, line: str) -> list[int]:
    [found] = re.findall(rf"^ *{line} .*$", printed, flags=re.MULTILINE)
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", found)]


def largest_batch(printed: str) -> tuple[int, ...]:
    """The number of batches, and the texts and the length of the largest."""
    [found] = re.findall(r"largest of (\d+) training batches has (\d+) texts of at most (\d+)", printed)
    return tuple(map(int, found))


def test_data(printed: str) -> None:
    assert numbers(printed, "demo:") == [200, 200, 200]
    mean, most_have, longest, *_ = numbers(printed.replace("95% have", "have"), "Training texts:")
    assert 0 < mean < most_have <= longest


def test_shapes_and_parameters_by_hand(printed: str) -> None:
    [words] = re.findall(r"^Vocabulary: (\d+) words", printed, flags=re.MULTILINE)
    batches, B, L = largest_batch(printed)
    embedding = (int(words) + 2) * 8
    encoder = 2 * (4 * 4 * (8 + 4) + 8 * 4)  # two directions of 4 units on vectors of 8
    attention = (8 * 5 + 5) + (5 * 4 + 4)  # 8 -> 5 -> 4 hops
    head = (4 * 8 + 1) * 2
    assert (batches, B) == (10, 20)
    assert numbers(printed, "tokens_BL") == [B, L]
    assert numbers(printed, "embedding  states_BLE") == [B, L, 8, embedding]
    assert numbers(printed, "encoder    states_BLD") == [B, L, 8, encoder]
    assert numbers(printed, "attention  values_BRD") == [B, 4, 8, attention]
    assert numbers(printed, "weights_BRL") == [B, 4, L]
    assert numbers(printed, "pooling    vector_BP") == [B, 32, 0]
    assert numbers(printed, "head       logits_BC") == [B, 2, head]
    assert f"  {embedding + encoder + attention + head:,} parameters, all trainable." in printed


def test_memory_time_and_disk(printed: str) -> None:
    assert re.search(r"^Memory: about [\d.]+ [MG]B of .* [\d.]+ kB", printed, re.M)
    assert re.search(r"^Time: about [\d.]+ s .* for 3 runs", printed, re.M)
    assert re.search(r"^Disk: about [\d.]+ kB", printed, re.M)


def test_time_by_hand() -> None:
    settings = settings_of(["trainer.max_epochs=10"])
    # 10 epochs of 6 s and 4 s, then 4 s and 8 s for the best epoch
    assert "0:01:52 a run" in dry_run._time(settings, 6.0, {"val": 4.0, "test": 8.0}, seeds=1, world=1)
    # validation is shared by two devices: 10 x (6 + 2) + 4, three times 84
    line = dry_run._time(settings, 6.0, {"val": 4.0}, seeds=3, world=2)
    assert all(part in line for part in ("84.0 s a run", "0:04:12 for 3 runs", "on 2 devices"))


def test_a_disk_without_room(tmp_path: Path) -> None:
    assert "not enough" not in dry_run._disk(str(tmp_path / "not" / "yet"), 9 * 10**6)
    assert "not enough" in dry_run._disk(str(tmp_path), 10**18)


def test_devices_share_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(devices, "cores", lambda: 2)
    check(settings_of(tiny("trainer=ddp", "trainer.devices=2", "trainer.num_nodes=2")))
    printed = capsys.readouterr().out
    assert largest_batch(printed)[:2] == (10, 5)  # of 20
    assert "on 4 devices" in printed


def test_more_processes_than_cores_are_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 2)
    settings = settings_of(tiny("trainer.devices=24", "data=table", "data.train=missing.csv"))
    assert refused(lambda: check(settings)) == [("trainer.devices", "resources")]


def test_a_model_that_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "total_memory", lambda _: (10**8, "this machine"))
    settings = settings_of(tiny("model.attention.hops=1000000", "data=table", "data.train=missing.csv"))
    assert refused(lambda: check(settings)) == [("model", "resources")]


def test_timed_steps_are_of_the_average_and_the_largest_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    forward = Words.forward

    def count(self: Words, tokens_BL: torch.Tensor, mask_BL: torch.Tensor) -> Any:
        if self.training:
            sizes.append(tokens_BL.numel())
        return forward(self, tokens_BL, mask_BL)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Words, "forward", count)
    check(settings_of(tiny()))
    average, largest, again = sizes
    assert average == again < largest


def test_time_of_a_share_of_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    seconds: list[float] = []
    monkeypatch.setattr(dry_run, "_time", lambda settings, training, *_, **__: seconds.append(training))
    monkeypatch.setattr(dry_run.Timer, "on_train_end", lambda self, *_: setattr(self, "seconds", [1.0]))
    for limit in ("null", "4", "40", "0.25"):
        check(settings_of(tiny(f"trainer.limit_train_batches={limit}")))
    assert seconds == [10, 4, 10, 2]


def test_missing_data_is_refused(tmp_path: Path) -> None:
    settings = settings_of(tiny("data=table", f"data.train={tmp_path / 'missing.csv'}"))
    assert refused(lambda: check(settings)) == [("data.train", "not_found")]


def test_a_step_without_enough_memory_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forward = Words.forward

    def too_much(self: Words, tokens_BL: torch.Tensor, mask_BL: torch.Tensor) -> Any:
        if len(tokens_BL) > 1:
            torch.empty(1 << 56, dtype=torch.uint8)
        return forward(self, tokens_BL, mask_BL)

    monkeypatch.setattr(Words, "forward", too_much)
    settings = settings_of(tiny(f"output_dir={tmp_path / 'outputs'}"))
    assert refused(lambda: check(settings)) == [("data.batch_size", "resources")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["transformer", "cnn", "mean"])
def test_other_variants(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    check(settings_of([f"model={model}", "data.limit=100", "trainer.accelerator=cpu", "test=false"]))
    printed = capsys.readouterr().out
    assert len(numbers(printed, "encoder    states_BLD")) == 4


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def matched(encoder: Path, trained: int, capsys: pytest.CaptureFixture[str], *settings: str) -> str:
    """Returns the line on the width of the head that matches a run with so many trained parameters."""
    other = Path("other")
    other.mkdir()
    (other / "config.yaml").write_text("{}")
    (other / "result.json").write_text(json.dumps({"format": 1, "parameters": {"trainable": trained}}))
    named = ["model=pretrained", f"model.embedding.name={encoder}", "data.max_length=40", "data.cache_dir=cache"]
    short = ["data.limit=60", "trainer.accelerator=cpu", "check=true", "match_parameters=other"]
    request = read_request([*named, *short, *settings])
    check(request.settings, match_parameters=request.match_parameters)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("model.head.width")]
    return line


@pytest.mark.parametrize("settings", [(), ("model.head.width=7",)])
@pytest.mark.parametrize(
    ("trained", "width", "total"),
    [
        # LayerNorm 2 x 16, and a head (16 + 1) w + (w + 1) 2 on 2 classes, or (16 + 1) 2 without hidden layer
        (66, "null", 66),
        (1000, "51", 32 + 19 * 51 + 2),
        (2000, "103", 32 + 19 * 103 + 2),
    ],
)
def test_the_width_that_matches_the_parameters_of_a_run(
    encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: tuple[str, ...],
    trained: int,
    width: str,
    total: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    line = matched(encoder, trained, capsys, *settings)
    assert line.startswith(f"model.head.width={width}: {total:,} ")
    assert abs(total / trained - 1) < 0.02


@pytest.mark.parametrize("trained", [40, 75])
def test_no_width_matches(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trained: int
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(lambda: matched(encoder, trained, capsys)) == [("match_parameters", "conflict")]


def test_a_run_without_a_number_of_parameters_cannot_be_matched(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(lambda: matched(encoder, 0, capsys)) == [("match_parameters", "missing")]
