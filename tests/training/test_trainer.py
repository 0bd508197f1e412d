"""Weight decay reaches the parameters that it is for; Lightning's own settings do what they say, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from refusals import refused
from tiny import tiny

from sentattn import fit
from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.config.request import read_request
from sentattn.models.classifier import TextClassifier
from sentattn.run import Run
from sentattn.training.dry_run import check
from sentattn.training.lit_module import build_optimizer


def model(*settings: str) -> TextClassifier:
    return build_model(compose(["model=structured", *settings])["model"], num_embeddings=20, classes=2)


def test_weight_decay_on_attention_and_head() -> None:
    plain = model()
    before = {name: p.detach().clone() for name, p in plain.named_parameters()}
    optimizer = torch.optim.SGD(plain.parameter_groups("attention_and_head", ()), lr=0.5, weight_decay=0.1)
    for parameter in plain.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    weights = {"attention.hidden.weight", "attention.scores.weight", "head.layers.1.weight"}
    assert weights <= before.keys()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (0.95 if name in weights else 1.0))


def test_the_keras_example_has_keras_initialization_and_eps() -> None:
    settings = compose(["experiment=keras_imdb"])
    keras = build_model(settings["model"], num_embeddings=20, classes=2)
    assert {group["eps"] for group in build_optimizer(settings, keras).param_groups} == {1e-7}
    layers = [layer for layer in keras.modules() if isinstance(layer, torch.nn.Linear)]
    assert len(layers) == 8  # queries, keys, values and their outputs, two of the network, two of the head
    for layer in layers:
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.8 * bound < float(layer.weight.detach().abs().max()) <= bound * (1 + 1e-6)
        assert not layer.bias.any()


def test_a_share_of_less_than_a_batch_is_refused(tmp_path: Path) -> None:
    words = tiny("trainer.limit_train_batches=0.09", f"output_dir={tmp_path}")  # of ten batches
    for train in (lambda: fit(words), lambda: check(read_request(words).settings)):
        assert refused(train) == [("trainer.limit_train_batches", "range")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("limit", "steps"), [("0.25", 2), ("1", 1), ("1.0", 10)])
def test_limit_train_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, steps: int) -> None:
    taken: list[int] = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda *args, **kwargs: taken.append(1) or step(*args, **kwargs))
    fit(tiny(f"trainer.limit_train_batches={limit}", "trainer.max_epochs=1", "test=false", f"output_dir={tmp_path}"))
    assert len(taken) == steps


def test_trainer_settings_without_effect_on_the_result(
    tmp_path: Path, tiny_run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ["num_sanity_val_steps=2", "log_every_n_steps=1", "detect_anomaly=true", "inference_mode=false"]
    settings.append("profiler=simple")
    run = fit(tiny(*(f"trainer.{setting}" for setting in settings), f"output_dir={tmp_path}"))
    assert "optimizer_step" in caplog.text, "the profiler is printed"
    assert run.result["setting"] == tiny_run.result["setting"]
    speed = "train/tokens_per_second"
    assert {**run.metrics, speed: 0.0} == {**tiny_run.metrics, speed: 0.0}
