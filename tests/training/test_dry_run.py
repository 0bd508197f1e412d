"""What is printed of a training before it begins, and which of its batches are timed."""

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
from sentattn.training import dry_run
from sentattn.training.dry_run import check


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings_of(words: list[str]) -> Settings:
    return read_request(words).settings


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed of the tiny training; nothing is written."""
    folder = tmp_path_factory.mktemp("check")
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        check(settings_of(tiny()), runs=3)
    assert list(folder.iterdir()) == []
    return out.getvalue()


def test_data_parts_steps_and_disk_are_printed(printed: str) -> None:
    assert "demo: 200 train, 200 val, 200 test rows" in printed
    for part in ("embedding", "encoder", "attention", "pooling", "head"):
        assert re.search(rf"model\.{part} .*\[20, ", printed), "with the shapes of a batch of 20"
    assert re.search(r"^Steps of 10 an epoch: ([\d.]+ s for 20 x \d+ tokens(, |; )){3}[\d.]+ [MG]B", printed, re.M)
    assert re.search(r"^Disk: [\d.]+ kB .*; [\d.]+ [GT]B free", printed, re.M)


def test_a_step_may_be_several_batches(capsys: pytest.CaptureFixture[str]) -> None:
    check(settings_of(tiny("trainer.accumulate_grad_batches=3")))
    assert re.search(r"^Steps of 4 an epoch, each of 3 batches; a batch: ", capsys.readouterr().out, re.M)


def test_devices_share_each_batch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 2)
    check(settings_of(tiny("trainer=ddp", "trainer.devices=2", "trainer.num_nodes=2")))
    assert "Steps of 10 an epoch: " in (printed := capsys.readouterr().out)
    assert printed.count("s for 5 x ") == 3  # of 20


def test_more_processes_than_cores_are_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 2)
    settings = settings_of(tiny("trainer.devices=24", "data=table", "data.train=missing.csv"))
    assert refused(lambda: check(settings)) == [("trainer.devices", "resources")]


def test_timed_steps_are_of_the_average_and_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    forward = Words.forward

    def count(self: Words, tokens_BL: torch.Tensor, mask_BL: torch.Tensor) -> Any:
        if self.training:
            sizes.append(tokens_BL.numel())
        return forward(self, tokens_BL, mask_BL)

    monkeypatch.setattr(Words, "forward", count)
    check(settings_of(tiny()))
    average, largest, again = sizes
    assert average == again < largest


def test_the_steps_are_compiled_after_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a summary has called, torch never compiles afterwards."""
    order: list[str] = []
    summary = dry_run.ModelSummary
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: order.append("compiled"))
    monkeypatch.setattr(
        dry_run, "ModelSummary", lambda *args, **rest: order.append("summary") or summary(*args, **rest)
    )
    check(settings_of(tiny("compile=true")))
    assert order == ["summary", "compiled"]


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


@pytest.mark.parametrize("model", ["transformer", "mean"])
def test_other_variants(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(settings_of([f"model={model}", "data.limit=100", "trainer.accelerator=cpu", "test=false"]))
    assert re.search(r"model\.encoder .*\[64, \d+, \d+\]", capsys.readouterr().out)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def matched(encoder: Path, trained: int, capsys: pytest.CaptureFixture[str], *settings: str) -> str:
    """Returns the line on the width of the head that matches a run with so many trained parameters."""
    other = Path("other")
    other.mkdir()
    (other / "config.yaml").write_text("{}")
    (other / "result.json").write_text(json.dumps({"format": 2, "parameters": {"trainable": trained}}))
    named = ["model=pretrained", "model/attention=uniform", f"model.embedding.name={encoder}"]
    short = ["data.limit=60", "data.max_length=40", "data.cache_dir=cache", "trainer.accelerator=cpu", "check=true"]
    request = read_request([*named, *short, "match_parameters=other", *settings])
    check(request.settings, match_parameters=request.match_parameters)
    [line] = [line for line in capsys.readouterr().out.splitlines() if "match_parameters" in line]
    return line


@pytest.mark.parametrize(
    ("settings", "trained", "width", "total"),
    [
        # LayerNorm 2 x 16, and a head (16 + 1) w + (w + 1) 2 on 2 classes, or (16 + 1) 2 without hidden layer
        ([], 66, "head.width=null", 66),
        (["model.head.width=7"], 1000, "head.width=51", 32 + 19 * 51 + 2),
        # LayerNorm 2 x 16, a layer on each token (16 + 1) w, and the head (w + 1) 2
        (["model/encoder=tokenwise", "model.head.width=null"], 1000, "encoder.width=51", 32 + 19 * 51 + 2),
    ],
)
def test_the_width_that_matches_the_parameters_of_a_run(
    encoder: Path, capsys: pytest.CaptureFixture[str], settings: list[str], trained: int, width: str, total: int
) -> None:
    assert matched(encoder, trained, capsys, *settings).startswith(f"model.{width}: {total:,} ")
    assert abs(total / trained - 1) < 0.02


@pytest.mark.parametrize(("trained", "kind"), [(40, "conflict"), (75, "conflict"), (0, "missing")])
def test_no_width_matches(encoder: Path, capsys: pytest.CaptureFixture[str], trained: int, kind: str) -> None:
    assert refused(lambda: matched(encoder, trained, capsys)) == [("match_parameters", kind)]
