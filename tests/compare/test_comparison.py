"""Declared pairs, their tests, and what the messages say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from run_folders import compare, make_run, make_seeds

from sentattn.compare.comparison import Pair, read_comparisons
from sentattn.compare.statistics import difference
from sentattn.run import yaml_text


def declared(folder: Path) -> set[tuple[str, str]]:
    """The names of the declared pairs."""
    return {(first.name, second.name) for first, second in compare(folder).declared}


def test_each_attention_is_declared_against_uniform_weights_over_the_same_encoder(tmp_path: Path) -> None:
    over_words = ("structured", "additive", "feedforward", "lstm_max", "lstm_mean", "lstm", "mean", "transformer")
    make_seeds(tmp_path, dict.fromkeys((*over_words, "relation", "relation_plain"), 0.8), seeds=1)
    assert declared(tmp_path) == {
        ("structured", "lstm_mean"),
        ("additive", "lstm_mean"),
        ("feedforward", "lstm_mean"),
        ("lstm_max", "lstm_mean"),
        ("relation", "relation_plain"),
    }


@pytest.mark.parametrize(
    ("elsewhere", "rows"), [(["optimizer.lr=0.01"], "b"), (["data.vectors=train"], "b"), ([], "a")]
)
def test_settings_that_differ_elsewhere_or_in_their_rows_are_no_declared_pair(
    tmp_path: Path, elsewhere: list[str], rows: str
) -> None:
    make_run(tmp_path, "model=structured", *elsewhere, data_fingerprint=rows)
    make_run(tmp_path, "model=lstm_mean", data_fingerprint="b")
    assert not declared(tmp_path)


def test_settings_that_differ_in_their_vectors_are_named_by_them(tmp_path: Path) -> None:
    vectors = tmp_path / "own.txt"
    vectors.write_text("good 1 2 3\n")
    for chosen in ("null", "train", str(vectors)):
        folder = tmp_path / "outputs" / Path(chosen).stem
        make_run(folder, "model=mean", "model.embedding.size=3", f"data.vectors={chosen}", setting=chosen)
    found = {one.name for one in compare(tmp_path / "outputs").settings}
    assert found == {f"mean; data.vectors={chosen}" for chosen in ("null", "train", "own.txt")}


def train(folder: Path, first: float, second: float, *, seeds: int = 3, rows: int = 4000) -> list[Pair]:
    make_seeds(folder, {"structured": first, "lstm_mean": second}, seeds=seeds, rows=rows)
    return compare(folder).tests


@pytest.mark.parametrize(("first", "second", "verdict"), [(0.9, 0.7, "better"), (0.7, 0.9, "worse")])
def test_a_clear_difference_is_found(tmp_path: Path, first: float, second: float, verdict: str) -> None:
    [pair] = train(tmp_path, first, second)
    assert pair.verdict == verdict
    low, high = pair.estimate.interval()
    assert low < first - second < high
    better = "structured beats lstm_mean" if first > second else "lstm_mean beats structured"
    assert pair.message(0.5).startswith(better)


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_give_values_and_a_command_and_no_verdict(tmp_path: Path, seeds: int) -> None:
    assert train(tmp_path, 0.9, 0.6, seeds=seeds) == []
    found = compare(tmp_path)
    text = "\n".join(line for title, items in found.messages for line in (title, *items))
    assert "%:" not in text  # no interval
    first, second = (one.correct.mean() for one in found.settings)
    assert f"{100 * (first - second):+.2f} points" in text or f"{100 * (second - first):+.2f} points" in text
    for one in found.settings:
        assert f"train from={one.runs[-1].run.path} seed={seeds} seeds={3 - seeds}" in text


def test_one_seed_of_a_deterministic_setting_does(tmp_path: Path) -> None:
    make_seeds(tmp_path, {"structured": 0.9, "lstm_mean": 0.6}, seeds=1, deterministic=True)
    [pair] = compare(tmp_path).tests
    assert pair.verdict == "better"


def test_two_single_models_are_compared_as_models(tmp_path: Path) -> None:
    make_seeds(tmp_path, {"structured": 0.9, "lstm_mean": 0.6}, seeds=1)
    found = compare(tmp_path)
    *_, (sentence, none) = found.messages
    assert none == []
    first, second = (setting.correct for setting in found.settings)
    estimate = difference(first, second, deterministic=(True, True))
    assert f"{100 * estimate.value:+.2f} points, p < 0.0001" in sentence
    assert sentence.startswith("These two trained models")


def test_an_attention_is_tested_against_its_frozen_control(tmp_path: Path) -> None:
    for overrides in (["model=structured"], ["model=structured", "model.freeze_attention=true"], ["model=additive"]):
        make_run(tmp_path, *overrides)
    assert declared(tmp_path) == {("structured", "structured, frozen attention")}


def test_settings_in_no_declared_pair_are_listed(tmp_path: Path) -> None:
    for size in range(50, 57):
        make_run(tmp_path, "model=mean", f"data.train_size={size}", "data.train_seed=1")
    found = compare(tmp_path)
    assert [setting.name for setting in found.settings] in [items for _, items in found.messages]


ATTENDED = ("experiment=attended_ngrams", "data.vectors=null")


def attends(folder: Path) -> set[tuple[object, object]]:
    """What sets the settings of the declared pairs apart: `model.wide.attend`, None without a wide part."""
    return {
        tuple(one.settings["model"].get("wide", {}).get("attend") for one in pair)  # type: ignore[misc]
        for pair in compare(folder).declared
    }


def test_learned_attention_over_ngrams_is_tested_against_uniform_with_all_else_equal(tmp_path: Path) -> None:
    for choice in ("true", "uniform", "false"):
        make_run(tmp_path, *ATTENDED, f"model.wide.attend={choice}")
    make_run(tmp_path, *ATTENDED, "model.wide.attend=uniform", "optimizer.lr=0.01")
    assert attends(tmp_path) == {(True, "uniform")}


def test_a_hybrid_is_tested_against_the_same_without_a_wide_part_and_not_against_another_recipe(tmp_path: Path) -> None:
    make_run(tmp_path, "model=structured", "model/wide=ngrams")
    make_run(tmp_path, "model=structured")
    make_run(tmp_path, "model=wide")
    make_run(tmp_path, "model=structured", "optimizer.lr=0.01")
    assert attends(tmp_path) == {(False, None)}


def test_a_hybrid_is_tested_against_its_wide_part_as_trained_in_it(tmp_path: Path) -> None:
    for share in (0.5, 1):
        make_run(tmp_path, "model=structured", "model/wide=ngrams", f"model.wide.share={share}")
    [(both, alone)] = compare(tmp_path).declared
    assert [one.settings["model"]["wide"]["share"] for one in (both, alone)] == [0.5, 1]


def reference(folder: Path, split: str = "test", **result: Any) -> None:
    """Writes a run of NB-SVM."""
    path = make_run(folder / "reference", "model=mean", deterministic=True, split=split, setting="nbsvm", **result)
    settings = yaml.safe_load((path / "config.yaml").read_text())
    settings["model"] = {"name": "nbsvm", "ngrams": [1, 3]}
    (path / "config.yaml").write_text(yaml_text(settings))


def validated(folder: Path, value: float, *overrides: str, seeds: int = 3, split: str = "test", **result: Any) -> None:
    """Writes runs of a setting with an accuracy on validation rows."""
    for seed in range(seeds):
        make_run(folder, *overrides, seed=seed, split=split, metrics={"val/accuracy": value}, **result)


def test_the_best_setting_against_nbsvm_has_three_seeds_the_same_rows_and_a_value(tmp_path: Path) -> None:
    reference(tmp_path, data_fingerprint="a")
    validated(tmp_path, float("nan"), "model=additive", data_fingerprint="a")
    validated(tmp_path, 0.99, "model=mean", seeds=1, data_fingerprint="a")
    validated(tmp_path, 0.95, "model=lstm_max", data_fingerprint="b")
    validated(tmp_path, 0.8, "model=lstm", data_fingerprint="a")
    validated(tmp_path, 0.7, "model=cnn", data_fingerprint="a")
    pair, *others = compare(tmp_path).declared
    assert not others
    assert [one.settings["model"]["name"] for one in pair] == ["lstm", "nbsvm"]


def test_on_validation_rows_the_best_is_not_tested_against_nbsvm(tmp_path: Path) -> None:
    reference(tmp_path, split="val")
    validated(tmp_path, 0.8, "model=mean", split="val")
    found = compare(tmp_path, "val")
    assert found.declared == []
    assert any("split=test" in title for title, _ in found.messages)


@pytest.mark.parametrize(("accuracy", "better"), [(0.95, 0), (0.6, 1)])
def test_seeds_are_named_in_the_order_of_the_settings(tmp_path: Path, accuracy: float, better: int) -> None:
    make_seeds(tmp_path, {"structured": accuracy}, rows=1000)
    make_seeds(tmp_path, {"lstm_mean": 0.8}, seeds=4, rows=1000)
    [pair] = compare(tmp_path).tests
    text = pair.message(0.5)
    assert text.startswith(f"{('structured', 'lstm_mean')[better]} beats ")
    assert ("3 and 4 seeds", "4 and 3 seeds")[better] in text


@pytest.mark.parametrize("explore", [False, True])
def test_other_pairs_are_exploratory(tmp_path: Path, *, explore: bool) -> None:
    make_seeds(tmp_path, {"structured": 0.9, "lstm_mean": 0.8, "mean": 0.7})
    found = compare(tmp_path, explore=explore).tests
    assert [pair.declared for pair in found] == [True] + [False] * (2 if explore else 1)
    assert {"structured", "mean"} in [{pair.first.name, pair.second.name} for pair in found[1:]]
    for pair in found[1:]:
        text = pair.message(0.5)
        assert " is above " in text
        assert "p =" not in text
        assert "p <" not in text


@pytest.mark.parametrize(("seeds", "is_known"), [(3, False), (5, True)])
def test_the_power_of_an_undecided_pair_is_named_from_five_seeds_on(tmp_path: Path, seeds: int, is_known: bool) -> None:
    [pair] = train(tmp_path, 0.8, 0.8, seeds=seeds, rows=200)
    assert pair.verdict == "undecided"
    assert ("8 of 10 repetitions" in pair.message(0.5)) is is_known


@pytest.mark.parametrize(("films", "tested", "is_few"), [(2, 0, False), (4, 1, True), (20, 1, False)])
def test_few_groups_of_rows_are_named_and_two_give_no_verdict(
    tmp_path: Path, films: int, tested: int, is_few: bool
) -> None:
    make_seeds(tmp_path, {"structured": 0.8, "lstm_mean": 0.8}, rows=800, films=films)
    found = compare(tmp_path)
    assert len(found.tests) == tested
    text = "\n".join(title for title, _ in found.messages)
    assert ("degrees of freedom" in text) is is_few
    assert ("too few, or too uneven" in text) is not tested


def test_of_more_than_six_settings_no_pair_is_explored_unless_asked_for(tmp_path: Path) -> None:
    for number in range(7):
        make_run(tmp_path, f"model.attention.hops={number + 1}", deterministic=True)
    found = compare(tmp_path)
    assert found.tests == []
    assert any("pairs=all" in title for title, _ in found.messages)


def test_pairs_that_cannot_be_tested_are_not_counted(tmp_path: Path) -> None:
    train(tmp_path, 0.9, 0.7)
    before = compare(tmp_path).tests[0]
    make_run(tmp_path, "model=additive", rows=4000)
    [after] = [one for one in compare(tmp_path).tests if one.declared]
    assert (after.p_difference, after.level) == (before.p_difference, 0.05)
    assert compare(tmp_path).messages[0][0].startswith("1 declared pair,")


def test_printed_intervals_are_those_of_the_verdicts(tmp_path: Path) -> None:
    make_seeds(tmp_path, {"structured": 0.9, "additive": 0.8, "feedforward": 0.79, "lstm_mean": 0.79}, rows=4000)
    found = [pair for pair in compare(tmp_path, margin=5).tests if pair.declared]
    assert len(found) == 3
    assert {pair.level for pair in found} == {0.05 / 3}
    for pair in found:
        assert pair.p_difference == pytest.approx(min(1, 3 * pair.estimate.p_difference()))
        of_difference, (low, high) = pair.intervals
        assert (pair.p_difference < 0.05) == (of_difference[0] > 0 or of_difference[1] < 0)
        assert (pair.p_equivalence < 0.05) == (-0.05 < low and high < 0.05)


def test_a_lucky_setting_with_too_few_seeds_does_not_keep_others_from_being_compared(tmp_path: Path) -> None:
    make_seeds(tmp_path, {"cnn": 0.9, "mean": 0.7})
    make_run(tmp_path, "model=lstm", accuracy=0.99)
    [pair] = compare(tmp_path).tests
    assert {pair.first.name, pair.second.name} == {"cnn", "mean"}
    assert any("lstm" in item for _, items in compare(tmp_path).messages for item in items)


def test_settings_with_other_draws_of_their_rows_lack_no_seeds(tmp_path: Path) -> None:
    for draw in range(3):
        make_run(tmp_path, "model=structured", "data.train_size=100", f"data.train_seed={draw}")
    make_run(tmp_path, "model=mean")
    [commands] = [items for title, items in compare(tmp_path).messages if "To train the others" in title]
    assert [command.partition(":")[0] for command in commands] == ["mean"]


def test_versions_of_the_same_data_are_told_apart(tmp_path: Path) -> None:
    make_run(tmp_path, "model=mean", rows_seed=0, data_fingerprint="aa")
    assert [one.title for one in read_comparisons([tmp_path], split="test")[0]] == ["demo, split test"]
    make_run(tmp_path, "model=structured", rows_seed=1, data_fingerprint="bb")
    titles = {one.title for one in read_comparisons([tmp_path], split="test")[0]}
    assert titles == {f"demo, split test, data_fingerprint {name}" for name in ("aa", "bb")}
