"""Which texts a report shows: disagreements and worst errors, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from run_folders import make_setting

from sentattn.compare.report.examples import disagreements, examples, worst_errors
from sentattn.compare.settings import Setting

LABELS = np.array([0, 1, 0, 1])


def setting(of_class_0: list[float], path: Path) -> Setting:
    p = np.array(of_class_0)
    return make_setting([np.stack([p, 1 - p], axis=1)], LABELS, path=path)


def trained(folder: Path, *of_class_0: list[float]) -> list[Setting]:
    (folder / "model").mkdir(exist_ok=True)
    return [setting(p, folder) for p in of_class_0]


def test_the_surest_disagreements_come_first_with_the_two_settings_that_are_surest(tmp_path: Path) -> None:
    settings = trained(tmp_path, [0.9, 0.6, 0.9, 0.1], [0.8, 0.3, 0.7, 0.45], [0.2, 0.1, 0.95, 0.3])
    assert disagreements(settings) == [(0, (0, 2)), (1, (0, 2))]
    assert disagreements(settings, most=1) == [(0, (0, 2))]


def test_settings_without_a_model_are_not_shown(tmp_path: Path) -> None:
    settings = [setting([0.1] * 4, tmp_path / "reference"), *trained(tmp_path, [0.9] * 4, [0.7, 0.7, 0.7, 0.2])]
    assert disagreements(settings) == [(3, (1, 2))]
    assert disagreements(settings[:2]) == []
    assert worst_errors(settings[:1], LABELS) == []


def test_worst_errors_are_the_surest(tmp_path: Path) -> None:
    [one] = trained(tmp_path, [0.4, 0.9, 0.8, 0.6])
    assert worst_errors([one], LABELS) == [(1, (0,)), (0, (0,)), (3, (0,))]


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    class Texts:
        def texts(self, row: int) -> str:
            return f"text {row}"

    settings = trained(tmp_path, [0.4, 0.9, 0.8, 0.6])
    found, messages = examples(worst_errors(settings, LABELS), settings, Texts(), LABELS, ["a", "b"])  # type: ignore[arg-type]
    assert found == []
    assert str(tmp_path) in messages[0]
