from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from sentattn.config import parameters
from sentattn.config.schema import BETTER, FIXED_IN_TRAINING, STRICTER, TOP
from sentattn.config.types import resolve


@pytest.mark.parametrize("ordered", [True, False])
def test_metrics_of_the_objective_are_those_that_are_computed(*, ordered: bool) -> None:
    from sentattn.metrics import classifier_metrics

    measured = set(classifier_metrics(np.eye(3), np.arange(3), ordered=ordered))
    assert measured == set(BETTER) if ordered else measured < set(BETTER)


def test_stricter_and_owned_arguments_exist() -> None:
    trainer = "pytorch_lightning.trainer.trainer.Trainer"
    arguments = parameters.imported(trainer).parameters
    assert set(STRICTER[trainer]) <= set(arguments)
    table = parameters.imported("sentattn.data.datasets.table.Table").parameters
    wide = parameters.imported("sentattn.models.wide.WideNGrams").parameters
    ngrams = parameters.imported("sentattn.models.ngrams.NGrams").parameters
    stopping = parameters.imported("pytorch_lightning.callbacks.early_stopping.EarlyStopping").parameters
    sections = {"trainer": arguments, "data": table, "model.wide": wide, "model.embedding": ngrams}
    sections["callbacks.early_stopping"] = stopping
    sections["optimizer"] = parameters.imported("torch.optim.adam.Adam").parameters
    assert set(FIXED_IN_TRAINING) <= {f"{section}.{name}" for section, names in sections.items() for name in names}


@pytest.mark.parametrize("annotation", [*TOP.values(), *(a for table in STRICTER.values() for a in table.values())])
def test_every_type_is_understood(annotation: Any) -> None:
    assert resolve(annotation) is not Any


def test_metrics_of_the_objective_are_complete() -> None:
    assert resolve(TOP["objective.metric"]) == Literal[tuple(f"val/{metric}" for metric in BETTER)]
