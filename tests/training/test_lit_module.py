"""Metrics of an epoch, and the norm of the gradients before they are clipped."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray
from pytorch_lightning import Callback, LightningModule, Trainer
from refusals import refused
from runs_alike import rows
from sklearn.metrics import accuracy_score, f1_score
from tiny import tiny
from torch import nn

from sentattn import fit
from sentattn.config.request import read_request
from sentattn.data.batching import Batch
from sentattn.prediction.model import LoadedRun
from sentattn.run import yaml_text
from sentattn.training import lit_module
from sentattn.training.evaluate import open_data
from sentattn.training.fit import fit as train
from sentattn.training.lit_module import EpochMeans, LitClassifier

CLASS_WEIGHTS = np.array([1.0, 7.0])


def loss_by_numpy(batches: list[tuple[NDArray[Any], ...]], reduction: str) -> float:
    """The cross entropy of all rows, weighted by class, + 0.3 x the mean over the rows of |A A^T - I|^2."""
    total = weight = penalty = rows = 0.0
    for logits_BC, labels_B, weights_BRL in batches:
        log_p = logits_BC - np.log(np.exp(logits_BC).sum(axis=1, keepdims=True))
        total -= (CLASS_WEIGHTS[labels_B] * log_p[np.arange(len(labels_B)), labels_B]).sum()
        weight += CLASS_WEIGHTS[labels_B].sum()
        rows += len(labels_B)
        overlap_BRR = weights_BRL @ weights_BRL.swapaxes(1, 2) - np.eye(weights_BRL.shape[1])
        penalty += np.square(overlap_BRR).sum()
    return float(total / (weight if reduction == "weighted" else rows) + 0.3 * penalty / rows)


@pytest.mark.parametrize("reduction", ["weighted", "mean"])
def test_loss_of_an_epoch_by_numpy_in_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reduction: str) -> None:
    seen: dict[bool, list[tuple[NDArray[Any], ...]]] = {True: [], False: []}
    original = LitClassifier.compute_loss

    def spying(self: LitClassifier, batch: Batch) -> Any:
        classified, parts = original(self, batch)
        tensors = (classified.logits_BC, batch.labels_B, classified.attended.weights_BRL)
        seen[self.training].append(tuple(tensor.detach().numpy().copy() for tensor in tensors))
        return classified, parts

    monkeypatch.setattr(LitClassifier, "compute_loss", spying)
    run = fit(
        tiny(
            *(f"output_dir={tmp_path}", "test=false", "trainer.max_epochs=1", "trainer.precision=64-true"),
            *("loss.class_weights=[1,7]", f"loss.class_weight_reduction={reduction}", "loss.label_smoothing=0"),
            *("loss.penalty=0.3", "data.batch_size=17"),
        )
    )
    [row] = rows(run.path)
    of_validation = seen[False][: len(seen[False]) // 2]  # the best epoch is evaluated once more
    assert seen[True][0][0].dtype == np.float64
    assert row["train/loss"] == pytest.approx(loss_by_numpy(seen[True], reduction), rel=1e-12)
    assert row["val/loss"] == pytest.approx(loss_by_numpy(of_validation, reduction), rel=1e-12)
    assert run.metrics["val/loss"] == pytest.approx(row["val/loss"], rel=1e-12)


def test_gradient_norm_is_that_before_clipping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    clip = nn.utils.clip_grads_with_norm_

    def spying(parameters: list[nn.Parameter], *args: Any) -> None:
        squares = [np.square(p.grad.double().numpy()).sum() for p in parameters if p.grad is not None]
        lengths.append(float(np.sqrt(sum(squares))))
        clip(parameters, *args)

    monkeypatch.setattr(lit_module, "clip_grads_with_norm_", spying)
    run = fit(tiny(f"output_dir={tmp_path}", "trainer.gradient_clip_val=0.001", "test=false"))
    assert len(lengths) == 20
    assert [row["train/gradient_norm"] for row in rows(run.path)] == pytest.approx(
        [np.mean(lengths[:10]), np.mean(lengths[10:])], rel=1e-5
    )


class _Lit(LitClassifier):
    def __init__(self, gradient: list[float]) -> None:
        LightningModule.__init__(self)
        self.weight = nn.Parameter(torch.zeros(len(gradient)))
        self.weight.grad = torch.tensor(gradient)
        self.means, self._accumulated = EpochMeans(), 1


class _Scaler:
    def get_scale(self) -> float:
        return 4.0


def norms(gradients: list[list[float]], *, scaled: bool, fused: bool = False) -> dict[str, float]:
    """The mean over steps with these gradients."""
    trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", enable_progress_bar=False)
    if scaled:
        trainer.precision_plugin.scaler = _Scaler()  # type: ignore[attr-defined]
    lit = _Lit([0.0, 0.0])
    lit.trainer = trainer
    optimizer = torch.optim.SGD(lit.parameters(), fused=fused)
    for gradient in gradients:
        lit.weight.grad = torch.tensor(gradient)
        lit.configure_gradient_clipping(optimizer)
    return lit.means.compute()


def test_skipped_steps_of_float16_do_not_count() -> None:
    gradients = [[3.0, 4.0], [float("inf"), 1.0], [6.0, 8.0]]
    assert norms(gradients, scaled=True) == {"train/gradient_norm": 7.5}
    assert norms(gradients, scaled=False) == {"train/gradient_norm": float("inf")}


def test_gradients_of_a_fused_optimizer_are_unscaled() -> None:
    assert norms([[12.0, 16.0]], scaled=True, fused=True) == {"train/gradient_norm": 5.0}


@pytest.mark.parametrize(("algorithm", "clipped"), [("norm", [0.6, 0.8]), ("value", [1.0, 1.0])])
def test_clipping_by_hand(algorithm: str, clipped: list[float]) -> None:
    lit = _Lit([3.0, 4.0])
    lit.trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", enable_progress_bar=False)
    lit.configure_gradient_clipping(torch.optim.SGD(lit.parameters()), 1.0, algorithm)
    assert lit.weight.grad is not None
    assert lit.weight.grad.tolist() == pytest.approx(clipped)
    assert lit.means.compute() == {"train/gradient_norm": 5.0}


class Rates(Callback):
    """Notes the learning rate of each step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self.rates.append(optimizer.param_groups[0]["lr"])


