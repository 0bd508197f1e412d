"""Tables of predictions: of other tools, next to runs, and written by runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused
from run_folders import compare, lines, make_run, make_seeds, write_predictions

import sentattn
from sentattn.compare.__main__ import main
from sentattn.compare.comparison import Comparison
from sentattn.compare.predictions import add_tables
from sentattn.errors import DataError

CLASSES = ["no", "yes"]


def with_probabilities(frame: pd.DataFrame) -> pd.DataFrame:
    yes = np.where(frame.predicted == "yes", 0.8, 0.3)
    return frame.assign(p_no=1 - yes, p_yes=yes)


def read(folder: Path, frame: pd.DataFrame, *comparisons: Comparison, name: str = "mine.csv") -> list[Comparison]:
    file = folder / name
    frame.to_parquet(file) if file.suffix == ".parquet" else frame.to_csv(file, index=False)
    return add_tables([str(file)], comparisons, "test")


def test_two_settings_are_a_declared_pair(tmp_path: Path) -> None:
    [found] = read(tmp_path, lines().sample(frac=1, random_state=0))
    accuracies = {setting.name: setting.metrics["accuracy"].value for setting in found.settings}
    own = lines()
    expected = (own.label == own.predicted).groupby(own.setting).mean()
    assert accuracies == pytest.approx(expected.to_dict())
    [pair] = found.tests
    assert (pair.declared, {pair.first.name, pair.second.name}) == (True, {"new", "old"})
    assert "log_loss" not in found.settings[0].metrics
    assert found.title == "mine"


def test_a_setting_may_have_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    frame = lines().replace({"setting": {"new": "n" * 300}})
    assert {setting.name for setting in read(tmp_path, frame)[0].settings} == {"n" * 300, "old"}


def test_a_setting_with_probabilities_may_predict_none_of_the_labels(tmp_path: Path) -> None:
    frame = lines().drop(columns="predicted").assign(p_no=0.2, p_yes=0.2, p_perhaps=0.6)
    [found] = read(tmp_path, frame)
    assert {setting.metrics["accuracy"].value for setting in found.settings} == {0}


def test_a_baseline_is_tested_against_each_other_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines(old=0.6, a=0.7, b=0.8).to_csv(file := tmp_path / "t.csv", index=False)
    tests = sentattn.leaderboard(table=str(file), baseline="old").pairs
    assert [(row["first"], row["second"]) for row in tests if row["family"] == "declared"] == [
        ("a", "old"),
        ("b", "old"),
    ]
    assert main([f"table={file}", "baseline=od"]) == 2
    assert "Did you mean 'old'?" in capsys.readouterr().err


def test_without_seeds_a_verdict_is_about_these_models(tmp_path: Path) -> None:
    [found] = read(tmp_path, lines(seeds=1).drop(columns="seed"))
    [pair] = found.tests
    assert pair.first.deterministic
    assert len(found.messages) == 1  # the verdict alone
    assert pair.verdict == "better"
    [found] = read(tmp_path, lines(seeds=1))  # one training of several that could be
    assert found.tests == []


def test_probabilities_groups_scores_and_data_sets_are_read(tmp_path: Path) -> None:
    frame = with_probabilities(lines())
    frame = frame.assign(score=np.arange(len(frame)) / 10, group=frame.row % 20)
    other = frame.assign(data="b").rename(columns={"p_no": "p_north", "p_yes": "p_south"})
    other = other.replace({"no": "north", "yes": "south"})
    first, second = read(tmp_path, pd.concat([frame.assign(data="a"), other]))
    assert [first.data, second.data] == ["a", "b"]
    assert [list(first.labels), list(second.labels)] == [CLASSES, ["north", "south"]]
    assert first.rows.group_N is not None
    assert len(set(first.rows.group_N)) == 20
    [run, *_] = first.runs
    assert run.has_probabilities
    own = frame[(frame.setting == "new") & (frame.seed == 0)].sort_values("row")
    assert run.probabilities_NC[:, 1] == pytest.approx(own.p_yes.to_numpy())
    assert run.score_N == pytest.approx(own.score.to_numpy())


@pytest.mark.parametrize(
    ("change", "key", "kind"),
    [
        (lambda frame: frame.drop(columns="setting"), "setting", "missing"),
        (lambda frame: frame.drop(columns="predicted"), "predicted", "missing"),
        (lambda frame: frame.drop(columns="row"), "row", "missing"),
        (lambda frame: frame[:0], "table", "missing"),
        (lambda frame: frame.assign(label=frame.label.where(frame.index != 3)), "label", "missing"),
        (lambda frame: frame.assign(seed="x"), "seed", "type"),
        (lambda frame: pd.concat([frame, frame[:4]]), "row", "conflict"),
        (lambda frame: frame[4:], "row", "conflict"),
        (lambda frame: frame.assign(label=frame.label.where(frame.index != 3, "other")), "label", "conflict"),
        (lambda frame: frame.assign(group=np.arange(len(frame)) % 7), "group", "conflict"),
        (lambda frame: frame.assign(p_no=0.5, p_yes=0.6), "p_", "range"),
        (lambda frame: frame.assign(p_no=np.nan, p_yes=1.0), "p_", "range"),
        (lambda frame: frame.assign(p_no=0.4, p_maybe=0.6), "label", "unknown"),
        (lambda frame: frame.assign(p_no=0.4, p_yes=0.6), "predicted", "conflict"),
        (lambda frame: frame.assign(predicted=frame.predicted.where(frame.index != 3)), "predicted", "missing"),
        (lambda frame: frame.replace({"predicted": {"no": "0", "yes": "1"}}), "predicted", "unknown"),
        (lambda frame: frame.assign(predicted=np.nan, p_no=np.nan, p_yes=np.nan), "predicted", "missing"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, change: Any, key: str, kind: str) -> None:
    assert refused(lambda: read(tmp_path, change(lines())))[0] == (key, kind)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.parquet", "PAR1 is not enough", "unreadable"),
        ("two_columns.csv", "setting,seed,seed,row,label,predicted\na,0,0,1,x,x\n", "unreadable"),
        *((name, "setting,row,label,predicted\na,0,x,x\n", "unsupported") for name in ("t.xlsx", "t.csv.xz", "t")),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, kind: str) -> None:
    (tmp_path / name).write_text(text)
    assert refused(lambda: add_tables([str(tmp_path / name)], [], "test")) == [("table", kind)]


@pytest.mark.parametrize("row", ["row", "row_id"])
def test_settings_of_a_table_stand_next_to_runs_on_the_same_texts(tmp_path: Path, row: str) -> None:
    make_seeds(tmp_path / "runs", {"structured": 0.9})
    known = compare(tmp_path / "runs")
    labels = [known.labels[number] for number in known.rows.labels_N]
    names = list(range(200)) if row == "row" else list(known.rows.row_ids)
    frame = pd.DataFrame({row: names, "setting": "theirs", "label": labels, "predicted": labels})[::-1]
    [found] = read(tmp_path, frame, known)
    assert [setting.name for setting in found.settings] == ["structured", "theirs"]
    assert found.settings[1].correct.mean() == 1.0
    assert [pair.declared for pair in found.tests] == [True]
    for damaged in (frame[1:], frame.assign(label=frame.label[::-1].to_numpy())):
        with pytest.raises(DataError):
            read(tmp_path, damaged, known)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_of_runs_make_a_round_trip(tmp_path: Path, ending: str) -> None:
    make_seeds(tmp_path / "runs", {"structured": 0.9, "lstm_mean": 0.7}, films=30)
    make_run(tmp_path / "runs", "model=cnn", accuracy=0.7, films=30, deterministic=True)
    file = tmp_path / f"predictions.{ending}"
    assert main([str(tmp_path / "runs"), "format=predictions", f"output={file}"]) == 0
    before, [after] = compare(tmp_path / "runs"), add_tables([str(file)], [], "test")
    assert [each.name for each in after.leaderboard] == [each.name for each in before.leaderboard]
    for own, read_again in zip(before.leaderboard, after.leaderboard, strict=True):
        assert own.deterministic == read_again.deterministic
        for name in ("accuracy", "log_loss", "f1_macro"):
            one, other = own.metrics[name], read_again.metrics[name]
            assert (one.value, one.error) == pytest.approx((other.value, other.error), rel=1e-6)


def test_files_with_other_columns_are_one_table(tmp_path: Path) -> None:
    trained = with_probabilities(lines())
    [with_seeds, without_seeds] = [trained[trained.setting == name] for name in ("new", "old")]
    with_seeds.to_csv(first := tmp_path / "first.csv", index=False)
    single = without_seeds[without_seeds.seed == 0].drop(columns=["seed", "predicted"])
    single.to_csv(second := tmp_path / "second.csv", index=False)
    [found] = add_tables([str(first), str(second)], [], "test")
    assert [(setting.deterministic, len(setting.runs)) for setting in found.settings] == [(False, 3), (True, 1)]
    [pair] = found.tests
    assert pair.verdict == "better"


def test_a_page_and_a_figure_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines().to_csv(file := tmp_path / "t.csv", index=False)
    page, figure = tmp_path / "page.html", tmp_path / "figure.svg"
    assert main([f"table={file}", f"report={page}", f"figure={figure}", "metric=f1:yes"]) == 0
    assert "f1:yes" in page.read_text(encoding="utf-8")
    assert figure.stat().st_size > 1000
    assert "parameters" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["insight=true"], "insight needs runs"),
        (["reference=tfidf"], "reference needs runs"),
        (["to=wandb"], "to needs runs"),
        (["format=predictions"], "format=predictions needs output="),
        (["format=predictions", "output=t.xlsx"], "output=t.xlsx"),
    ],
)
def test_what_a_table_cannot_have_is_refused(tmp_path: Path, words: list[str], key: str, capsys: Any) -> None:
    lines().to_csv(file := tmp_path / "t.csv", index=False)
    assert main([f"table={file}", *words]) == 2
    assert f"error: {key}" in capsys.readouterr().err


def test_a_table_of_a_spreadsheet_and_steps_of_a_scale_are_read(tmp_path: Path) -> None:
    frame = lines().replace({"label": {"no": 1, "yes": 5}, "predicted": {"no": 1, "yes": 5}})
    frame.to_csv(file := tmp_path / "t.csv", index=False, sep=";", encoding="utf-8-sig")
    [found] = sentattn.leaderboard(table=str(file), metric="quadratic_kappa").comparisons
    assert list(found.labels) == ["1", "5"]
    assert found.metric.name == "quadratic_kappa"
    assert found.settings[0].metrics["quadratic_kappa"].value > 0.5


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_numbers_of_a_column_with_missing_values_are_numbers(tmp_path: Path, ending: str) -> None:
    new, old = (frame.replace({"no": 0, "yes": 1}) for _, frame in lines().infer_objects().groupby("setting"))
    single = old[old.seed == 0].astype({"predicted": float}).assign(seed=np.nan)
    mixed = pd.concat([new, single], ignore_index=True).astype({"row": float})
    [found] = read(tmp_path, mixed, name=f"t.{ending}")
    assert list(found.labels) == ["0", "1"]
    assert [[run.seed for run in setting.runs] for setting in found.settings] == [[0, 1, 2], [0]]
    assert found.settings[1].deterministic
    for setting, frame in zip(found.settings, (new, single), strict=True):
        assert setting.correct.mean() == pytest.approx((frame.label == frame.predicted).mean())


def test_half_steps_of_a_scale_stay_classes_of_their_own(tmp_path: Path) -> None:
    frame = lines().replace({"no": 1.0, "yes": 1.5})
    [found] = read(
        tmp_path,
        frame.assign(p_1=frame.predicted == 1)
        .rename(columns={"p_1": "p_1.0"})
        .assign(**{"p_1.5": (frame.predicted == 1.5).astype(float)}),
    )
    assert list(found.labels) == ["1", "1.5"]
    assert found.settings[0].correct.mean() > 0.8


def test_a_model_may_miss_the_only_class(tmp_path: Path) -> None:
    [found] = read(tmp_path, lines().assign(label=1).replace({"predicted": {"no": 0, "yes": 0}}))
    assert found.settings[0].correct.mean() == 0


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("data", [["mine", "mine"], ["a", "b"]])
def test_settings_with_probabilities_may_stand_next_to_others(tmp_path: Path, keep: bool, data: list[str]) -> None:
    new, old = (frame.assign(data=name) for name, (_, frame) in zip(data, lines().groupby("setting"), strict=True))
    new = with_probabilities(new) if keep else with_probabilities(new).assign(predicted=None)
    file, again = tmp_path / "t.csv", tmp_path / "again.csv"
    pd.concat([old, new]).to_csv(file, index=False)
    assert main([f"table={file}", "format=predictions", f"output={again}"]) == 0
    for table in (file, again):
        settings = [setting for each in add_tables([str(table)], [], "test") for setting in each.settings]
        found = {setting.name: setting for setting in settings}
        assert found["new"].metrics["log_loss"].value > 0
        assert "log_loss" not in found["old"].metrics
        for name, frame in (("new", lines()[:600]), ("old", lines()[600:])):
            assert found[name].correct.mean() == pytest.approx((frame.label == frame.predicted).mean())


def test_texts_that_occur_twice_make_a_round_trip(tmp_path: Path) -> None:
    labels = np.tile([0, 1], 100)
    for seed in range(3):
        path = make_run(tmp_path / "runs", "model=structured", seed=seed, metrics={"val/accuracy": 0.5})
        places = np.arange(200)
        write_predictions(path, "test", labels, labels, np.eye(2)[labels] * 0.8 + 0.1, rows=places)
        table = pq.read_table(path / "predictions.parquet")
        ids = pa.array([f"{place % 150:016x}" for place in places])
        pq.write_table(
            table.set_column(table.column_names.index("row_id"), "row_id", ids), path / "predictions.parquet"
        )
    file = tmp_path / "t.csv"
    assert main([str(tmp_path / "runs"), "format=predictions", f"output={file}"]) == 0
    [found] = add_tables([str(file)], [], "test")
    assert found.settings[0].metrics["accuracy"].value == 1
    assert len(found.rows.row_ids) == 200
    [joined] = add_tables([str(file)], [compare(tmp_path / "runs")], "test")
    assert len(joined.settings) == 2


@pytest.mark.parametrize("name", ["T.CSV", "t.tsv", "t.csv.gz", "T.Parquet"])
def test_the_formats_that_are_read(tmp_path: Path, name: str) -> None:
    frame = lines()
    if name == "T.Parquet":
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False, sep="\t" if name == "t.tsv" else ",")
    [found] = add_tables([str(tmp_path / name)], [], "test")
    assert [setting.name for setting in found.settings] == ["new", "old"]


def test_what_a_setting_lacks_is_a_dash_and_single_models_have_no_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = (frame for _, frame in lines(seeds=1).drop(columns="seed").groupby("setting"))
    pd.concat([with_probabilities(new), old]).to_csv(file := tmp_path / "t.csv", index=False)
    assert main([f"table={file}"]) == 0
    output = capsys.readouterr().out
    assert "nan" not in output
    assert "1 seeds" not in output


def test_of_many_settings_of_a_table_the_baseline_is_proposed(tmp_path: Path) -> None:
    [found] = read(tmp_path, lines(**{f"s{number}": 0.8 for number in range(7)}))
    assert any("baseline=" in title for title, _ in found.messages)
