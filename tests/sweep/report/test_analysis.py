"""Best trials, and importances of settings on trials whose answer is known."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from fake_records import record
from plans import plan

from sentattn.sweep.plan import Objective
from sentattn.sweep.records import Record
from sentattn.sweep.report import analysis
from sentattn.sweep.report.analysis import as_study, disagreement, front, importances, most_balanced

ACCURACY = Objective("val/accuracy", "max")
SPACE = {
    "optimizer.lr": "tag(log,interval(1e-4,1))",
    "loss.penalty": "tag(log,zero,interval(1e-3,1))",
    "model/pooling": "choice(flatten,prune)",
    "model.pooling.p": ("range(1,9)", {"model/pooling": ("prune",)}),
}


def random_trials(count: int, sign: float = 1.0) -> list[Record]:
    """Random trials in which the learning rate alone decides."""
    source = random.Random(0)
    found = []
    for number in range(count):
        power = source.uniform(-4, 0)
        pooling = source.choice(["flatten", "prune"])
        values = {"optimizer.lr": 10**power, "loss.penalty": source.choice([0.0, 1e-3, 0.1]), "model/pooling": pooling}
        values |= {"model.pooling.p": source.randint(1, 8)} if pooling == "prune" else {}
        found.append(record(number, -sign * (power + 2) ** 2, values=values))
    return found


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_only_setting_that_matters_comes_first_by_both(mode: Literal["max", "min"]) -> None:
    trials = random_trials(60, 1.0 if mode == "max" else -1.0)
    found = importances(trials, plan(SPACE).space, [Objective("val/accuracy", mode)], 0, "random")
    assert found is not None
    assert found.fanova is not None
    assert next(iter(found.ped_anova)) == next(iter(found.fanova)) == "optimizer.lr"
    assert found.fanova["optimizer.lr"] > 0.9
    assert set(found.ped_anova) == set(SPACE)
    assert set(found.fanova) == set(SPACE) - {"model.pooling.p"}
    assert sum(found.ped_anova.values()) == pytest.approx(1)
    assert sum(found.fanova.values()) == pytest.approx(1)
    assert found.caution == ""
    assert found.ranking[0] == "optimizer.lr"


def test_few_or_equal_trials_have_none() -> None:
    space = plan(SPACE).space
    assert importances(random_trials(3), space, [ACCURACY], 0, "tpe") is None
    same = [record(one.number, 0.5, values=one.values) for one in random_trials(20)]
    assert importances(same, space, [ACCURACY], 0, "tpe") is None
    failed = [record(one.number, None, values=one.values) for one in random_trials(20)]
    assert importances(failed, space, [ACCURACY], 0, "tpe") is None


def test_without_scikit_learn_there_is_one_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    def missing(**_: object) -> None:
        raise ImportError("scikit-learn")

    monkeypatch.setattr(optuna.importance, "FanovaImportanceEvaluator", missing)
    found = importances(random_trials(20), plan(SPACE).space, [ACCURACY], 0, "tpe")
    assert found is not None
    assert found.fanova is None
    assert found.ranking == list(found.ped_anova)


def test_of_many_trials_a_forest_looks_at_an_even_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(analysis, "MAX_FANOVA_TRIALS", 10)
    monkeypatch.setattr(analysis, "_fanova", lambda study: seen.extend(trial.value for trial in study.trials))
    found = random_trials(35)
    importances(found, plan(SPACE).space, [ACCURACY], 0, "tpe")
    assert seen == [one.objectives[0] for one in found[::4] if one.objectives]


@pytest.mark.parametrize(
    ("ped", "fanova", "says"),
    [
        ({"a": 0.6, "b": 0.4}, {"a": 0.7, "b": 0.3}, ""),
        (
            {"a": 0.78, "b": 0.22},
            {"a": 0.01, "b": 0.99},
            "PED-ANOVA ranks a first (0.78; fANOVA: 0.01), fANOVA ranks b",
        ),
        (
            {"a": 0.9, "b": 0.06, "c": 0.04},
            {"a": 0.5, "b": 0.25, "c": 0.25},
            "They differ on a: 0.90 by PED-ANOVA, 0.50",
        ),
        # A setting under a condition has no part in the comparison: 0.3 and 0.1 of 0.4 are 0.75 and 0.25.
        ({"c": 0.6, "a": 0.3, "b": 0.1}, {"a": 0.75, "b": 0.25}, ""),
    ],
)
def test_the_report_says_where_the_measures_disagree(
    ped: dict[str, float], fanova: dict[str, float], says: str
) -> None:
    text = disagreement(ped, fanova, "tpe")
    assert text.startswith(says)
    assert bool(text) == bool(says)
    assert ("concentrates" in text) == bool(says)
    assert "concentrates" not in disagreement(ped, fanova, "random")


def test_the_most_balanced_point_by_hand() -> None:
    # Accuracy from 0.90 (best) to 0.80, latency from 1 (best) to 5: distances to (0.90, 1) in shares of these ranges
    # are 1 for both ends; the middle point lies at (0.2, 0.25), at sqrt(0.04 + 0.0625) = 0.32.
    assert most_balanced([(0.90, 5.0), (0.88, 2.0), (0.80, 1.0)], ["max", "min"]) == 1
    assert most_balanced([(0.7, 1.0)], ["max", "min"]) == 0


@pytest.mark.parametrize(("mode", "number"), [("max", 1), ("min", 0)])
def test_the_first_of_equals_is_the_best(mode: Literal["max", "min"], number: int) -> None:
    found = [record(0, 0.5), record(1, 0.7), record(2, 0.7), record(3, 0.5)]
    [best] = front(found, [Objective("val/accuracy", mode)])
    assert best.number == number


def test_a_front_has_every_trial_that_no_other_one_beats_equals_included() -> None:
    two = (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))
    values = [(0.9, 5.0), (0.8, 1.0), (0.8, 2.0), (0.8, 1.0), (0.7, 1.5)]
    found = [record(n, one) for n, one in enumerate(values)]
    assert sorted(one.number for one in front([*found, record(5)], two)) == [0, 1, 3]
    assert front([record(0)], two) == []


def test_only_complete_trials_have_parameters_and_values_in_optuna() -> None:
    """A trial of an earlier space may have values that the space of today refuses."""
    values = {"loss.penalty": 0.0, "model.attention.hops": 5}
    states = ("complete", "pruned", "running", "failed", "interrupted", "outside")
    found = [
        record(n, 0.5 if s in ("complete", "outside") else None, state=s, values=values) for n, s in enumerate(states)
    ]
    study = as_study(found, plan(SPACE).space, [ACCURACY])
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "RUNNING", "FAIL", "FAIL", "FAIL"]
    assert [set(trial.params) for trial in study.trials] == [{"loss.penalty"}, *[set()] * 5]
    assert study.best_trial.number == 0
