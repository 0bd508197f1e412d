"""The figure for a paper: what each panel draws, that its texts are legible, and what is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from refusals import refused
from run_folders import compare, make_run

from sentattn.compare.__main__ import main
from sentattn.compare.board import Leaderboard
from sentattn.compare.comparison import Comparison
from sentattn.compare.figure import VERDICTS, WIDTH, draw
from sentattn.rendering.png import to_bytes


def train(folder: Path, *overrides: str, seeds: int = 3, accuracy: float = 0.8, seconds: float = 10) -> None:
    for seed in range(seeds):
        times = {"train": seconds, "total": seconds}
        make_run(folder, *overrides, seed=seed, accuracy=accuracy, rows=1000, seconds=times)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A declared pair of which the first is better, and settings of the mean with 100, 1,000 and all training rows."""
    folder = tmp_path_factory.mktemp("runs")
    train(folder, "model=structured", accuracy=0.95, seconds=100)
    train(folder, "model=lstm_mean", accuracy=0.8, seconds=90)
    train(folder, "model=mean", accuracy=0.7, seconds=5)
    train(folder, "model=mean", "data.train_size=100", accuracy=0.6, seconds=1)
    train(folder, "model=mean", "data.train_size=1000", accuracy=0.65, seconds=2)
    for path in folder.glob("demo/*/*/result.json"):
        result = json.loads(path.read_text())
        result["rows"] = {"train": result["settings"]["data"]["train_size"] or 2500}
        path.write_text(json.dumps(result))
    return folder


@pytest.fixture(scope="module")
def comparison(folder: Path) -> Comparison:
    return compare(folder)


@pytest.fixture(scope="module")
def figure(comparison: Comparison) -> Figure:
    return draw(comparison)


def axes_of(figure: Figure) -> list[Axes]:
    return [axes for part in figure.subfigs for axes in part.axes]


def test_a_panel_of_each_kind_in_a_column(figure: Figure) -> None:
    assert figure.get_figwidth() == WIDTH
    assert [axes.get_title("left") for axes in axes_of(figure)] == ["(a)", "(b)", "(c)"]


@pytest.mark.parametrize(
    ("kinds", "label"), [("pairs", "difference"), ("cost", "training time"), ("rows", "training rows")]
)
def test_a_panel_alone(comparison: Comparison, kinds: str, label: str) -> None:
    [axes] = axes_of(draw(comparison, [kinds]))
    assert (axes.get_title("left"), label in axes.get_xlabel()) == ("", True)


