"""The files of a study, and its best setting with seeds of its own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from fake_records import record, result, study_of
from plans import HOPS, PRUNE, SPACE, plan

from sentattn.config.compose import compose
from sentattn.config.groups import conf_dir
from sentattn.config.request import read_request, read_saved
from sentattn.run import RUN_FORMAT, Run, yaml_text
from sentattn.sweep.artifacts import (
    Confirmed,
    costs,
    describe_confirmed,
    find_confirmed,
    train_command,
    write_best,
    write_confirmed,
    write_table,
)
from sentattn.sweep.records import front

TABLE_SPACE = {
    "model.attention.hops": "range(1,31)",
    "model/pooling": "choice(mean,prune)",
    "loss.penalty": "interval(0,1)",
}
FOUND = {
    "model.attention.hops": 7,
    "loss.penalty": 0.0,
    "model/pooling": "prune",
    "model.pooling.p": 12,
    "model.pooling.q": 3,
}


def test_the_file_holds_the_settings_of_the_trial_and_trains_as_any_run_does(tmp_path: Path) -> None:
    space = {**SPACE, "model.pooling.q": ("range(1,17)", PRUNE)}
    one = plan(space, overrides=("model=structured", "trainer.max_epochs=3"), seed=5)
    write_best(one, tmp_path, [record(3, 0.875, values=FOUND)])
    settings = read_saved(str(tmp_path / "best.yaml"))
    expected = compose(
        ["model=structured", "trainer.max_epochs=3", "seed=5", *(f"{key}={value}" for key, value in FOUND.items())]
    )
    assert settings == expected
    assert (settings["test"], settings["seed"]) == (True, 5)
    assert settings["group"] is None
    content = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert (content["study"], content["trial"], content["reached"]) == ("mine", 3, {"val/accuracy": 0.875})
    assert (content["found"], content["date"]) == (FOUND, "2026-03-04 05:06")


def test_settings_based_on_another_run_are_written_in_full(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text("overrides: [model=structured, trainer.max_epochs=2, optimizer.lr=0.125]\n")
    one = plan(HOPS, overrides=(f"from={base}",))
    write_best(one, tmp_path, [record(0, 0.5, values={"model.attention.hops": 9})])
    settings = read_saved(str(tmp_path / "best.yaml"))
    assert settings == compose(
        ["model=structured", "trainer.max_epochs=2", "optimizer.lr=0.125", "model.attention.hops=9"]
    )
    assert "# trial: 0" in (tmp_path / "best.yaml").read_text()


def test_options_that_allow_code_to_run_are_in_the_command_and_not_in_the_file(tmp_path: Path) -> None:
    choices = tmp_path / "my choices" / "model" / "attention"
    choices.mkdir(parents=True)
    (choices / "mine.yaml").write_text((conf_dir() / "model" / "attention" / "structured.yaml").read_text())
    options = [f"--config-dir={tmp_path / 'my choices'}", "trust=true"]
    own = ["model/attention=mine", "callbacks.stop._target_=pytorch_lightning.callbacks.EarlyStopping"]
    write_best(plan(HOPS, overrides=(*options, *own)), tmp_path, [record(0, 0.5, values={"model.attention.hops": 9})])
    file = tmp_path / "best.yaml"
    assert not {*options} & {*yaml.safe_load(file.read_text())["overrides"]}
    command = train_command(file, (*options, *own))
    assert command in file.read_text().splitlines()[0]
    words = shlex.split(command)
    assert words == ["python", "-m", "sentattn.train", f"from={file}", *options]
    settings = read_request(words[3:]).settings
    assert (settings["model"]["attention"]["hops"], settings["test"]) == (9, True)


def test_nothing_but_an_empty_table_is_written_before_a_trial_is_complete(tmp_path: Path) -> None:
    write_best(plan(), tmp_path, front(study_of(plan(), [record(0)])))
    write_table(plan(TABLE_SPACE), tmp_path, [])
    assert [file.name for file in tmp_path.iterdir()] == ["trials.parquet"]
    assert pq.read_table(tmp_path / "trials.parquet").num_rows == 0


def test_seconds_of_a_trial_of_several_trainings_are_those_of_all(tmp_path: Path) -> None:
    for seed in (9, 10):
        result(tmp_path, 0, seed=seed)
    assert costs(tmp_path, record(0, 0.5)) == (None, 15.0, 1234)


def test_costs_are_those_of_the_files_that_there_are_now(tmp_path: Path) -> None:
    for epoch in (3, 5):
        result(tmp_path, 0, best_epoch=epoch)
        assert costs(tmp_path, record(0, 0.5)) == (epoch, 7.5, 1234)


def test_the_table_has_a_row_per_trial_and_a_column_per_setting(tmp_path: Path) -> None:
    found = [
        record(0, 0.8, values={"model.attention.hops": 4, "model/pooling": "mean", "loss.penalty": 0.0}),
        record(1, None, values={"model.attention.hops": 9}, error="it was killed"),
        record(2, None, state="pruned", values={"model.attention.hops": 9, "loss.penalty": 1}, retry_of=1),
    ]
    result(tmp_path, 0)
    result(tmp_path, 2, best_epoch=1)
    write_table(plan(TABLE_SPACE), tmp_path, found)
    table = pq.read_table(tmp_path / "trials.parquet")
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
    assert [str(table.schema.field(key).type) for key in TABLE_SPACE] == ["int64", "string", "double"]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_choices_of_several_types_are_strings_and_booleans_stay(tmp_path: Path) -> None:
    space = {"loss.penalty": "choice(1,many)", "model/pooling": "choice(true,false)"}
    values = [{"loss.penalty": 1, "model/pooling": True}, {"loss.penalty": "many", "model/pooling": False}]
    write_table(plan(space), tmp_path, [record(number, 0.5, values=values[number]) for number in range(2)])
    columns = pq.read_table(tmp_path / "trials.parquet").to_pydict()
    assert (columns["loss.penalty"], columns["model/pooling"]) == (["1", "many"], [True, False])


def test_a_full_disk_leaves_the_last_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trials.parquet"
    write_table(plan({}), tmp_path, [record(0, 0.5)])

    def full(table: object, path: Path, **_: object) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space"):
        write_table(plan({}), tmp_path, [record(0, 0.5), record(1, 0.6)])
    assert pq.read_table(file).num_rows == 1
    assert list(tmp_path.iterdir()) == [file]


def confirmed(folder: Path, values: Sequence[float]) -> Confirmed:
    """What is written about the best trial and runs of its setting that have reached these values."""
    runs = []
    for seed, value in enumerate(values, start=1):
        path = folder / f"run-{seed}"
        path.mkdir()
        (path / "config.yaml").write_text(yaml_text({"seed": seed, "data": {}, "model": {}}))
        metrics = {"train/loss": 1.0, "val/accuracy": value, "test/accuracy": value - 0.01}
        (path / "result.json").write_text(json.dumps({"format": RUN_FORMAT, "metrics": metrics}))
        runs.append(Run(path))
    write_confirmed(plan(HOPS), folder, 4, runs)
    found = find_confirmed(folder, 4)
    assert found
    return found


def test_mean_and_interval_by_student(tmp_path: Path) -> None:
    """Mean 0.82, standard deviation 0.02, t(0.975, 2) = 4.302653: the half width is 4.302653 * 0.02 / sqrt(3)."""
    found = confirmed(tmp_path, [0.80, 0.84, 0.82])
    assert (found.trial, found.seeds) == (4, [1, 2, 3])
    assert set(found.metrics) == {"val/accuracy", "test/accuracy"}
    metric = found.metrics["test/accuracy"]
    assert metric.mean == pytest.approx(0.81)
    assert metric.interval == pytest.approx((0.81 - 0.0496828, 0.81 + 0.0496828))
    line = describe_confirmed(plan(HOPS), found)
    assert line.startswith("mine: trial 4 ")
    assert max(map(len, line.splitlines())) < 60, "it fits a terminal"
    assert re.findall(r"(\S+) (\d\.\d+) \((\S+) to (\S+)\)", line) == [
        ("val/accuracy", "0.8200", "0.7703", "0.8697"),
        ("test/accuracy", "0.8100", "0.7603", "0.8597"),
    ]


def test_what_is_confirmed_is_about_a_trial_and_a_number_of_seeds(tmp_path: Path) -> None:
    assert find_confirmed(tmp_path, 4) is None
    confirmed(tmp_path, [0.80, 0.84, 0.82])
    assert find_confirmed(tmp_path, 4, 3)
    assert find_confirmed(tmp_path, 4, 2) is None
    assert find_confirmed(tmp_path, 5, 3) is None
    for damaged in ("{torn", "[]", '{"trial": 4}'):
        (tmp_path / "confirm.json").write_text(damaged)
        assert find_confirmed(tmp_path, 4) is None


@pytest.mark.parametrize("values", [[0.5], [0.98, 0.99], [0.9, 0.9, 0.9]])
def test_few_or_equal_seeds_have_no_interval(tmp_path: Path, values: list[float]) -> None:
    found = confirmed(tmp_path, values)
    reached = found.metrics["val/accuracy"]
    assert (reached.mean, reached.interval, reached.values) == (pytest.approx(sum(values) / len(values)), None, values)
    assert "(" not in describe_confirmed(plan(HOPS), found)


def test_an_interval_lies_within_the_bounds_of_its_metric(tmp_path: Path) -> None:
    low, high = confirmed(tmp_path, [0.9, 1.0, 1.0]).metrics["val/accuracy"].interval or (0, 0)
    assert 0 < low < 0.9667
    assert high == 1
