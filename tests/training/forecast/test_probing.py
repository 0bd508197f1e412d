"""A few steps of a training: which batches, and what is counted of them."""

from __future__ import annotations

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from tiny import tiny
from torch import Tensor, nn

from sentattn.config.compose import compose
from sentattn.data.batching import Batch
from sentattn.progress import Progress
from sentattn.training import costs
from sentattn.training.fit import Prepared, prepare
from sentattn.training.forecast.probing import Probe, measure_step, time_steps, time_validation
from sentattn.training.forecast.sizing import Order
from sentattn.training.signals import Signals


class Batches(list[Batch]):
    """A list that Lightning takes for a loader and not for several."""


class Squares(LightningModule):
    """The sum of squares of a product of known shape."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 5, bias=False)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        product_B5: Tensor = self.layer(batch.tokens_BL.float())
        return (product_B5 * product_B5).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def test_what_the_backward_pass_needs_is_counted() -> None:
    empty = torch.empty(0)
    batches = Batches(Batch(torch.ones(rows, 3, dtype=torch.int64), empty, empty, empty) for rows in (7, 11, 2))
    probe = Probe(Signals(), Progress(), "", counted=2)
    settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "max_epochs": 1}
    trainer = Trainer(accelerator="cpu", callbacks=[probe], enable_model_summary=False, **settings)  # type: ignore[arg-type]
    trainer.fit(Squares(), train_dataloaders=batches)
    # The tokens for the gradient of the layer, and the product, kept once, for that of the square; the weight is a
    # parameter and so counted as such.
    assert probe.activations == [4 * (rows * 3 + rows * 5) for rows in (7, 11)]
    assert len(probe.seconds) == 3
    assert probe.state == 4 * 3 * 5  # the momentum of each weight


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(compose(tiny()), Progress())


def test_a_step_by_its_parts(prepared: Prepared) -> None:
    settings = compose(tiny())
    order = Order(prepared.data.train_dataloader(), prepared.data.split("train").lengths)
    step = measure_step(settings, prepared.lit, order, Signals(), Progress())
    parameters = [p.numel() for p in prepared.lit.parameters()]
    assert step.weights == step.gradients == step.average == 4 * sum(parameters)
    assert step.optimizer == 2 * step.weights + 4 * len(parameters)  # Adam's two moments, and its count of steps
    # Of each text at least its vectors and the states of both directions are kept.
    assert step.activations > 4 * int(order.sizes.max()) * (8 + 2 * 4)
    assert step.peak > step.weights + step.gradients + step.optimizer + step.activations
    assert step.device.type == "cpu"

    timed = time_steps(settings, prepared.lit, order, step._replace(seconds=1e9), Signals(), Progress())
    assert sorted(timed) == sorted(order.spread(4))
    assert all(seconds > 0 for seconds in timed.values())

    validation = Order(prepared.data.batches("val"), prepared.data.split("val").lengths)
    timed = time_validation(settings, prepared.lit, validation, Signals(), Progress())
    assert sorted(timed) == sorted(validation.spread(4))


def test_without_average_and_without_momentum_there_is_no_more_than_weights_and_gradients(prepared: Prepared) -> None:
    typed = ["ema_decay=null", "optimizer=sgd", "optimizer.momentum=0", "model.embedding.frozen=true"]
    settings = compose(tiny(*typed))
    plain = prepare(settings, Progress())
    order = Order(plain.data.train_dataloader(), plain.data.split("train").lengths)
    step = measure_step(settings, plain.lit, order, Signals(), Progress())
    assert (step.average, step.optimizer) == (0, 0)
    assert step.weights - step.gradients == 4 * 8 * len(plain.data.tokenizer)
    assert step.gradients == 4 * costs.parameters(plain.lit.model)["trainable"]