def test_a_pair_has_its_printed_interval_and_the_marker_of_its_verdict(figure: Figure, comparison: Comparison) -> None:
    [pair] = [pair for pair in comparison.tests if pair.declared]
    panel = axes_of(figure)[0]
    zero, interval, point = panel.lines
    assert list(zero.get_xdata()) == [0, 0]
    assert interval.get_xdata() == pytest.approx(100 * np.array(pair.intervals[0]))
    assert point.get_xdata() == pytest.approx([100 * pair.estimate.value])
    assert point.get_markerfacecolor() == VERDICTS["beats"]["markerfacecolor"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["structured \u2212 lstm_mean"]


def test_an_equivalent_pair_has_the_interval_of_that_test(comparison: Comparison) -> None:
    [pair] = [pair for pair in comparison.tests if pair.declared]
    equal = replace(pair, verdict="equivalent", level=0.01)
    changed = replace(comparison)
    changed.__dict__["tests"] = [equal]
    panel, *_ = axes_of(draw(changed))
    assert panel.lines[1].get_xdata() == pytest.approx(100 * np.array(pair.estimate.interval(0.98)))


def test_verdicts_differ_without_colour() -> None:
    looks = [(look["marker"], look["markerfacecolor"], look.get("fillstyle")) for look in VERDICTS.values()]
    assert len(set(looks)) == len(looks)


def test_each_setting_has_a_point_at_its_cost(figure: Figure, comparison: Comparison) -> None:
    panel = axes_of(figure)[1]
    labels = [text.get_text().replace("\n", " ") for text in panel.figure.legends[0].get_texts()]
    drawn = {label: curve[0].get_xydata()[0] for label, curve in zip(labels, panel.containers, strict=True)}
    assert drawn == {
        setting.name: pytest.approx((setting.cost("seconds.train"), 100 * setting.metrics["accuracy"].value))
        for setting in comparison.leaderboard
        if setting.settings["data"]["train_size"] is None  # the others are points of the curve
    }
    assert panel.get_xscale() == "log"


def test_a_curve_is_over_the_number_of_training_rows(figure: Figure, comparison: Comparison) -> None:
    panel = axes_of(figure)[2]
    [curve] = panel.containers
    expected = [setting for setting in reversed(comparison.leaderboard) if setting.name.startswith("mean")]
    assert list(curve[0].get_xdata()) == [100, 1000, 2500]
    assert curve[0].get_ydata() == pytest.approx([100 * setting.metrics["accuracy"].value for setting in expected])
    [bars] = curve[2]
    ends = [[y for _, y in bar] for bar in bars.get_segments()]
    assert ends == [pytest.approx(100 * np.array(setting.interval())) for setting in expected]


def visible_texts(axes: Axes) -> list[Text]:
    """The texts of a panel, without labels of ticks that are outside of its view."""
    legends = [text for legend in axes.figure.legends for text in legend.get_texts()]
    texts = [*axes.texts, axes.xaxis.label, axes.yaxis.label, *legends]
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
        texts += [label for place, label in ticks if low <= place <= high]
    return [text for text in texts if text.get_text()]


def test_no_text_is_cut_or_on_another(figure: Figure) -> None:
    figure.draw_without_rendering()
    texts = [text for axes in axes_of(figure) for text in visible_texts(axes)]
    boxes = [text.get_window_extent() for text in texts]
    for text, box in zip(texts, boxes, strict=True):
        assert figure.bbox.x0 - 1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1, text
        assert figure.bbox.y0 - 1 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1, text
    for (text, box), (other, its_box) in combinations(zip(texts, boxes, strict=True), 2):
        assert not box.shrunk(0.8, 0.8).overlaps(its_box.shrunk(0.8, 0.8)), (text, other)


@pytest.mark.parametrize(("name", "start"), [("f.pdf", b"%PDF"), ("f.SVG", b"<?xml")])
def test_the_ending_decides(folder: Path, tmp_path: Path, name: str, start: bytes) -> None:
    before = "matplotlib.pyplot" in sys.modules
    assert main([str(folder), f"figure={tmp_path / name}"]) == 0
    content = (tmp_path / name).read_bytes()
    assert content.startswith(start)
    assert (name != "f.pdf") or (b"/FontFile2" in content and b"/Type3" not in content)
    assert ("matplotlib.pyplot" in sys.modules) == before


@pytest.mark.parametrize(
    ("name", "panels", "fault"),
    [
        ("f", [], ("figure", "unsupported")),
        ("none/f.pdf", [], ("figure", "unwritable")),
        ("f.pdf", ["bogus"], ("panels", "unknown")),
    ],
)
def test_a_figure_that_cannot_be(
    comparison: Comparison, tmp_path: Path, name: str, panels: list[str], fault: tuple[str, str]
) -> None:
    assert refused(lambda: Leaderboard([comparison]).figure(tmp_path / name, panels)) == [fault]
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_draw(tmp_path: Path) -> None:
    train(tmp_path, "model=structured")
    assert refused(lambda: draw(compare(tmp_path))) == [("figure", "missing")]


def test_settings_with_the_same_number_of_training_rows_have_their_costs(tmp_path: Path) -> None:
    for model, accuracy in (("structured", 0.9), ("mean", 0.7)):
        train(tmp_path, f"model={model}", "data.train_size=100", accuracy=accuracy)
    [axes] = axes_of(draw(compare(tmp_path), ["cost"]))
    assert len(axes.containers) == 2


def test_a_hostile_name_is_text(comparison: Comparison) -> None:
    changed = replace(comparison)
    name = "$x^$ \\frac{ \u4f60 \x07 " + "long " * 20
    changed.settings[:] = [replace(setting, name=f"{name}{n}") for n, setting in enumerate(changed.settings)]
    figure = draw(changed)
    assert any("$x^$ \\frac{" in text.get_text() for text in figure.findobj(Text))
    assert not any("\x07" in text.get_text() for text in figure.findobj(Text))
    assert to_bytes(lambda: figure, "svg").startswith(b"<?xml")
