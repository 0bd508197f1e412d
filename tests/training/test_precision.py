"""Which precision a device computes in: what `auto` is, what is hashed and stored, and what is refused."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from refusals import assert_refused, kinds
from tiny import tiny

from sentattn import fit, train
from sentattn.config.compose import compose
from sentattn.config.hashing import setting_hash
from sentattn.config.request import read_request
from sentattn.distributed import devices
from sentattn.distributed.devices import gpu_has_bfloat16, resolve_precision
from sentattn.evaluate import main as evaluate
from sentattn.run import Run, yaml_text
from sentattn.training.resume import find_finished, identity

WITHOUT_LSTM = "model=mean"


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    gpu_has_bfloat16.cache_clear()


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, *capabilities: int) -> None:
    """Makes torch see GPUs with these major numbers."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: bool(capabilities))
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda i: SimpleNamespace(major=capabilities[i]))


def resolved(*words: str) -> str:
    return str(resolve_precision(compose(list(words))["trainer"])["precision"])


@pytest.mark.parametrize(
    ("capabilities", "words", "expected"),
    [
        ((), (), "32-true"),
        ((7,), (), "32-true"),
        ((8,), (), "bf16-mixed"),
        ((9,), ("trainer.accelerator=gpu",), "bf16-mixed"),
        ((9,), ("trainer.accelerator=cpu",), "32-true"),
        ((7, 9), ("trainer.devices=[1]",), "bf16-mixed"),
        ((9, 7), ("trainer.devices=[1]",), "32-true"),
        ((9,), ("trainer.precision=32-true",), "32-true"),
        ((), ("trainer.precision=bf16-mixed",), "bf16-mixed"),
    ],
)
def test_auto_by_device(
    monkeypatch: pytest.MonkeyPatch, capabilities: tuple[int, ...], words: tuple[str, ...], expected: str
) -> None:
    pretend_gpus(monkeypatch, *capabilities)
    assert resolved(*words) == expected


def test_amds_gpus_have_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpus(monkeypatch, 1)
    monkeypatch.setattr("torch.version.hip", "6.2")
    assert resolved() == "bf16-mixed"


def test_cuda_is_initialized_in_another_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpus(monkeypatch, 7)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    asked: list[list[str]] = []

    def answer(command: list[str], **_: Any) -> Any:
        asked.append(command)
        return SimpleNamespace(stdout=b"True\n")

    monkeypatch.setattr(devices.subprocess, "run", answer)
    assert resolved() == resolved() == "bf16-mixed"
    assert len(asked) == 1  # once for all runs of a grid
    compile(asked[0][-1], "", "exec")


def test_precision_of_a_run_on_a_cpu(tiny_run: Run) -> None:
    assert tiny_run.settings["trainer"]["precision"] == "32-true"
    explicit = read_request(tiny("trainer.precision=32-true")).settings
    assert tiny_run.result["setting"] == setting_hash(explicit)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with bfloat16, which is the processor in truth."""
    monkeypatch.setattr(devices, "is_on_gpu", lambda trainer: True)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda i: SimpleNamespace(major=9))


def words(folder: Path, *more: str) -> list[str]:
    few = tiny("trainer.max_epochs=1", f"output_dir={folder}", *more)
    return [WITHOUT_LSTM, *(word for word in few if not word.startswith(("model.encoder", "model.attention")))]


@pytest.mark.usefixtures("on_gpu")
def test_precision_of_a_run_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(words(tmp_path))
    assert "bf16-mixed" in capsys.readouterr().out
    assert run.settings["trainer"]["precision"] == "bf16-mixed"
    explicit = read_request(words(tmp_path, "trainer.precision=bf16-mixed")).settings
    assert run.result["setting"] == setting_hash(explicit)
    auto = read_request(words(tmp_path)).settings
    assert identity(auto) == identity(explicit)
    assert find_finished(auto) == run.path
    assert find_finished(read_request(words(tmp_path, "trainer.precision=32-true")).settings) is None
    # On a machine without a GPU, the same words are another setting; the run can be read, and resumed as it began.
    monkeypatch.setattr(devices, "is_on_gpu", lambda trainer: False)
    assert find_finished(auto) is None
    assert read_request([f"from={run.path}"]).settings["trainer"]["precision"] == "bf16-mixed"
    assert evaluate([str(run.path)]) == 0
    (run.path / "result.json").unlink()
    resumed = fit([f"resume={run.path}"])
    assert (resumed.result["status"], resumed.settings["trainer"]["precision"]) == ("finished", "bf16-mixed")


@pytest.mark.usefixtures("on_gpu")
def test_auto_is_shown_as_typed_and_resolved_by_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--cfg", "job"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["trainer"]["precision"] == "auto"
    assert train.main([*words(Path("unused")), "check=true"]) == 0
    assert "bf16-mixed" in capsys.readouterr().out


@pytest.mark.parametrize("more", [[], ["check=true"]])
def test_float16_is_refused_on_a_cpu(tmp_path: Path, more: list[str]) -> None:
    half = ["trainer.precision=16-mixed", "optimizer.fused=false"]
    typed = tiny(*half, f"output_dir={tmp_path / 'outputs'}", *more)
    assert_refused(
        lambda: inspect.unwrap(train.main)(typed), "trainer.precision", "resources", "trainer.precision=bf16-mixed"
    )
    assert not (tmp_path / "outputs").exists()


def refuse(*_: object) -> None:
    raise RuntimeError("could not create a primitive descriptor for the LSTM forward propagation primitive")


@pytest.mark.parametrize("more", [[], ["check=true"]])
def test_an_lstm_in_bfloat16_is_refused_where_torch_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setattr("torch.nn.LSTM.forward", refuse)
    command = tiny("trainer.precision=bf16-mixed", f"output_dir={tmp_path / 'outputs'}", *more)
    assert kinds(command, inspect.unwrap(train.main)) == [("trainer.precision", "resources")]


def test_a_run_in_bfloat16_is_evaluated_on_a_cpu_in_float32(tiny_run: Run, run_copy: Path, tmp_path: Path) -> None:
    settings = tiny_run.settings
    mixed = {**settings, "trainer": {**settings["trainer"], "precision": "bf16-mixed"}}
    (run_copy / "config.yaml").write_text(yaml_text(mixed))
    assert evaluate([str(run_copy), f"output={tmp_path / 'metrics.json'}"]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["test/loss"] == pytest.approx(tiny_run.metrics["test/loss"], rel=1e-6)
