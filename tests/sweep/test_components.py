"""Samplers and pruners by name: their settings, what does not go together, and how they continue a study."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import TrialState
from plans import plan

from sentattn.config.search_space import suggest
from sentattn.sweep.config import read_plan
from sentattn.sweep.plan import (
    PRUNERS,
    SAMPLERS,
    Plan,
    build_pruner,
    build_sampler,
    check_pruner,
    check_sampler,
    default_pruner,
)

NUMBERS = {"optimizer.lr": "tag(log,interval(1e-4,1))", "model.encoder.dropout": "interval(0,1)"}
FINITE = {"model.attention.hops": "range(1,4)", "model/pooling": "choice(flatten,prune)"}


def go_on(one: Plan, storage: BaseStorage, count: int) -> list[dict[str, Any]]:
    """Runs some trials of a study, as another start of its scheduler does; returns the values of all."""
    study = optuna.create_study(study_name="mine", storage=storage, load_if_exists=True, direction="maximize")
    study.sampler = build_sampler(one, past=len(study.trials))
    for _ in range(count):
        trial = study.ask()
        suggest(trial, one.space)
        study.tell(trial, 0.5)
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("name", ["qmc", "nsgaii", "tpe", "random"])
def test_samplers_go_on_where_they_were(name: str) -> None:
    space = {"optimizer.lr": "interval(0.001,1)", "loss.label_smoothing": "interval(0,1)"}
    one, parts = plan(space, sampler={"name": name}), InMemoryStorage()
    found = [go_on(one, parts, count) for count in (1, 1, 2, 2)][-1]
    assert len({str(values) for values in found}) == 6
    if name == "qmc":
        assert found[1:] == go_on(one, InMemoryStorage(), 6)[1:]  # the first is drawn before the sequence


def pruned(study: optuna.Study, *values: float) -> list[bool]:
    """Reports the epochs of a trial, which ends at its last; returns where it was to be pruned."""
    trial, ends = study.ask(), []
    for epoch, value in enumerate(values, start=1):
        trial.report(value, epoch)
        ends.append(trial.should_prune())
    study.tell(trial, values[-1]) if not ends[-1] else study.tell(trial, state=TrialState.PRUNED)
    return ends


def test_the_default_spares_all_but_the_lowest_quarter() -> None:
    """Of 0.2, 0.4, 0.6 and 0.8 the 25th percentile is 0.35; with two complete trials nothing is compared yet."""
    study = optuna.create_study(direction="maximize", pruner=build_pruner({"name": default_pruner(1, 1)}))
    assert [pruned(study, value) for value in (0.8, 0.6, 0.2, 0.4)] == [[False]] * 4
    assert [pruned(study, value) for value in (0.34, 0.36)] == [[True], [False]]


def test_the_demo_sweep_lets_trials_with_small_learning_rates_warm_up() -> None:
    study = optuna.create_study(direction="maximize", pruner=build_pruner(read_plan(["sweep=default"]).pruner))
    assert not any(any(pruned(study, 0.8, 0.8, 0.8)) for _ in range(3))
    assert pruned(study, 0.5, 0.5, 0.5) == [False, False, True]


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


def test_what_is_set_replaces_our_defaults() -> None:
    sampler = build_sampler(plan(sampler={"name": "nsgaii", "population_size": 7}))
    assert isinstance(sampler, optuna.samplers.NSGAIISampler)
    assert sampler.population_size == 7


def test_cmaes_needs_its_package_one_objective_and_two_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    def kinds(space: dict[str, str], objectives: int) -> list[str]:
        return [fault.kind for fault in check_sampler({"name": "cmaes"}, plan(space).space, objectives)]

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert kinds(NUMBERS, 1) == ["conflict"]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: "found")
    assert (kinds(NUMBERS, 1), kinds(NUMBERS, 2), kinds(FINITE, 1)) == ([], ["conflict"], ["conflict"])


@pytest.mark.parametrize(("objectives", "repeats"), [(1, 1), (1, 4), (2, 1), (2, 4)])
def test_the_default_pruner_fits(objectives: int, repeats: int) -> None:
    assert check_pruner({"name": default_pruner(objectives, repeats)}, objectives, repeats) == []


@pytest.mark.parametrize("name", [name for name in PRUNERS if name != "threshold"])
def test_pruners_are_optunas(name: str) -> None:
    assert isinstance(build_pruner({"name": name}), optuna.pruners.BasePruner)
