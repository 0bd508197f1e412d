"""What is printed of a training before it begins, and which of its batches are timed for it."""

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
from sentattn.console import Progress
from sentattn.distributed import devices
from sentattn.errors import DataError, SettingError, TrainingError
from sentattn.models.embedding import Words
from sentattn.training import dry_run, environment
from sentattn.training.dry_run import LONGEST, SECONDS, Batches, Timer, check
from sentattn.training.signals import Signals


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "STEPS", 3)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed of the tiny training; nothing is written."""
    folder = tmp_path_factory.mktemp("check")
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        check(compose(tiny()), seeds=3)
    assert list(folder.iterdir()) == []
    return out.getvalue()


def numbers(printed: str, line: str) -> list[int]:
    [found] = re.findall(rf"^ *{line} .*$", printed, flags=re.MULTILINE)
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", found)]


def test_data(printed: str) -> None:
    assert re.search(r"^demo: 200 train, 200 val, 200 test rows; classes: negative, positive\.$", printed, re.MULTILINE)
    mean, most_have, longest, *_ = numbers(printed.replace("95% have", "have"), "Training texts:")
    assert 0 < mean < most_have <= longest


def test_shapes_and_parameters_by_hand(printed: str) -> None:
    [words] = re.findall(r"^Vocabulary: (\d+) words", printed, flags=re.MULTILINE)
    [(batches, rows, longest)] = re.findall(
        r"largest of (\d+) training batches has (\d+) texts of at most (\d+)", printed
    )
    B, L = int(rows), int(longest)
    embedding = (int(words) + 2) * 8
    encoder = 2 * (4 * 4 * (8 + 4) + 8 * 4)  # two directions of 4 units on vectors of 8
    attention = (8 * 5 + 5) + (5 * 4 + 4)  # 8 -> 5 -> 4 hops
    head = (4 * 8 + 1) * 2
    assert (batches, B) == ("10", 20)
    assert numbers(printed, "tokens_BL") == [B, L]
    assert numbers(printed, "embedding  states_BLE") == [B, L, 8, embedding]
    assert numbers(printed, "encoder    states_BLD") == [B, L, 8, encoder]
    assert numbers(printed, "attention  values_BRD") == [B, 4, 8, attention]
    assert numbers(printed, "weights_BRL") == [B, 4, L]
    assert numbers(printed, "pooling    vector_BP") == [B, 32, 0]
    assert numbers(printed, "head       logits_BC") == [B, 2, head]
    assert f"  {embedding + encoder + attention + head:,} parameters, all learned." in printed


def test_memory_time_and_disk(printed: str) -> None:
    assert re.search(r"^Memory: about [\d.]+ [MG]B of [\d.,]+ [MG]B of .* weights take \d+ kB", printed, re.M)
    assert re.search(r"^Time: about [\d.]+ s a run: 2 epochs of [\d.]+ s of training and [\d.]+ s of va", printed, re.M)
    assert re.search(r"^  3 runs, one after another: about [\d.]+ s\.$", printed, re.M)
    assert re.search(r"^Disk: about \d+ kB for what is kept; [\d,.]+ \wB are free under outputs\.$", printed, re.M)
    assert printed.endswith("Nothing was trained; leave out check=true to train.\n")


def test_time_by_hand() -> None:
    settings = compose(["trainer.max_epochs=10"])
    # 10 epochs of 6 s and 4 s, then 4 s and 8 s for the best epoch
    [line] = dry_run._time(settings, 6.0, {"val": 4.0, "test": 8.0}, seeds=1, world=1)
    assert line == (
        "Time: about 2 min a run: 10 epochs of 6.0 s of training and 4.0 s of validation each, then 8.0 s of testing."
    )
    lines = list(dry_run._time(settings, 6.0, {"val": 4.0}, seeds=3, world=2))
    # validation is shared by two devices: 10 x (6 + 2) + 4, three times 84
    assert lines[0] == "Time: about 84 s a run: 10 epochs of 6.0 s of training and 2.0 s of validation each."
    assert "on 2 devices" in lines[1]
    assert lines[2] == "  3 runs, one after another: about 4 min."


@pytest.mark.parametrize(("limit", "number"), [(None, 10), (4, 4), (40, 10), (1.0, 10), (0.25, 2), (1, 1)])
def test_how_many_batches_lightning_takes(limit: float | None, number: int) -> None:
    assert dry_run._batches(limit, 10) == number


def test_memory_that_the_system_does_not_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "peak_memory_bytes", lambda: None)
    assert dry_run._memory(compose([]), 10**6, 2 * 10**6).startswith("Memory: not measured on this system of ")


def test_disk_by_hand(tmp_path: Path) -> None:
    line = dry_run._disk(str(tmp_path / "not" / "yet"), 9 * 10**6)
    assert line.startswith("Disk: about 9 MB for what is kept;")
    assert line.endswith(f"are free under {tmp_path}/not/yet.")
    assert dry_run._disk(str(tmp_path), 10**18).endswith(
        "That is not enough: name another folder with output_dir=FOLDER."
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.01, "0.1 s"), (9.9, "9.9 s"), (59.6, "60 s"), (170, "3 min"), (6000, "1.7 h")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert dry_run._duration(seconds) == text


def test_devices_share_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(devices, "cores", lambda: 2)
    check(compose(tiny("trainer=ddp", "trainer.devices=2", "trainer.num_nodes=2")))
    printed = capsys.readouterr().out
    assert "largest of 10 training batches has 5 texts" in printed  # of 20
    assert "on 4 devices" in printed


def test_more_processes_than_cores_are_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 2)
    with pytest.raises(SettingError) as caught:
        check(compose(tiny("trainer.devices=24", "data=table", "data.train=missing.csv")))
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("trainer.devices", "resources")]


def test_a_model_that_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "total_memory", lambda _: (10**8, "this machine"))
    with pytest.raises(TrainingError) as caught:
        check(compose(tiny("model.attention.hops=1000000", "data=table", "data.train=missing.csv")))
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("model", "resources")]


def test_a_step_that_would_take_too_long_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[int] = []
    forward = Words.forward

    def count(self: Words, tokens_BL: torch.Tensor, mask_BL: torch.Tensor) -> Any:
        rows.append(len(tokens_BL))
        return forward(self, tokens_BL, mask_BL)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Words, "forward", count)
    monkeypatch.setattr(dry_run, "LONGEST", 0.0)
    check(compose(tiny()))
    assert set(rows) == {1}
    assert "The largest batch was not tried: a step with it would take about" in capsys.readouterr().out


def test_data_that_is_missing_is_an_error_as_in_training(tmp_path: Path) -> None:
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
    with pytest.raises(TrainingError) as caught:
        check(compose(tiny(f"output_dir={tmp_path / 'outputs'}")))
    assert [fault.kind for fault in caught.value.faults] == ["resources"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["transformer", "cnn", "mean"])
def test_other_variants(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    check(compose([f"model={model}", "data.limit=100", "trainer.accelerator=cpu", "test=false"]))
    printed = capsys.readouterr().out
    assert len(numbers(printed, "encoder    states_BLD")) == 4
    assert "testing" not in printed


LENGTHS = np.array([9, 1, 2, 3, 4, 5])


class Loader:
    """A loader whose batches are the rows themselves."""

    class Rows:
        def __getitem__(self, rows: list[int]) -> list[int]:
            return rows

    def __init__(self, *batches: list[int]) -> None:
        self.sampler = batches
        self.dataset = self.Rows()


def batches(*rows: list[int], world: int = 1) -> Batches:
    loader: Any = Loader(*rows)
    return Batches.of(loader, LENGTHS, world=world)


def timer(sample: Batches, *seconds: float) -> Timer:
    times = Timer(Signals(), Progress(), "", sample)
    times.seconds = list(seconds)
    return times


def test_batches_come_by_size() -> None:
    ordered = batches([3, 4, 5, 1], [1, 2], [0])
    assert ordered.rows == [[1, 2], [0], [3, 4, 5, 1]]
    assert ordered.longest.tolist() == [2, 9, 5]
    assert ordered.tokens.tolist() == [4, 9, 20]
    assert list(ordered) == ordered.rows


def test_a_ranks_share_of_each_batch() -> None:
    shared = batches([1, 2], [3, 4, 5, 1], [0], world=2)
    assert shared.rows == [[1], [0], [3, 5]] or sorted(map(len, shared.rows)) == [1, 1, 2]
    assert shared.tokens.tolist() == [1, 9, 10]


def test_a_sample_begins_with_single_texts_and_the_heaviest_batches() -> None:
    many_short = batches([1, 2] * 10, [0])
    sample = many_short.sample()
    # 40 tokens against 9; 80 pairs of tokens against 81
    assert sample.rows[:5] == [[0], [0], [0], [0], [1, 2] * 10]
    assert sorted(map(len, sample.rows[5:])) == [1, 20], "and all sizes"
    assert batches([1, 2], [3, 0], [2, 3, 2, 3]).sample().rows[:3] == [[1], [1], [0]], "the longest is not the first"
    assert len(batches(*([row] for row in [0, 1, 2, 3, 4, 5] * 10)).sample()) == 5 + dry_run.STEPS


def test_a_sample_ends_where_the_next_batch_would_take_too_long() -> None:
    sample = batches([1], [2, 3, 4, 5] * 20).sample()
    fewest, most, next_one = sample.tokens[[0, 2, 3]]
    slope = LONGEST / (next_one - fewest)
    timer(sample, 0.0, 1.0, 1.0 + slope * (most - fewest))  # and LONGEST more than a second for the next batch
    assert len(list(sample)) == 3
    timer(sample, 0.0, LONGEST / 100, LONGEST / 100)
    assert len(list(sample)) == len(sample), "what a step takes without a token is not taken for each"
    timer(sample, SECONDS + 1, LONGEST / 1000, LONGEST / 1000)
    assert len(list(sample)) == len(sample), "the first batch pays for the start"
    timer(sample, 0.0, 0.0, SECONDS + 1)
    assert len(list(sample)) == 3


def test_expected_seconds() -> None:
    sample = batches([1], [2], [3], [0]).sample()
    assert sample.tokens[:5].tolist() == [1, 1, 9, 9, 9]
    complete = timer(sample, 5.0, 1.0, 8.0, 9.0, 9.0, *(2.0 * sample.tokens[5:]))
    assert complete.tried_heaviest
    assert complete.expected(np.array([3, 10])) == pytest.approx([6.0, 20.0])
    cut = timer(sample, 5.0, 1.0, 2.0)  # 7/8 of a second and an eighth a token
    assert not cut.tried_heaviest
    assert cut.expected(np.array([1, 17, 80])) == pytest.approx([1.0, 3.0, 10.875])
    equal = timer(batches([0], [0]).sample(), 5.0, 1.0, 3.0)
    assert equal.expected(18) == pytest.approx(6.0), "texts of one length have no line"
