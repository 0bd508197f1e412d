"""Metrics of stored predictions as means over seeds, with their errors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as reference

from sentattn.compare.statistics import BLOCKS, CALIBRATED, blocks, estimates
from sentattn.metrics import Floats, calibrated_error, classifier_metrics

RANDOM = np.random.default_rng(0)


def predictions(seeds: int, rows: int, classes: int) -> tuple[Floats, np.ndarray]:
    probabilities = RANDOM.dirichlet(np.ones(classes), (seeds, rows))
    return probabilities, RANDOM.integers(classes, size=rows)


def test_values_are_the_means_over_seeds_of_the_metrics_of_each() -> None:
    probabilities, labels = predictions(3, 300, 4)
    found = estimates(probabilities, labels, None, ordered=True)
    of_seeds = [classifier_metrics(one, labels, ordered=True) for one in probabilities]
    expected = {name: float(np.mean([one[name] for one in of_seeds])) for name in of_seeds[0]}
    assert {name: found[name].value for name in expected} == pytest.approx(expected, rel=1e-12)
    assert set(found) - set(expected) == {CALIBRATED}


def test_a_calibration_error_has_no_interval_and_that_of_a_calibrated_model_beside_it() -> None:
    probabilities, _ = predictions(2, 3000, 3)
    draws = RANDOM.random((3000, 1)) > probabilities[0].cumsum(axis=1)
    found = estimates(probabilities[:1], draws.sum(axis=1), None, ordered=False)  # labels drawn from the probabilities
    error, calibrated = found["calibration_error"], found[CALIBRATED]
    assert np.isnan([error.error, calibrated.error]).all()
    assert calibrated.value == pytest.approx(calibrated_error(probabilities[0].max(axis=1)))
    assert 0.5 < error.value / calibrated.value < 2


def test_errors_have_terms_of_rows_and_seeds() -> None:
    probabilities, labels = predictions(3, 400, 2)
    correct = probabilities.argmax(2) == labels
    added = np.concatenate([correct.mean(0), [1, 1, 0, 0]])  # Agresti and Coull
    rows, seeds = added.var(ddof=1) / 404, correct.mean(1).var(ddof=1) / 3
    found = estimates(probabilities, labels, None, ordered=False)["accuracy"]
    assert found.error == pytest.approx((rows + seeds) ** 0.5, rel=1e-9)
    alone = estimates(probabilities, labels, None, ordered=False, deterministic=True)["accuracy"]
    assert alone.error == pytest.approx(rows**0.5, rel=1e-9)


def test_f1_has_an_error_near_a_bootstrap() -> None:
    probabilities, labels = predictions(1, 2000, 3)
    found = estimates(probabilities, labels, None, ordered=False)
    predicted = probabilities[0].argmax(1)
    draws = [RANDOM.integers(2000, size=2000) for _ in range(300)]
    f1 = [reference.f1_score(labels[rows], predicted[rows], average="macro") for rows in draws]
    assert found["f1_macro"].error == pytest.approx(np.std(f1), rel=0.2)


def test_blocks_keep_groups_together_and_are_even() -> None:
    groups = RANDOM.integers(450, size=5000)
    block = blocks(5000, groups)
    assert all(len(set(block[groups == group])) == 1 for group in set(groups))
    units = [len(set(groups[block == number])) for number in range(BLOCKS)]
    assert max(units) - min(units) <= 1
    assert len(set(blocks(7, None))) == 7
