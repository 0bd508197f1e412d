"""Samplers and pruners by name: their settings, what does not go together, and how they continue a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from plans import PRUNE, plan
from studies import run, tell

from sentattn.errors import Fault, SettingError
from sentattn.sweep.spec.components import (
    PRUNERS,
    SAMPLERS,
    build_pruner,
    build_sampler,
    check_pruner,
    check_sampler,
    default_pruner,
)
from sentattn.sweep.spec.config import read_plan
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy

NUMBERS = {"optimizer.lr": "tag(log,interval(1e-4,1))", "model.encoder.dropout": "interval(0,1)"}
FINITE = {"model.attention.hops": "range(1,4)", "model/pooling": "choice(flatten,prune)"}
CONDITIONAL = {**FINITE, "model.pooling.p": ("range(8,10)", PRUNE)}


@pytest.mark.parametrize("name", ["qmc", "grid", "brute_force", "nsgaii", "tpe"])
def test_samplers_go_on_where_they_were(tmp_path: Path, name: str) -> None:
    space = {"model.attention.hops": "choice(1,2,3)", "model/pooling": "choice(flatten,mean)"}
    if name not in ("grid", "brute_force"):
        space = {"optimizer.lr": "interval(0.001,1)", "loss.label_smoothing": "interval(0,1)"}
    whole, parts = plan(space, sampler={"name": name}, trials=6), tmp_path / "parts"
    for count in (1, 2, 4, 6):
        run(replace(whole, trials=count), parts)
    found = [tuple(record.values.items()) for record in read(parts)]
    assert len(set(found)) == 6
    if name == "qmc":
        run(whole, tmp_path / "whole")
        rest = [tuple(record.values.items()) for record in read(tmp_path / "whole")]
        assert found[1:] == rest[1:]  # the first is drawn before the sequence


@pytest.mark.parametrize("name", ["grid", "brute_force"])
def test_every_point_once_and_then_no_more(tmp_path: Path, name: str) -> None:
    space = {"model.attention.hops": "range(1,4)", "model/pooling": "choice(flatten,mean)"}
    one = plan(space, sampler={"name": name}, trials=100, retries=1)
    with SweepStudy.open(one, tmp_path) as study:
        first = study.ask()
        assert first
        tell(study, first.number, state="failed", retry=True)
        while asked := study.ask():
            tell(study, asked.number, 0.5)
        assert "all 6 points" in study.ended()
        assert study.ended()
    found = [tuple(r.values.values()) for r in read(tmp_path) if r.state == "complete"]
    assert sorted(map(str, found)) == sorted(str((hops, way)) for hops in (1, 2, 3) for way in ("flatten", "mean"))


def test_brute_force_knows_conditions(tmp_path: Path) -> None:
    space = {"model/pooling": "choice(flatten,prune)", "model.pooling.p": ("range(8,11)", PRUNE)}
    run(plan(space, sampler={"name": "brute_force"}, trials=100), tmp_path)
    assert len(read(tmp_path)) == 1 + 3


def test_the_default_spares_all_but_the_lowest_quarter(tmp_path: Path) -> None:
    """Of 0.2, 0.4, 0.6 and 0.8 the 25th percentile is 0.35; with two complete trials nothing is compared yet."""
    one = plan(pruner={"name": default_pruner(1, 1)}, trials=9)
    with SweepStudy.open(one, tmp_path) as study:

        def ends_early(value: float) -> bool:
            asked = study.ask()
            assert asked
            ended = study.report(asked.number, 1, value)
            tell(study, asked.number, *([] if ended else [value]), state="pruned" if ended else "complete")
            return ended

        assert [ends_early(value) for value in (0.8, 0.6, 0.2, 0.4)] == [False] * 4
        assert [ends_early(value) for value in (0.34, 0.36)] == [True, False]


def test_the_demo_sweep_lets_trials_with_small_learning_rates_warm_up(tmp_path: Path) -> None:
    one = plan(pruner=read_plan(["sweep=default"]).pruner, trials=9)
    with SweepStudy.open(one, tmp_path) as study:
        for _ in range(3):
            asked = study.ask()
            assert asked
            assert not any(study.report(asked.number, epoch, 0.8) for epoch in (1, 2, 3))
            tell(study, asked.number, 0.8)
        asked = study.ask()
        assert asked
        assert [study.report(asked.number, epoch, 0.5) for epoch in (1, 2, 3)] == [False, False, True]


def test_the_median_prunes(tmp_path: Path) -> None:
    one = plan(pruner={"name": "median", "n_startup_trials": 2}, trials=3)
    for value in (0.8, 0.9, 0.1):
        with SweepStudy.open(one, tmp_path) as study:
            asked = study.ask()
            assert asked
            is_pruned = study.report(asked.number, 1, value)
            tell(study, asked.number, *([] if is_pruned else [value]), state="pruned" if is_pruned else "complete")
            assert bool(study.ended()) == is_pruned == (value == 0.1)
    last = read(tmp_path)[-1]
    assert (last.state, last.steps, last.objectives) == ("pruned", {1: 0.1}, None)


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "cmaes"])
def test_samplers_are_optunas_with_our_seed(name: str) -> None:
    one = plan(FINITE, sampler={"name": name}, seed=3)
    assert check_sampler(one.sampler, one.space, 1) == []
    first, second = (optuna.create_study(sampler=build_sampler(one)) for _ in range(2))
    for study in (first, second):
        for _ in range(3):
            trial = study.ask({key: dimension.distribution for key, dimension in one.space.items()})
            study.tell(trial, 0.0)
    assert [trial.params for trial in first.trials] == [trial.params for trial in second.trials]


@pytest.mark.parametrize("name", ["tpe", "random", "nsgaii", "brute_force"])
def test_a_continued_study_has_draws_of_its_own(name: str) -> None:
    one = plan(NUMBERS if name != "brute_force" else FINITE, sampler={"name": name})
    draws = []
    for past in (0, 1, 2):
        study = optuna.create_study(sampler=build_sampler(one, past=past))
        draws.append(tuple(study.ask({key: d.distribution for key, d in one.space.items()}).params.items()))
    assert len(set(draws)) > 1


def test_our_defaults_and_what_replaces_them() -> None:
    sampler = build_sampler(plan(sampler={"name": "nsgaii", "population_size": 7}))
    assert isinstance(sampler, optuna.samplers.NSGAIISampler)
    assert sampler.population_size == 7
    assert isinstance(build_sampler(plan(sampler={"name": "nsgaii"})), optuna.samplers.NSGAIISampler)


@pytest.mark.parametrize(
    ("words", "faults"),
    [
        (["trust=true"], []),
        ([], [("sampler._target_", "unsafe")]),
        (["trust=true", "sampler._target_=optuna.pruners.NopPruner"], [("_target_", "type")]),
        (["trust=true", "sampler._target_=optuna.samplers.Nowhere"], [("_target_", "not_found")]),
        (["trust=true", "sampler.sed=5"], [("sampler", "conflict")]),
    ],
)
def test_a_class_of_ones_own_needs_trust(words: list[str], faults: list[tuple[str, str]]) -> None:
    typed = {"sampler._target_": "optuna.samplers.RandomSampler", "sampler.seed": "5"}
    typed |= dict(word.split("=", 1) for word in words)
    command = ["optimizer.lr=interval(0.001,0.01)", *(f"{key}={text}" for key, text in typed.items())]
    if faults:
        with pytest.raises(SettingError) as caught:
            read_plan(command)
        assert kinds([*caught.value.faults]) == faults
    else:
        one = read_plan(command)
        assert isinstance(build_sampler(one), optuna.samplers.RandomSampler)
        assert not [word for word in one.overrides if word.startswith("trust")]


def kinds(faults: list[Fault]) -> list[tuple[str, str]]:
    return [(fault.key, fault.kind) for fault in faults]


@pytest.mark.parametrize(
    ("sampler", "key", "kind"),
    [
        ({"name": "tpee"}, "sampler", "unknown"),
        ({"name": 3}, "sampler", "unknown"),
        ({"name": "tpe", "multivariat": True}, "sampler.multivariat", "unknown"),
        ({"name": "tpe", "multivariate": 3}, "sampler.multivariate", "type"),
        ({"name": "tpe", "multivariate": False, "group": True}, "sampler", "conflict"),
        ({"name": "random", "seed": 3}, "sampler.seed", "unknown"),
        ({"name": "nsgaii", "population_size": 1}, "sampler", "conflict"),
    ],
)
def test_faults_of_a_sampler(sampler: dict[str, object], key: str, kind: str) -> None:
    assert kinds(check_sampler(sampler, plan(NUMBERS).space, 1)) == [(key, kind)]


def test_samplers_and_spaces_that_do_not_go_together() -> None:
    conflict = [("sampler", "conflict")]
    assert kinds(check_sampler({"name": "grid"}, plan(NUMBERS).space, 1)) == conflict
    assert kinds(check_sampler({"name": "grid"}, plan(CONDITIONAL).space, 1)) == conflict
    assert check_sampler({"name": "brute_force"}, plan(CONDITIONAL).space, 1) == []
    large = plan({f"x{number}": "range(0,1000)" for number in range(3)}).space
    assert kinds(check_sampler({"name": "grid"}, large, 1)) == conflict


def test_cmaes_needs_its_package_one_objective_and_two_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    cmaes, conflict = {"name": "cmaes"}, [("sampler", "conflict")]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert kinds(check_sampler(cmaes, plan(NUMBERS).space, 1)) == conflict
    monkeypatch.setattr("importlib.util.find_spec", lambda _: "found")
    assert check_sampler(cmaes, plan(NUMBERS).space, 1) == []
    assert kinds(check_sampler(cmaes, plan(NUMBERS).space, 2)) == conflict
    assert kinds(check_sampler(cmaes, plan(FINITE).space, 1)) == conflict


@pytest.mark.parametrize(
    ("pruner", "objectives", "repeats", "key", "kind"),
    [
        ({"name": "medain"}, 1, 1, "pruner", "unknown"),
        ({"name": "median"}, 2, 1, "pruner", "conflict"),
        ({"name": "median"}, 1, 3, "pruner", "conflict"),
        ({"name": "wilcoxon"}, 1, 1, "pruner", "conflict"),
        ({"name": "percentile", "percentile": 120.0}, 1, 1, "pruner", "conflict"),
        ({"name": "threshold"}, 1, 1, "pruner", "conflict"),
        ({"name": "none", "x": 1}, 1, 1, "pruner.x", "unknown"),
    ],
)
def test_faults_of_a_pruner(pruner: dict[str, object], objectives: int, repeats: int, key: str, kind: str) -> None:
    assert kinds(check_pruner(pruner, objectives, repeats)) == [(key, kind)]


@pytest.mark.parametrize(("objectives", "repeats"), [(1, 1), (1, 4), (2, 1), (2, 4)])
def test_the_default_pruner_fits(objectives: int, repeats: int) -> None:
    assert check_pruner({"name": default_pruner(objectives, repeats)}, objectives, repeats) == []


@pytest.mark.parametrize("name", [name for name in PRUNERS if name != "threshold"])
def test_pruners_are_optunas(name: str) -> None:
    assert isinstance(build_pruner(plan(pruner={"name": name})), optuna.pruners.BasePruner)
