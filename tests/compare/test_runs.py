"""Run directories become settings with seeds on the same rows; what cannot be compared is named."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from refusals import faults_of, refused
from run_folders import make_run, make_seeds, write_predictions

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.leaderboard import board_lines, cells
from sentattn.compare.report.page import page, part
from sentattn.compare.runs import names
from sentattn.config.compose import compose
from sentattn.data import word_vectors
from sentattn.run import yaml_text


def test_seeds_of_a_setting_are_one_row(tmp_path: Path) -> None:
    for seed in (2, 0, 1):
        make_run(tmp_path, "model=mean", seed=seed)
    make_run(tmp_path, "model=structured")
    [found], faults = read_comparisons([tmp_path], split="test")
    assert not faults
    assert {one.name: [run.result["seed"] for run in one.runs] for one in found.settings} == {
        "mean": [0, 1, 2],
        "structured": [0],
    }
    assert found.settings[0].probabilities.shape[1:] == (200, 2)


def test_of_a_seed_that_was_trained_twice_the_later_run_counts(tmp_path: Path) -> None:
    first = make_run(tmp_path, "model=mean")
    later = first.with_name("2027-later")
    first.rename(later)
    make_run(tmp_path, "model=mean")
    [found], _ = read_comparisons([tmp_path], split="test")
    assert [run.run.path for run in found.settings[0].runs] == [later]
    [note] = found.settings[0].notes
    assert "(0)" in note
    board = board_lines(found)
    assert f"mean: {note}." in " ".join(line.strip() for line in board)
    assert f"mean: {note}." in page([part(found)])


@pytest.mark.parametrize(
    ("revisions", "expected"),
    [
        (["a" * 40, "a" * 40], []),
        (["a" * 40, "b" * 40], ["aaaaaaa", "bbbbbbb"]),
        (["a" * 40, None], ["aaaaaaa", "None"]),
    ],
)
def test_runs_of_several_revisions_have_a_note(
    tmp_path: Path, revisions: list[str | None], expected: list[str]
) -> None:
    for seed, revision in enumerate(revisions):
        make_run(tmp_path, "model=mean", seed=seed, git=revision)
    make_run(tmp_path, "model=structured", git="c" * 40)
    [found], _ = read_comparisons([tmp_path], split="test")
    notes = {one.name: one.notes for one in found.settings}
    assert not notes["structured"]
    assert len(notes["mean"]) == bool(expected)
    assert all(revision in notes["mean"][0] for revision in expected)


def test_settings_of_one_variant_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    make_run(tmp_path, "model=structured", "model.attention.hops=2")
    make_run(tmp_path, "model=structured", "model.attention.hops=8")
    make_run(tmp_path, "model=mean")
    [found], _ = read_comparisons([tmp_path], split="test")
    names = {one.name for one in found.settings}
    assert names == {"mean", "structured; attention.hops=2", "structured; attention.hops=8"}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("model=mean", {"mean"}),
        ("data=demo", {"mean", "structured"}),
        ("model.attention.hops=4", {"structured"}),
        ("model/attention=uniform", {"mean"}),
        ("seed=0", {"mean", "structured"}),
    ],
)
def test_filters(tmp_path: Path, where: str, expected: set[str]) -> None:
    make_seeds(tmp_path, {"mean": 0.8, "structured": 0.8}, seeds=1)
    [found], _ = read_comparisons([tmp_path], split="test", where=[where])
    assert {one.name for one in found.settings} == expected


def test_rows_without_a_group_are_groups_by_themselves(tmp_path: Path) -> None:
    path = make_run(tmp_path, "data=imdb", rows=40, films=4)
    table = pq.read_table(path / "predictions.parquet").to_pydict()
    table["group"] = ["" if row % 2 else name for row, name in enumerate(table["group"])]
    schema = pq.read_schema(path / "predictions.parquet")
    pq.write_table(pa.table(table, schema=schema), path / "predictions.parquet")
    [comparison], _ = read_comparisons([tmp_path], split="test")
    groups = comparison.rows.group_N
    assert groups is not None
    assert len(set(groups.tolist())) == 20 + len({*table["group"]} - {""})
    assert [groups[0] == group for group in groups] == [name == table["group"][0] for name in table["group"]]


def test_older_runs_and_validation_by_group_are_two_settings(tmp_path: Path) -> None:
    older = make_run(tmp_path, "data=imdb", "data.val_by=row", data_fingerprint="1")
    settings = yaml.safe_load((older / "config.yaml").read_text())
    del settings["data"]["val_by"]
    (older / "config.yaml").write_text(yaml_text(settings))
    make_run(tmp_path, "data=imdb", data_fingerprint="2")
    [comparison], _ = read_comparisons([tmp_path], split="test")
    assert {one.name for one in comparison.settings} == {"structured", "structured; data.val_by=group"}
    board = board_lines(comparison)
    assert "trained on the same rows" in " ".join(board)


def test_a_run_that_cannot_be_compared_is_named_and_the_rest_compared(tmp_path: Path) -> None:
    make_run(tmp_path, "model=mean")
    unfinished = make_run(tmp_path, "model=cnn")
    (unfinished / "result.json").unlink()
    failed = make_run(tmp_path, "model=lstm", status="failed")
    untested = make_run(tmp_path, "model=transformer", split="val")
    lost = make_run(tmp_path, "model=additive")
    (lost / "predictions.parquet").unlink()
    torn = make_run(tmp_path, "model=feedforward")
    (torn / "predictions.parquet").write_bytes(b"PAR1")
    [found], faults = read_comparisons([tmp_path, tmp_path / "nowhere"], split="test")
    assert [one.name for one in found.settings] == ["mean"]
    kinds = {
        path: fault.kind
        for fault in faults
        for path in (unfinished, failed, untested, lost, torn)
        if str(path) in fault.message
    }
    assert kinds == {
        unfinished: "unfinished",
        failed: "interrupted",
        untested: "missing",
        lost: "missing",
        torn: "damaged",
    }
    assert [fault.kind for fault in faults if "nowhere" in fault.message] == ["not_found"]


def test_predictions_that_were_edited_are_found(tmp_path: Path) -> None:
    labels = np.zeros(10, int)
    good = np.tile([0.9, 0.1], (10, 1))
    runs = [make_run(tmp_path / name, "model=mean", rows=10, accuracy=1.0) for name in "abc"]
    write_predictions(runs[0], "test", labels, labels, good * 1.1)
    write_predictions(runs[1], "test", labels, labels + 1, good)
    write_predictions(runs[2], "test", labels + 1, labels, good)  # consistent, but not what the result says
    found = refused(lambda: read_comparisons([tmp_path], split="test"))
    assert found == [*[("runs", "damaged")] * 3, ("runs", "not_found")]


def test_trials_of_sweeps_are_left_out(tmp_path: Path) -> None:
    make_run(tmp_path, "model=mean", study="search")
    make_run(tmp_path, "model=cnn")
    [found], faults = read_comparisons([tmp_path], split="test")
    assert [one.name for one in found.settings] == ["cnn"]
    assert not faults


def test_a_result_that_lacks_something_is_damaged(tmp_path: Path) -> None:
    path = make_run(tmp_path, "model=mean")
    result = json.loads((path / "result.json").read_text())
    for key in ("metrics", "setting", "seed", "data", "parameters"):
        (path / "result.json").write_text(json.dumps({name: value for name, value in result.items() if name != key}))
        assert refused(lambda: read_comparisons([path], split="test"))[0] == ("runs", "damaged")
    for key, value in {"seed": math.inf, "data": [], "data_fingerprint": [], "tokens_per_second": "fast"}.items():
        (path / "result.json").write_text(json.dumps(result | {key: value}))
        assert refused(lambda: read_comparisons([path], split="test"))[0] == ("runs", "damaged")


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
    assert refused(lambda: read_comparisons([study], split="test"))[-1] == ("runs", "not_found")


@pytest.mark.parametrize("line", ["1: null", "null: 1", "seed.a: 1"])
def test_settings_of_a_run_may_have_any_keys(tmp_path: Path, line: str) -> None:
    path = make_run(tmp_path, "model=mean")
    with (path / "config.yaml").open("a") as file:
        file.write(f"{line}\n")
    [found], faults = read_comparisons([tmp_path], split="test")
    assert ([len(setting.runs) for setting in found.settings], faults) == ([1], [])


def test_a_run_without_its_settings_is_named_and_not_the_folder_of_its_model(tmp_path: Path) -> None:
    whole, without = (make_run(tmp_path, "model=mean", seed=seed) for seed in (0, 1))
    (without / "model").mkdir(exist_ok=True)
    (without / "model" / "config.yaml").write_text("{}")
    (without / "config.yaml").unlink()
    [found], faults = read_comparisons([tmp_path], split="test")
    assert [run.run.path for one in found.settings for run in one.runs] == [whole]
    for one in (faults, faults_of(lambda: read_comparisons([without], split="test"))[:1]):
        assert [(fault.key, fault.kind) for fault in one] == [("runs", "missing")]
        assert f"{without} " in one[0].message


def test_word_vectors_are_not_trained_for_texts_alone(run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = yaml.safe_load((run_copy / "config.yaml").read_text())
    settings["data"]["vectors"] = "train"
    (run_copy / "config.yaml").write_text(yaml_text(settings))
    monkeypatch.setattr(word_vectors, "train_vectors", None)  # a call would fail
    [comparison], _ = read_comparisons([run_copy], split="val")
    _, texts = comparison.read_texts()
    assert tuple(texts.row_id) == comparison.rows.row_ids
    assert texts.texts(0)


def test_callbacks_that_change_the_result_are_in_the_name() -> None:
    words: list[list[str]] = [[], ["callbacks=lr_monitor"], ["callbacks=[early_stopping,lr_monitor]"]]
    assert names(list(map(compose, words[::2]))) == ["structured", "structured; callbacks.early_stopping.patience=2"]
    assert names(list(map(compose, words[:2]))) == ["structured", "structured"]
