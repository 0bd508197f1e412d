"""Settings of precision and speed take effect, memory is measured, versions are recorded."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from refusals import refused
from tiny import has_lstm_in_bfloat16, tiny

from sentattn import build, fit
from sentattn.config.compose import compose
from sentattn.config.hashing import setting_hash
from sentattn.config.schema import Settings
from sentattn.console import Progress
from sentattn.data.batching import Batch
from sentattn.data.datamodule import TextData
from sentattn.models.classifier import TextClassifier
from sentattn.run import Run
from sentattn.training import environment
from sentattn.training.lit_module import LitClassifier
from sentattn.training.prepare import set_up


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    tf32 = torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("precision", "allowed"), [("highest", False), ("medium", True)])
def test_threads_and_precision_are_set(tiny_run: Run, precision: str, *, allowed: bool) -> None:
    """CuDNN uses TF32 as products do."""
    settings = Settings.of({**tiny_run.settings, "threads": 2, "matmul_precision": precision})
    with Progress() as progress:
        set_up(settings, progress)
    assert torch.get_num_threads() == 2
    assert torch.get_float32_matmul_precision() == precision
    assert torch.backends.cudnn.allow_tf32 is allowed
    assert (setting_hash(settings) == setting_hash(replace(settings, matmul_precision="highest"))) is not allowed


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_bfloat16(tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    seen: list[torch.dtype] = []
    original = LitClassifier.compute_loss

    def noting(self: LitClassifier, batch: Batch) -> Any:
        classified, loss = original(self, batch)
        seen.append(classified.logits_BC.dtype)
        return classified, loss

    if precision == "bf16-mixed" and not has_lstm_in_bfloat16():
        pytest.skip("this processor has no LSTM in bfloat16")
    monkeypatch.setattr(LitClassifier, "compute_loss", noting)
    run = fit(tiny(f"trainer.precision={precision}", f"output_dir={tmp_path}"))
    assert set(seen) == {torch.bfloat16}
    # Three digits of bfloat16 move a loss near ln 2 = 0.69 by less than this.
    assert run.metrics["val/loss"] == pytest.approx(tiny_run.metrics["val/loss"], abs=0.02)
    assert run.result["setting"] != tiny_run.result["setting"]


def test_deterministic_algorithms_are_enabled(tiny_run: Run, tmp_path: Path) -> None:
    run = fit(tiny("trainer.deterministic=true", f"output_dir={tmp_path}"))
    assert torch.are_deterministic_algorithms_enabled()
    assert run.metrics == tiny_run.metrics


def test_accumulated_gradients_are_those_of_a_whole_batch(tmp_path: Path) -> None:
    # Without dropout, and with a plain step, the mean of the gradients of two halves is that of the whole. Windows of
    # like lengths would be cut otherwise for halves, so rows share a batch at random.
    plain = [
        *("model.embedding.dropout=0", "model.embedding.word_dropout=0", "model.head.dropout=0"),
        *("model.encoder.dropout=0", "model.attention.dropout=0", "ema_decay=null"),
        *("optimizer=sgd", "scheduler=constant", "trainer.gradient_clip_val=null", "trainer.max_epochs=1"),
        "data.batching=random",
    ]
    whole = fit(tiny(*plain, f"output_dir={tmp_path / 'whole'}"))
    words = [*plain, "data.batch_size=10"]
    halves = fit(tiny(*words, "trainer.accumulate_grad_batches=2", f"output_dir={tmp_path / 'halves'}"))
    for name in ("val/loss", "test/loss", "train/loss"):
        assert halves.metrics[name] == pytest.approx(whole.metrics[name], abs=1e-5)
    # A step at the end of an epoch has fewer.
    words += ["trainer.limit_train_batches=2", f"output_dir={tmp_path}"]
    few, more = (fit(tiny(*words, f"trainer.accumulate_grad_batches={number}")) for number in (2, 5))
    for name in ("val/loss", "test/loss", "train/loss", "train/gradient_norm"):
        assert more.metrics[name] == pytest.approx(few.metrics[name], abs=1e-6)


def test_models_are_compiled_for_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr("torch.nn.Module.compile", lambda self, **options: asked.append(options))
    fit(tiny("compile=true", "trainer.max_epochs=1", "test=false", f"output_dir={tmp_path}"))
    assert asked == [{"dynamic": True}]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["structured", "transformer", "relation", "cnn"])
def test_a_compiled_model_has_the_same_predictions(tmp_path: Path, model: str) -> None:
    sizes = ["logger=none", "data.limit=200", "data.batch_size=20", "trainer.max_epochs=2", "trainer.accelerator=cpu"]
    # Compiled, dropout draws other numbers.
    sizes += [f"model.{part}.dropout=0" for part in ("embedding", "encoder", "head")]
    sizes += ["model.embedding.word_dropout=0"]
    plain, compiled = (
        fit([f"model={model}", "model.embedding.size=8", *sizes, f"compile={word}", f"output_dir={tmp_path / word}"])
        for word in ("false", "true")
    )
    assert compiled.result["setting"] == plain.result["setting"]
    assert math.isfinite(compiled.metrics["train/loss"])
    torch._dynamo.reset()
    text = ["Slow at first, but the food was wonderful."]
    [one], [other] = plain.predict(text), compiled.predict(text)
    assert other.probabilities == pytest.approx(one.probabilities, abs=1e-3)


def mean_with_data() -> tuple[TextClassifier, TextData]:
    settings = compose(["model=mean", "data.limit=200", "data.batch_size=20", "logger=none"])
    data = build.build_data(settings)
    with Progress() as progress:
        data.prepare(progress)
    model = build.build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
    return model, data


@pytest.mark.parametrize(("seconds", "rows"), [(0.01, 20), (0.3, 6), (3.0, 1)])
def test_latency_of_a_slow_model_is_measured_on_fewer_rows(
    seconds: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = mean_with_data()
    timed = list[int]()

    class SlowTimer:
        def __init__(self, statement: str, *, globals: dict[str, Any], num_threads: int) -> None:  # noqa: A002
            timed.append(len(globals["tokens_BL"]))

        def blocked_autorange(self, *, min_run_time: float) -> Any:
            return SimpleNamespace(median=seconds)

    monkeypatch.setattr("torch.utils.benchmark.Timer", SlowTimer)
    times = environment.latency_ms(model, data, torch.device("cpu"))
    assert times == pytest.approx({"one": 1000 * seconds, "batch": 1000 * seconds * 20 / rows})
    assert timed == [1, rows]


def test_latency_is_measured_on_the_device_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning's teardown moves the model to the CPU; here the device of the training is the one without values."""
    model, data = mean_with_data()
    seen, built = list[torch.Tensor](), list[int]()
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    split = type(data.split("val"))
    build_batch = split.__getitem__
    monkeypatch.setattr(split, "__getitem__", lambda self, rows: built.append(len(rows)) or build_batch(self, rows))
    times = environment.latency_ms(model, data, torch.device("meta"))
    assert {tokens.device.type for tokens in seen} == {"meta"}
    assert {len(tokens) for tokens in seen} == {1, 20}
    assert built == [20]
    assert min(times.values()) > 0


