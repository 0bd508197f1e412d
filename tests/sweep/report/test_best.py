"""The best setting as a file that trains it again."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from made import record
from plans import plan

from sentattn.config.compose import compose
from sentattn.config.groups import at
from sentattn.config.saved import read_saved
from sentattn.sweep.objective import Objective
from sentattn.sweep.report.best import front, nearest, write_best

TWO = (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))
FOUND = {
    "model.attention.hops": 7,
    "loss.penalty": 0.0,
    "model/pooling": "prune",
    "model.pooling.p": 12,
    "model.pooling.q": 3,
}


def test_the_file_holds_the_settings_of_the_trial_and_trains_as_any_run_does(tmp_path: Path) -> None:
    one = plan(overrides=("model=structured", "trainer.max_epochs=3"), seed=5)
    write_best(one, tmp_path, [record(3, 0.875, values=FOUND)])
    settings = read_saved(str(tmp_path / "best.yaml"))
    expected = compose(
        ["model=structured", "trainer.max_epochs=3", "seed=5", *(f"{key}={value}" for key, value in FOUND.items())]
    )
    assert settings == expected
    assert (settings["test"], settings["seed"]) == (True, 5)
    assert settings["group"] is None
    told = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert (told["study"], told["trial"], told["reached"]) == ("mine", 3, {"val/accuracy": 0.875})
    assert (told["found"], told["date"]) == (FOUND, "2026-03-04 05:06")


def test_what_started_from_another_run_is_written_out_whole(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text("overrides: [model=structured, trainer.max_epochs=2, optimizer.lr=0.125]\n")
    one = plan({"model.attention.hops": "range(1,31)"}, overrides=(f"from={base}",))
    write_best(one, tmp_path, [record(0, 0.5, values={"model.attention.hops": 9})])
    settings = read_saved(str(tmp_path / "best.yaml"))
    assert settings == compose(
        ["model=structured", "trainer.max_epochs=2", "optimizer.lr=0.125", "model.attention.hops=9"]
    )
    assert "# trial: 0" in (tmp_path / "best.yaml").read_text()


def test_nothing_is_written_before_a_trial_is_complete(tmp_path: Path) -> None:
    write_best(plan(), tmp_path, front([record(0)], plan().objectives))
    assert list(tmp_path.iterdir()) == []


def test_the_nearest_point_by_hand() -> None:
    # Accuracy from 0.90 (best) to 0.80, latency from 1 (best) to 5: distances to (0.90, 1) in shares of these ranges
    # are 1 for both ends; the middle point lies at (0.2, 0.25), at sqrt(0.04 + 0.0625) = 0.32.
    assert nearest([(0.90, 5.0), (0.88, 2.0), (0.80, 1.0)], ["max", "min"]) == 1
    assert nearest([(0.7, 1.0)], ["max", "min"]) == 0


def test_each_setting_of_the_front_has_a_file_and_the_most_balanced_one_is_the_best(tmp_path: Path) -> None:
    one = plan({"model.attention.hops": "range(1,31)"}, objectives=TWO)
    found = [
        record(number, reached, values={"model.attention.hops": number + 1})
        for number, reached in enumerate([(0.9, 5.0), (0.88, 2.0), (0.8, 1.0), (0.79, 6.0)])
    ]
    (tmp_path / "pareto").mkdir()
    (tmp_path / "pareto" / "3.yaml").write_text("of an earlier front")
    write_best(one, tmp_path, front(found, TWO))
    assert sorted(file.name for file in (tmp_path / "pareto").iterdir()) == ["0.yaml", "1.yaml", "2.yaml"]
    assert at(read_saved(str(tmp_path / "best.yaml")), "model.attention.hops") == 2
    assert at(read_saved(str(tmp_path / "pareto" / "2.yaml")), "model.attention.hops") == 3


@pytest.mark.parametrize(("mode", "number"), [("max", 1), ("min", 0)])
def test_the_first_of_equals_is_the_best(mode: str, number: int) -> None:
    found = [record(0, 0.5), record(1, 0.7), record(2, 0.7), record(3, 0.5)]
    [there] = front(found, [Objective("val/accuracy", mode)])  # type: ignore[arg-type]
    assert there.number == number
