"""The figures of the report: 0 reads 0, a setting that was not set says so, and no text is markup."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from fake_records import record
from plans import SPACE, plan

from sentattn.rendering.charts import log_ticks
from sentattn.sweep.report import figures
from sentattn.sweep.report.analysis import front
from sentattn.sweep.report.figures import Charts
from sentattn.sweep.report.style import short_names
from sentattn.sweep.spec.plan import Objective
from sentattn.sweep.study.records import Record

TWO = (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))
HOSTILE = "<script>alert(1)</script>"


def trials(count: int = 24, **changed: Any) -> list[Record]:
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


def charts(found: list[Record], **changed: Any) -> Charts:
    one = plan(**changed)
    return Charts(one, found, front(found, one.objectives))


def ticks(axis: Any) -> dict[str, float]:
    return dict(zip(axis.ticktext, axis.tickvals, strict=True))


def test_zero_reads_zero_on_the_axes_of_slices_and_contours() -> None:
    drawn = charts(trials())
    zero = plan().space["loss.penalty"].drawn(0)
    [penalty] = [figure for title, figure in drawn.slices() if title == "loss.penalty"]
    assert list(penalty.layout.xaxis.ticktext) == ["0", "0.001", "0.01", "0.1", "1"]
    contour = drawn.contour(0, ["loss.penalty", "model.attention.hops"])
    assert contour is not None
    for axis in (penalty.layout.xaxis, contour.layout.xaxis):
        assert ticks(axis)["0"] == zero
        assert axis.range[0] < math.log10(float(str(zero)))
    assert list(penalty.data[0].x).count(zero) == 8


def test_every_hover_text_has_the_values_of_its_trial() -> None:
    found = trials()
    drawn = charts(found)
    contour, curves, timeline = (
        drawn.contour(0, ["loss.penalty", "model.attention.hops"]),
        drawn.curves(),
        drawn.timeline(),
    )
    shown = [figure for _, figure in (*drawn.history(), *drawn.slices())] + [contour, curves, timeline]
    texts = [text for figure in shown if figure for trace in figure.data for text in trace.text or ()]
    assert len(texts) > 5 * len(found)
    for text in texts:
        number = int(text.removeprefix("trial ").partition(":")[0])
        assert f"loss.penalty={found[number].values['loss.penalty']:.6g}" in text
        assert ("model.pooling.p not set" in text) == (number % 3 != 1)
    assert not any("e-0" in text or "null" in text for text in texts)


def test_points_of_slices_and_contour_are_labelled_with_their_own_trial() -> None:
    found = trials()
    drawn = charts(found)
    for title, figure in drawn.slices():
        key = title.partition(",")[0]
        points = figure.data[0]
        for x, y, text in zip(points.x, points.y, points.text, strict=True):
            number = int(text.removeprefix("trial ").partition(":")[0])
            value = found[number].values[key]
            assert y == found[number].objectives[0]  # type: ignore[index]
            assert x == (plan().space[key].drawn(0) if value == 0 else value)
    contour = drawn.contour(0, ["model.attention.hops", "model.pooling.p"])
    assert contour is None  # only eight trials have both
    contour = charts(trials(40)).contour(0, ["model.attention.hops", "model.pooling.p"])
    assert contour is not None
    points = contour.data[1]
    assert [int(text.split(":")[0].removeprefix("trial ")) for text in points.text] == list(range(1, 40, 3))
    assert [y - 8 for y in points.y] == list(range(1, 40, 3))


def test_a_contour_is_over_the_first_two_numeric_settings_of_a_ranking() -> None:
    drawn = charts(trials())
    contour = drawn.contour(0, ["model/pooling", "loss.penalty", "model.attention.hops", "model.pooling.p"])
    assert contour is not None
    axes = (contour.layout.xaxis, contour.layout.yaxis)
    assert [axis.title.text for axis in axes] == ["loss.penalty", "model.attention.hops"]
    assert drawn.contour(0, ["model/pooling", "loss.penalty"]) is None


def test_parallel_coordinates_read_zero_and_not_set() -> None:
    figure = charts(trials()).parallel()
    assert figure is not None
    axes = [text.replace("<br>", "") for text in figure.layout.xaxis.ticktext]
    assert axes == ["val/accuracy", "penalty", "hops", "p", "pooling"]
    notes = {name: [n.text for n in figure.layout.annotations if n.x == place] for place, name in enumerate(axes)}
    assert notes["penalty"][0] == "0"
    assert all(text in ("0", "") or float(text) >= 0.001 for text in notes["penalty"])
    assert notes["p"][0] == "not set"
    assert sorted(notes["pooling"]) == ["flatten", "mean", "prune"]
    lines = figure.data[:-1]
    assert [dict(line.customdata)["penalty"] == "0" for line in lines] == [n % 3 == 0 for n in range(24)]
    assert [dict(line.customdata)["p"] == "not set" for line in lines] == [n % 3 != 1 for n in range(24)]


def test_a_choice_called_none_is_told_apart_from_a_setting_that_was_not_set() -> None:
    prune = {"model/pooling": ("prune",)}
    space = {"model/pooling": "choice(prune,mean)", "tags": ("choice(None,x)", prune)}
    values = [{"model/pooling": "prune", "tags": "None"}, {"model/pooling": "mean"}]
    found = [record(n, 0.5 + n / 10, values=values[n % 2]) for n in range(4)]
    one = plan(space)
    figure = Charts(one, found, found[:1]).parallel()
    assert figure is not None
    assert [dict(line.customdata)["tags"] for line in figure.data[:-1]] == ["None", "not set"] * 2
    complete = [record(n, 0.5 + n / 10, values=values[0]) for n in range(4)]
    figure = Charts(one, complete, complete[:1]).parallel()
    assert figure is not None
    assert {dict(line.customdata)["tags"] for line in figure.data[:-1]} == {"None"}


def test_hostile_text_is_no_markup_in_any_figure() -> None:
    space = {**SPACE, "data.path": f"choice('{HOSTILE}','<b>x</b>')"}
    found = [
        replace(one, error=HOSTILE, values={**one.values, "data.path": HOSTILE if one.number % 2 else "<b>x</b>"})
        for one in trials()
    ]
    drawn = Charts(plan(space), found, found[-1:])
    shown = [figure for _, figure in (*drawn.history(), *drawn.slices())]
    shown += [
        drawn.parallel(),
        drawn.curves(),
        drawn.timeline(),
        drawn.contour(0, ["data.path", "loss.penalty", "model.attention.hops"]),
    ]
    for figure in shown:
        if figure is not None:
            text = json.dumps(figure.to_plotly_json(), default=list)
            assert "<script" not in text
            assert "<b>" not in text


def test_several_objectives_have_a_front_and_charts_each() -> None:
    found = [record(one.number, (0.5 + one.number / 1000, 1.0 + one.number), values=one.values) for one in trials()]
    drawn = charts(found, objectives=TWO)
    [pareto] = [figure for _, figure in drawn.pareto()]
    assert [trace.name for trace in pareto.data] == ["dominated", "Pareto front"]
    assert pareto.layout.xaxis.title.text == "latency_ms.one (min)"
    assert [title for title, _ in drawn.history()] == ["val/accuracy", "latency_ms.one"]
    assert len(drawn.slices()) == 2 * len(SPACE)
    assert drawn.curves() is None
    parallel = drawn.parallel()
    assert parallel is not None
    assert [text.replace("<br>", "") for text in parallel.layout.xaxis.ticktext[:2]] == [
        "val/accuracy",
        "latency_ms.one",
    ]


def test_curves_have_axes_and_a_legend_with_one_entry_a_kind() -> None:
    found = [*trials(6), record(6, None, state="pruned", steps={1: 0.2, 2: math.inf}), record(7, None)]
    figure = charts(found).curves()
    assert figure is not None
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == (
        "epoch",
        "val/accuracy, best epoch so far",
    )
    assert [trace.name for trace in figure.data if trace.showlegend] == ["complete", "best", "pruned"]
    assert list(figure.data[-1].x) == [1]
    assert charts([record(0, 0.5, steps={1: 0.5})]).curves() is None


def test_a_study_without_trials_or_values_has_no_figures() -> None:
    for found in ([], [record(0), record(1)]):
        drawn = charts(found)
        assert [*drawn.history(), *drawn.slices(), *drawn.pareto()] == []
        assert drawn.parallel() is drawn.curves() is None


def test_a_setting_of_one_trial_has_no_slice() -> None:
    found = [record(n, 0.5, values={"model.attention.hops": 1 + n, "model.pooling.p": 8}) for n in range(2)]
    found[1] = replace(found[1], values={"model.attention.hops": 2})
    assert [title for title, _ in charts(found).slices()] == ["model.attention.hops"]


@pytest.mark.xfail(strict=True, reason="the figures of optuna.visualization are to replace these")
def test_an_axis_of_few_whole_numbers_has_a_tick_for_each() -> None:
    found = [record(n, 0.5, values={"model.attention.hops": 4 + n}) for n in range(3)]
    [(_, figure)] = charts(found, space={"model.attention.hops": "range(1,9)"}).slices()
    axis = figure.layout.xaxis
    assert axis.dtick == 1 or [*(axis.tickvals or ())] == [4, 5, 6]


def test_of_too_many_trials_the_best_and_an_even_share_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_TRIALS", 6)
    [(_, history)] = charts(trials(24)).history()
    assert list(history.data[0].x) == [0, 4, 8, 12, 16, 20, 23]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1e-4, 1, [1e-4, 1e-3, 1e-2, 0.1, 1]),
        (5e-4, 2e-2, [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2]),
        (1e-9, 1, [1e-9, 1e-7, 1e-5, 1e-3, 1e-1]),
        (3, 4, [3, 4]),
    ],
)
def test_ticks_of_a_log_range_are_few_and_round(low: float, high: float, expected: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(expected)


def test_short_names_are_unique() -> None:
    keys = ["model.attention.hidden", "model.encoder.hidden", "model/pooling", "optimizer.lr"]
    assert short_names(keys) == ["model.attention.hidden", "model.encoder.hidden", "pooling", "lr"]
