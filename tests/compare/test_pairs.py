"""Declared pairs, their tests, and what the messages say."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folders import make_run

from sentattn.compare.pairs import Pair, declared, messages, of_two_models, pairs
from sentattn.compare.runs import Comparison, comparisons


def compare(folder: Path) -> Comparison:
    [found], _ = comparisons([folder], split="test")
    return found


def names(found: list[tuple]) -> set[tuple[str, str]]:
    return {(first.name, second.name) for first, second in found}


def test_each_attention_is_declared_against_uniform_weights_over_the_same_encoder(tmp_path: Path) -> None:
    for model in ("structured", "additive", "feedforward", "lstm_max", "lstm_mean", "lstm", "mean", "transformer"):
        make_run(tmp_path, f"model={model}")
    for model in ("relation", "relation_plain"):
        make_run(tmp_path, f"model={model}")
    assert names(declared(compare(tmp_path))) == {
        ("structured", "lstm_mean"),
        ("additive", "lstm_mean"),
        ("feedforward", "lstm_mean"),
        ("lstm_max", "lstm_mean"),
        ("relation", "relation_plain"),
    }


@pytest.mark.parametrize("elsewhere", ["optimizer.lr=0.01", "data.vectors=train"])
def test_settings_that_differ_elsewhere_are_no_declared_pair(tmp_path: Path, elsewhere: str) -> None:
    make_run(tmp_path, "model=structured", elsewhere)
    make_run(tmp_path, "model=lstm_mean")
    assert not declared(compare(tmp_path))


def test_settings_that_differ_in_their_vectors_are_named_by_them(tmp_path: Path) -> None:
    vectors = tmp_path / "own.txt"
    vectors.write_text("good 1 2 3\n")
    for chosen in ("null", "train", str(vectors)):
        folder = tmp_path / "outputs" / Path(chosen).stem
        make_run(folder, "model=mean", "model.embedding.size=3", f"data.vectors={chosen}", setting=chosen)
    found = {one.name for one in compare(tmp_path / "outputs").settings}
    assert found == {f"mean; data.vectors={chosen}" for chosen in ("null", "train", "own.txt")}


def train(folder: Path, first: float, second: float, *, seeds: int = 3, rows: int = 4000) -> list[Pair]:
    for seed in range(seeds):
        make_run(folder, "model=structured", seed=seed, accuracy=first, rows=rows)
        make_run(folder, "model=lstm_mean", seed=seed, accuracy=second, rows=rows)
    return pairs(compare(folder), margin=0.5)


def test_a_clear_difference_is_found(tmp_path: Path) -> None:
    [pair] = train(tmp_path, 0.9, 0.7)
    assert pair.verdict == "better"
    assert pair.estimate is not None
    low, high = pair.estimate.interval()
    assert low < 0.2 < high
    assert "structured beats lstm_mean by" in pair.message(0.5)


def test_the_same_difference_the_other_way_round(tmp_path: Path) -> None:
    [pair] = train(tmp_path, 0.7, 0.9)
    assert pair.verdict == "worse"
    assert "lstm_mean beats structured by" in pair.message(0.5)


def test_no_difference_is_undecided_or_equivalent(tmp_path: Path) -> None:
    [pair] = train(tmp_path, 0.8, 0.8)
    assert pair.verdict in {"undecided", "equivalent"}


def test_one_seed_gives_no_verdict(tmp_path: Path) -> None:
    [pair] = train(tmp_path, 0.9, 0.6, seeds=1)
    assert pair.estimate is None
    assert pair.verdict == "undecided"


def test_one_seed_of_a_deterministic_setting_does(tmp_path: Path) -> None:
    make_run(tmp_path, "model=structured", accuracy=0.9, deterministic=True)
    make_run(tmp_path, "model=lstm_mean", accuracy=0.6, deterministic=True)
    [pair] = pairs(compare(tmp_path), margin=0.5)
    assert pair.verdict == "better"


def test_two_single_models_are_compared_as_models(tmp_path: Path) -> None:
    make_run(tmp_path, "model=structured", accuracy=0.9)
    make_run(tmp_path, "model=lstm_mean", accuracy=0.6)
    found = compare(tmp_path)
    [(_, none), (sentence, also_none)] = messages(found, margin=0.5)
    assert none == also_none == []
    assert sentence == of_two_models(*found.settings, found)
    assert sentence.startswith("These two trained models")


def test_an_attention_is_tested_against_its_frozen_control(tmp_path: Path) -> None:
    for overrides in (["model=structured"], ["model=structured", "model.freeze_attention=true"], ["model=additive"]):
        for seed in range(2):
            make_run(tmp_path, *overrides, seed=seed)
    [(trained, control)] = declared(compare(tmp_path))
    assert [one.settings["model"].get("freeze_attention", False) for one in (trained, control)] == [False, True]


@pytest.mark.parametrize("wide", [["ngrams"], ["attended_ngrams", "optimizer.lr=0.002", "loss.label_smoothing=0"]])
def test_a_model_with_a_wide_part_is_tested_against_that_part_alone(wide: list[str], tmp_path: Path) -> None:
    choice, *others = wide
    for overrides in (["model=structured", f"model/wide={choice}", *others], ["model=wide"], ["model=structured"]):
        for seed in range(2):
            make_run(tmp_path, *overrides, seed=seed)
    [(both, alone)] = declared(compare(tmp_path))
    assert [one.settings["model"]["name"] for one in (both, alone)] == ["structured", "wide"]
    assert both.settings["model"]["wide"]["orders"] == alone.settings["model"]["wide"]["orders"]


@pytest.mark.parametrize(("accuracy", "better"), [(0.95, 0), (0.6, 1)])
def test_seeds_are_named_in_the_order_of_the_settings(tmp_path: Path, accuracy: float, better: int) -> None:
    for seed in range(3):
        make_run(tmp_path, "model=structured", seed=seed, accuracy=accuracy, rows=1000)
    for seed in range(2):
        make_run(tmp_path, "model=lstm_mean", seed=seed, accuracy=0.8, rows=1000)
    [pair] = pairs(compare(tmp_path), margin=0.5)
    text = pair.message(0.5)
    assert text.startswith(f"{('structured', 'lstm_mean')[better]} beats ")
    assert ("3 and 2 seeds", "2 and 3 seeds")[better] in text


@pytest.mark.parametrize("explore", [False, True])
def test_other_pairs_are_exploratory(tmp_path: Path, *, explore: bool) -> None:
    for model in ("structured", "lstm_mean", "mean"):
        for seed in range(2):
            make_run(tmp_path, f"model={model}", seed=seed)
    found = pairs(compare(tmp_path), margin=0.5, explore=explore)
    assert [pair.declared for pair in found] == [True] + [False] * (2 if explore else 0)


def test_declared_pairs_are_one_family(tmp_path: Path) -> None:
    for model in ("structured", "additive", "lstm_mean"):
        for seed in range(3):
            make_run(tmp_path, f"model={model}", seed=seed, accuracy=0.82 if model != "lstm_mean" else 0.8)
    for pair in pairs(compare(tmp_path), margin=0.5):
        assert pair.estimate is not None
        assert pair.p_difference >= pair.estimate.p_difference()
