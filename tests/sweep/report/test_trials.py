"""The table of trials."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from made import record, result

from sentattn.sweep.objective import Objective
from sentattn.sweep.report.trials import Reader, write_table

OBJECTIVES = (Objective("val/accuracy", "max"),)
KEYS = ["model.attention.hops", "model/pooling", "loss.penalty"]


def test_a_row_a_trial_and_a_column_a_setting(tmp_path: Path) -> None:
    found = [
        record(0, 0.8, values={"model.attention.hops": 4, "model/pooling": "mean", "loss.penalty": 0.0}),
        record(1, None, values={"model.attention.hops": 9}, error="it was killed"),
        record(2, None, state="pruned", values={"model.attention.hops": 9, "loss.penalty": 1}, retry_of=1),
    ]
    result(tmp_path, 0)
    result(tmp_path, 2, best_epoch=1)
    write_table(tmp_path / "t.parquet", found, KEYS, OBJECTIVES, Reader(tmp_path))
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.to_pydict() == {
        "number": [0, 1, 2],
        "state": ["complete", "failed", "pruned"],
        "model.attention.hops": [4, 9, 9],
        "model/pooling": ["mean", None, None],
        "loss.penalty": [0.0, None, 1.0],
        "val/accuracy": [0.8, None, None],
        "best_epoch": [3, None, 1],
        "seconds": [7.5, 10.0, 7.5],
        "parameters": [1234, None, 1234],
        "directory": [str(tmp_path / "trials" / str(number)) for number in range(3)],
        "retried_from": [None, None, 1],
        "note": ["", "it was killed", ""],
    }
    assert [str(table.schema.field(key).type) for key in KEYS] == ["int64", "string", "double"]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_choices_of_several_kinds_are_words_and_truths_stay(tmp_path: Path) -> None:
    found = [record(0, 0.5, values={"a": 1, "b": True}), record(1, 0.5, values={"a": "many", "b": False})]
    write_table(tmp_path / "t.parquet", found, ["a", "b"], OBJECTIVES, Reader(tmp_path))
    columns = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert (columns["a"], columns["b"]) == (["1", "many"], [True, False])


def test_seconds_of_a_trial_of_several_trainings_are_those_of_all(tmp_path: Path) -> None:
    for seed in (9, 10):
        result(tmp_path, 0, seed=seed)
    costs = Reader(tmp_path).costs(record(0, 0.5))
    assert (costs.seconds, costs.best_epoch, costs.parameters) == (15.0, None, 1234)


def test_a_study_without_trials_is_an_empty_table(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", [], KEYS, OBJECTIVES, Reader(tmp_path))
    assert pq.read_table(tmp_path / "t.parquet").num_rows == 0
