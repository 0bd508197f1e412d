"""The leaderboard and the remarks about its runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from run_folders import make_run, make_setting, write_predictions

from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.leaderboard import board_lines, csv_rows, notes
from sentattn.compare.report.page import part
from sentattn.metrics import MAJORITY

LABELS = np.array([1] * 149 + [0] * 51)


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """A setting that predicts the larger class for all rows, with one of its two seeds, and another setting."""
    for name, seed, predicted in (("mean", 0, np.ones(200, int)), ("mean", 1, LABELS), ("structured", 0, LABELS)):
        path = make_run(tmp_path, f"model={name}", seed=seed, metrics={"val/accuracy": 0.5})
        probabilities = np.where(np.arange(2) == predicted[:, None], 0.9, 0.1)
        write_predictions(path, "test", LABELS, predicted, probabilities)
    [found], faults = read_comparisons([tmp_path], split="test")
    assert not faults
    return found


@pytest.mark.parametrize("markdown", [False, True])
def test_the_last_row_is_the_share_of_the_largest_class(comparison: Comparison, markdown: bool) -> None:
    [row] = [line for line in board_lines(comparison, markdown=markdown) if MAJORITY in line]
    assert "0.745" in row


def test_the_last_row_of_csv_has_it_alone(comparison: Comparison) -> None:
    header, *_, last = csv_rows([comparison])
    known = {name: value for name, value in zip(header, last, strict=True) if value != ""}
    assert known == {"settings": MAJORITY, "accuracy": 0.745, "data": "demo", "split": "test"}


def test_the_page_has_the_row_too(comparison: Comparison) -> None:
    [section, *_] = part(comparison).sections
    assert section.tables[0].rows[-1][:2] == [MAJORITY, "0.7450"]


def test_a_setting_that_predicts_one_class_is_named_with_its_seeds(comparison: Comparison) -> None:
    [note] = notes(comparison.leaderboard)
    assert note.startswith("mean: ")
    assert "(seed 0)" in note


def test_values_of_settings_are_not_broken(tmp_path: Path) -> None:
    for seed in range(3):
        for size in (100, 200):
            make_run(tmp_path, f"model.embedding.size={size}", f"model.encoder.hidden={size}", seed=seed, accuracy=0.99)
    [found], _ = read_comparisons([tmp_path], split="test")
    text = "\n".join(board_lines(found))
    assert all(f"{key}={size}" in text for key in ("embedding.size", "encoder.hidden") for size in (100, 200))


@pytest.mark.parametrize(("seeds", "is_named"), [(4, False), (5, True)])
def test_a_seed_far_from_the_others_takes_five(seeds: int, is_named: bool) -> None:
    labels = np.tile([0, 1], 100)
    wrong = [0] * (seeds - 1) + [40]
    predicted = [np.where(np.arange(200) < count, 1 - labels, labels) for count in wrong]
    setting = make_setting([np.eye(2)[predicted_N] for predicted_N in predicted], labels)
    assert any(f"seed {seeds - 1} is 20.0 points" in note for note in notes([setting])) == is_named
