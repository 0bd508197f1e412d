"""Studies: the runs that confirm a best setting stand in the comparison, with the number of trials that found it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_folders import make_run

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.leaderboard import cells
from sentattn.errors import RunError


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of 26 trials whose best setting is confirmed with two seeds."""
    folder = tmp_path / "outputs" / "sweeps" / "hops"
    make_run(folder / "trials", "model.attention.hops=2", study="hops")
    runs = [make_run(tmp_path / "outputs", "model.attention.hops=8", seed=seed) for seed in (5, 6)]
    (folder / "confirm.json").write_text(json.dumps({"runs": [str(run) for run in runs]}))
    pq.write_table(pa.table({"number": range(26)}), folder / "trials.parquet")
    return folder


def test_the_folder_of_a_study_stands_for_the_runs_that_confirm_it(study: Path) -> None:
    [found], faults = read_comparisons([study], split="test")
    assert [[run.seed for run in one.runs] for one in found.settings] == [[5, 6]]
    assert not faults


def test_each_run_counts_once_and_knows_its_trials(study: Path) -> None:
    make_run(study.parents[1], "model=mean")
    [found], _ = read_comparisons([study.parents[1], study], split="test")
    header, *rows, _ = cells(found)
    assert {row[0]: (row[1], row[header.index("trials")]) for row in rows} == {
        "structured": ("2", "26"),
        "mean": ("1", "-"),
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"runs": 3}', '{"runs": ["/nowhere"]}'])
def test_a_damaged_study_has_no_runs(study: Path, text: str) -> None:
    (study / "confirm.json").write_text(text)
    with pytest.raises(RunError) as caught:
        read_comparisons([study], split="test")
    assert caught.value.faults[-1].kind == "not_found"


def test_a_run_without_its_settings_is_named_and_not_the_folder_of_its_model(tmp_path: Path) -> None:
    whole, without = (make_run(tmp_path, "model=mean", seed=seed) for seed in (0, 1))
    (without / "model").mkdir(exist_ok=True)
    (without / "model" / "config.yaml").write_text("{}")
    (without / "config.yaml").unlink()
    [found], faults = read_comparisons([tmp_path], split="test")
    assert [run.run.path for one in found.settings for run in one.runs] == [whole]
    with pytest.raises(RunError) as caught:
        read_comparisons([without], split="test")
    for one in (faults, caught.value.faults[:1]):
        assert [(fault.key, fault.kind) for fault in one] == [("runs", "missing")]
        assert f"{without} " in one[0].message
