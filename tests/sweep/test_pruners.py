"""Which trials are ended early."""

from __future__ import annotations

from pathlib import Path

from plans import plan

from sentattn.sweep.config import Budget
from sentattn.sweep.pruners import default_pruner
from sentattn.sweep.records import read
from sentattn.sweep.study import SweepStudy


def test_the_default_spares_all_but_the_lowest_quarter(tmp_path: Path) -> None:
    """Of 0.2, 0.4, 0.6 and 0.8 the 25th percentile is 0.35; with two complete trials nothing is compared yet."""
    one = plan(pruner={"name": default_pruner(1, 1)}, budget=Budget(9, None))
    with SweepStudy.open(one, tmp_path) as study:

        def ends_early(value: float) -> bool:
            asked = study.ask()
            assert asked
            ended = study.report(asked.number, 1, value)
            study.tell(asked.number, *([None, "pruned"] if ended else [[value]]))
            return ended

        assert [ends_early(value) for value in (0.8, 0.6, 0.2, 0.4)] == [False] * 4
        assert [ends_early(value) for value in (0.34, 0.36)] == [True, False]


def test_the_median_prunes(tmp_path: Path) -> None:
    one = plan(pruner={"name": "median", "n_startup_trials": 2}, budget=Budget(3, None))
    with SweepStudy.open(one, tmp_path) as study:
        for value in (0.8, 0.9):
            asked = study.ask()
            assert asked
            assert study.report(asked.number, 1, value) is False
            study.tell(asked.number, [value])
    with SweepStudy.open(one, tmp_path) as study:
        asked = study.ask()
        assert asked
        assert study.report(asked.number, 1, 0.1) is True
        study.tell(asked.number, state="pruned")
        assert study.ended() == "3 trials are finished"
    last = read(tmp_path)[-1]
    assert (last.state, last.steps, last.objectives) == ("pruned", {1: 0.1}, None)