def make_repository(folder: Path, *, track: bool) -> Path:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)

    file = folder / "environment.py"
    file.write_text("x = 1\n")
    git("init")
    if track:
        git("add", "environment.py")
    git("commit", "--allow-empty", "-m", "first")
    return file


def test_revision_is_marked_where_the_code_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_repository(tmp_path, track=True)
    monkeypatch.setattr(environment, "__file__", str(file))
    clean = environment.git_revision()
    assert clean is not None
    assert len(clean) == 40
    file.write_text("x = 2\n")
    assert environment.git_revision() == clean + "+"


def test_revision_of_the_project_one_stands_in(tmp_path: Path) -> None:
    assert environment.git_revision(tmp_path) is None
    make_repository(tmp_path, track=True)
    (folder := tmp_path / "experiments").mkdir()
    assert len(environment.git_revision(folder) or "") == 40


def test_no_revision_of_another_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_repository(tmp_path, track=False)
    monkeypatch.setattr(environment, "__file__", str(file))
    assert environment.git_revision() is None


def test_peak_memory_counts_what_was_freed() -> None:
    before = environment.peak_memory_bytes()
    assert before > 50e6
    torch.ones(int(before), dtype=torch.uint8)
    assert environment.peak_memory_bytes() > 1.5 * before


@environment.explained_torch_errors()
def run_out_of_the_memory_of_a_gpu() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


def test_a_gpu_without_enough_memory_names_the_batch_size() -> None:
    assert refused(run_out_of_the_memory_of_a_gpu) == [("data.batch_size", "resources")]


def test_another_runtime_error_is_raised_unchanged() -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError) as caught, environment.explained_torch_errors():
        raise error
    assert caught.value is error
