"""The best of what a study has recorded."""

from __future__ import annotations

from sentattn.sweep.study.records import Record, best


def test_best_and_front() -> None:
    def record(number: int, *objectives: float) -> Record:
        return Record(number, "complete", {}, objectives, {}, "", None, 0, None, None)

    single = [record(0, 0.5), record(1, 0.9), record(2, 0.9)]
    assert [one.number for one in best(single, ["max"])] == [1]
    assert [one.number for one in best(single, ["min"])] == [0]
    several = [record(0, 0.9, 5.0), record(1, 0.8, 2.0), record(2, 0.8, 3.0), record(3, 0.1, 1.0)]
    assert [one.number for one in best(several, ["max", "min"])] == [0, 1, 3]
