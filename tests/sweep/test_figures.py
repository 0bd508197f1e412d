"""The figures of the report: which there are, of which trials, and that no text is markup."""

from __future__ import annotations

import random
from typing import Any

from fake_records import record, study_of
from optuna.trial import FrozenTrial
from plans import SPACE, plan

from sentattn.sweep.plan import Objective
from sentattn.sweep.report import Charts

TWO = (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))


def trials(count: int = 24, **changed: Any) -> list[FrozenTrial]:
    """Trials of the default space: every third one without a penalty, every third one pruned by a last one."""
    source = random.Random(0)
    found = []
    for number in range(count):
        pooling = ("flatten", "prune", "mean")[number % 3]
        penalty = 0.0 if number % 3 == 0 else 10 ** source.uniform(-3, 0)
        values = {"model.attention.hops": 1 + number % 30, "loss.penalty": penalty, "model/pooling": pooling}
        values |= {"model.pooling.p": 8 + number} if pooling == "prune" else {}
        steps = {1: 0.4, 2: 0.5 + number / 1000}
        usual: dict[str, Any] = {"objectives": 0.5 + number / 1000, "values": values, "steps": steps}
        found.append(record(number, **(usual | changed)))
    return found


def charts(found: list[FrozenTrial], **changed: Any) -> Charts:
    return Charts(plan(**changed), study_of(plan(**changed), found))


def test_the_history_has_the_value_of_every_trial_and_the_best_so_far() -> None:
    reached = [0.5, 0.7, 0.6, 0.8]
    [(_, figure)] = charts([record(number, value) for number, value in enumerate(reached)]).history()
    points, best = figure.data[:2]
    assert (list(points.y), list(best.y)) == (reached, [0.5, 0.7, 0.7, 0.8])


def test_slices_have_the_values_of_their_own_trials() -> None:
    found = trials()
    slices = charts(found).slices()
    assert len(slices) == len(SPACE)
    for title, figure in slices:
        key, _, unset = title.partition(",")
        have = [one for one in found if key in one.params]
        expected = {(plan().space[key].drawn(one.params[key]), one.values[0]) for one in have}
        points = figure.data[0]
        places = [x.strip("'") if isinstance(x, str) else x for x in points.x]
        assert set(zip(places, points.y, strict=True)) == expected
        assert bool(unset) == (len(have) < len(found))


def test_a_setting_of_one_trial_has_no_slice() -> None:
    values = [{"model.attention.hops": 1, "model.pooling.p": 8}, {"model.attention.hops": 2}]
    found = [record(number, 0.5, values=values[number]) for number in range(2)]
    assert [title for title, _ in charts(found).slices()] == ["model.attention.hops"]


def test_a_choice_called_none_is_told_apart_from_a_setting_that_was_not_set() -> None:
    prune = {"model/pooling": ("prune",)}
    space = {"model/pooling": "choice(prune,mean)", "tags": ("choice(None,x)", prune)}
    values = [{"model/pooling": "prune", "tags": "None"}, {"model/pooling": "mean"}]
    found = [record(n, 0.5 + n / 10, values=values[n % 2]) for n in range(6)]
    drawn = charts(found, space=space)
    [tags] = [figure for title, figure in drawn.slices() if title.startswith("tags")]
    assert [x.strip("'") for x in tags.data[0].x] == ["None"] * 3


def test_importances_are_bars() -> None:
    shares = {"loss.penalty": 0.75, "model.attention.hops": 0.25}
    [(_, drawn)] = charts(trials()).importances(shares)
    [bars] = drawn.data
    assert dict(zip(bars.y, bars.x, strict=True)) == shares
    assert drawn.layout.yaxis.autorange == "reversed", "the largest is at the top"
    assert charts(trials()).importances({}) == []


def test_several_objectives_have_a_front_and_charts_each() -> None:
    found = [record(one.number, (0.5 + one.number / 1000, 1.0 + one.number), values=one.params) for one in trials()]
    drawn = charts(found, objectives=TWO)
    [(_, pareto)] = drawn.pareto()
    assert (pareto.layout.xaxis.title.text, pareto.layout.yaxis.title.text) == (
        "val/accuracy (max)",
        "latency_ms.one (min)",
    )
    assert [title for title, _ in drawn.history()] == ["val/accuracy", "latency_ms.one"]
    assert len(drawn.slices()) == 2 * len(SPACE)
    assert drawn.curves() == []


def test_curves_have_a_line_for_each_trial_with_steps() -> None:
    found = [*trials(6), record(6, None, state="pruned", steps={1: 0.2}), record(7, None)]
    [(_, figure)] = charts(found).curves()
    assert [list(trace.x) for trace in figure.data] == [[1, 2]] * 6 + [[1]]
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("epoch", "val/accuracy")
    assert charts([record(0, 0.5, steps={1: 0.5})]).curves() == []