def test_metrics_of_the_training_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[list[int]] = []
    predicted: list[list[int]] = []
    compute_loss = LitClassifier.compute_loss

    def noting(self: LitClassifier, batch: Any) -> Any:
        classified, loss = compute_loss(self, batch)
        if self.training:
            labels.append(batch.labels_B.tolist())
            predicted.append(classified.logits_BC.argmax(dim=-1).tolist())
        return classified, loss

    monkeypatch.setattr(LitClassifier, "compute_loss", noting)
    settings = tiny(f"output_dir={tmp_path}", "test=false", "optimizer.lr=0.05", "trainer.accumulate_grad_batches=2")
    rates = Rates()
    run = train(read_request(settings).settings, callbacks=[rates])
    epochs = rows(run.path)
    assert len(labels) == 20, "one pass an epoch"
    for row, start in zip(epochs, (0, 10), strict=True):
        true, guessed = (list(chain(*batches[start : start + 10])) for batches in (labels, predicted))
        assert row["train/accuracy"] == pytest.approx(accuracy_score(true, guessed), abs=1e-12)
        assert row["train/f1_weighted"] == pytest.approx(f1_score(true, guessed, average="weighted"), abs=1e-12)
    assert [row["train/lr"] for row in epochs] == rates.rates[4::5]
    assert run.metrics["train/accuracy"] == epochs[run.result["best_epoch"] - 1]["train/accuracy"]


def test_the_module_of_a_run_has_its_weights_and_settings(tiny_run: LoadedRun) -> None:
    module = LitClassifier.from_run(tiny_run)
    weights = tiny_run.classifier.model.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in module.model.state_dict().items())
    assert module.model is not tiny_run.classifier.model
    assert all(part.training for part in module.modules())
    assert (module.classes, module.ordered) == (2, False)
    (group,) = module.optimizer(module.model).param_groups
    assert group["lr"] == tiny_run.settings["optimizer"]["lr"]
    assert LitClassifier.from_run(str(tiny_run.path)).model.name == module.model.name


def test_the_module_of_a_run_is_trained_by_any_trainer(tiny_run: LoadedRun, tmp_path: Path) -> None:
    module, data = LitClassifier.from_run(tiny_run), open_data(tiny_run)
    options = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = Trainer(max_epochs=1, default_root_dir=tmp_path, enable_checkpointing=False, **options)
    [before] = trainer.validate(module, datamodule=data, verbose=False)
    stored = {name: value for name, value in tiny_run.metrics.items() if name in ("val/accuracy", "val/log_loss")}
    assert {name: before[name] for name in stored} == pytest.approx(stored, rel=1e-5)
    trainer.fit(module, datamodule=data)
    metrics = trainer.callback_metrics
    assert metrics["val/log_loss"] != pytest.approx(before["val/log_loss"])
    assert 0 <= metrics["train/accuracy"] <= 1
    assert metrics["train/loss"] > 0
    assert not module.means.compute()


def test_class_weights_of_a_module_are_those_of_its_training(run_copy: Path) -> None:
    files = (run_copy / "config.yaml", run_copy / "model" / "config.yaml")
    settings, model = (yaml.safe_load(file.read_text()) for file in files)
    settings["loss"]["class_weights"] = "balanced"
    model["class_counts"] = {"negative": 30, "positive": 10}
    for file, config in zip(files, (settings, model), strict=True):
        file.write_text(yaml_text(config))
    assert list(LitClassifier.from_run(run_copy).loss.class_weights.values()) == pytest.approx([40 / 60, 40 / 20])


def test_data_with_other_labels_is_refused(tiny_run: LoadedRun, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"word {n},{n % 3}\n" for n in range(60)))
    words = ["data=table", f"data.train={tmp_path / 'rows.csv'}", "data.text=text", "data.label=label"]
    assert refused(lambda: open_data(tiny_run, words)) == [("data.label", "conflict")]
    assert refused(lambda: open_data(tiny_run, ["model=mean"])) == [("model", "unsupported")]


def test_a_module_runs_no_code_of_a_run(run_copy: Path) -> None:
    settings = yaml.safe_load((run_copy / "config.yaml").read_text())
    settings["optimizer"]["_target_"] = "os.system"
    (run_copy / "config.yaml").write_text(yaml_text(settings))
    assert refused(lambda: LitClassifier.from_run(run_copy)) == [("optimizer", "unsafe")]


def test_a_run_without_a_model_has_no_module(run_copy: Path, tmp_path: Path) -> None:
    (run_copy / "model" / "model.safetensors").unlink()
    assert refused(lambda: LitClassifier.from_run(run_copy)) == [("run", "not_found")]
    assert refused(lambda: LitClassifier.from_run(tmp_path / "nowhere")) == [("run", "not_found")]
