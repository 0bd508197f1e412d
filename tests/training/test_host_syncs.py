"""No step of a training waits for a GPU, and a batch of validation does at most once: counted on a CPU."""

from __future__ import annotations

import pytest
import torch
from host_syncs import Count, CountSteps, counted

from sentattn import console
from sentattn.config.request import read_request
from sentattn.models import dropout, wide
from sentattn.training import fit

SETTINGS = {
    "structured": ["model=structured", "model.encoder.hidden=4"],
    "transformer": ["model=transformer"],
    "mean": ["model=mean"],
    "attended_ngrams": ["experiment=attended_ngrams", "data=demo"],
}


@pytest.fixture(scope="module", params=SETTINGS)
def counts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, CountSteps]:
    """The counts of a training, by what is trained; without progress lines, which read the loss when they are drawn."""
    settings = ["logger=none", "test=false", f"output_dir={tmp_path_factory.mktemp('outputs')}"]
    settings += ["data.limit=160", "data.batch_size=20", "model.embedding.size=8", "trainer.max_epochs=1"]
    steps = CountSteps()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "SECONDS_BETWEEN_LINES", 1e9)
        patch.setattr(dropout, "LEAST", 1.0)  # torch's own, as on a GPU
        patch.setattr(wide, "_sorted", lambda numbers_BG: numbers_BG.sort(dim=1).values)  # the same
        fit.fit(
            read_request([*settings, "trainer.accelerator=cpu", *SETTINGS[request.param]]).settings, callbacks=[steps]
        )
    return request.param, steps


def test_no_step_waits_for_the_gpu(counts: tuple[str, CountSteps]) -> None:
    _, steps = counts
    assert len(steps.steps) == 5
    assert [dict(step.syncs) for step in steps.steps] == [{}] * 5


def test_a_batch_of_validation_waits_at_most_once(counts: tuple[str, CountSteps]) -> None:
    _, steps = counts
    assert len(steps.validation) == 8
    assert all(sum(batch.syncs.values()) <= 1 for batch in steps.validation), steps.validation[0].syncs


def test_operations_of_a_step(counts: tuple[str, CountSteps]) -> None:
    name, steps = counts
    most = {"structured": 200, "transformer": 300, "mean": 120, "attended_ngrams": 340}[name]
    assert all(step.operations.total() < most for step in steps.steps), (
        steps.steps[0].operations.total(),
        steps.steps[0].operations,
    )


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
        lambda x: x.bincount(),
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: torch.tensor(1.0, device=x.device),
    ],
)
def test_operations_that_wait_are_counted(wait: object) -> None:
    assert callable(wait)
    with counted() as count:
        wait(torch.arange(3))
    assert sum(count.syncs.values()) >= 1


def test_operations_that_do_not_wait_are_not_counted() -> None:
    values = torch.arange(3.0)
    with counted() as count:
        (values * 2).sum()
        torch.where(values > 1, values, 0.0)
        torch.nn.functional.one_hot(values.long(), 3)
        values.to(torch.float64)
    assert isinstance(count, Count)
    assert not count.syncs
