"""The report of a comparison: its sections, what its charts draw, hostile texts, a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from run_folders import compare, make_run, make_seeds, make_setting

from sentattn.compare.__main__ import main
from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.report.charts import (
    MAX_DRAWN,
    MAX_SLICED,
    confusion_charts,
    cost_charts,
    key,
    leaderboard_chart,
    learning_charts,
    log_ticks,
    reliability_chart,
    slice_charts,
    value_range,
    with_interval,
)
from sentattn.compare.report.page import Section, page, part
from sentattn.console import Table
from sentattn.prediction.prediction import Prediction
from sentattn.run import Run

HOSTILE = "</script><script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


def without_plotly(text: str) -> str:
    from plotly.offline import get_plotlyjs

    assert text.count(get_plotlyjs()) == 1
    return text.replace(get_plotlyjs(), "")


def page_of(tmp_path: Path, text: str) -> str:
    """The page of settings whose names, classes and texts are all a text."""
    for seed in range(2):
        for hops in (2, 4):
            path = make_run(tmp_path, "model=structured", f"model.attention.hops={hops}", seed=seed)
            (path / "model" / "labels.json").write_text(json.dumps([text, "good"]))
            rows = [{"epoch": n, "val/accuracy": 0.5 + n / 10, "val/log_loss": 1 / n} for n in (1, 2)]
            (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    [found], _ = read_comparisons([tmp_path], split="test")
    found.settings[:] = [replace(setting, name=f"{text}{n}") for n, setting in enumerate(found.settings)]
    for run in found.runs:
        run.result["data"] = text  # type: ignore[index]
    section = Section(text, tables=[Table([text], [[text]], text)], note=text)
    shown = part(found)
    shown.sections.insert(2, section)
    prediction = Prediction(text, text, {text: 0.9}, [text], [(0, len(text))], [[1.0]])
    shown.examples = [(text, [(text, prediction)])]
    return page([shown])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    return without_plotly(page_of(tmp_path_factory.mktemp("hostile"), HOSTILE))


def test_no_text_is_markup_and_nothing_is_loaded(hostile: str) -> None:
    assert "default-src 'none'" in hostile  # the browser refuses every request
    assert not re.findall(r"""\b(?:src|href)\s*=(?!"#)|@import|url\(|https?://""", hostile)
    assert "alert(1)</script>" not in hostile
    assert hostile.count("<script") == hostile.count("</script>") == 2 + hostile.count("Plotly.newPlot(")
    assert f"2 settings on &lt;/script&gt;{ESCAPED}</h1>" in hostile
    assert f">&lt;/script&gt;{ESCAPED}</span>" in hostile


def test_a_comparison_has_all_sections_and_they_are_the_contents(hostile: str) -> None:
    sections = re.findall(r'<section[^>]* id="([\w-]+)"><h2>([^<]+)</h2>', hostile)
    assert re.findall(r'<a href="#([\w-]+)">([^<]+)</a>', hostile) == sections
    assert len(dict(sections)) == len(sections) == hostile.count("<section")
    assert [heading for _, heading in sections if "script" not in heading] == [
        "Leaderboard",
        "Results of the tests",
        "Accuracy against cost",
        "Accuracy by kind of text",
        "Reliability",
        "Learning curves",
        "Confusion matrices",
        "Disagreements",
    ]
    assert "data_fingerprint" in hostile  # these runs do not say what they were trained on: a warning


def test_the_leaderboard_has_five_columns_and_more_on_request(tmp_path: Path) -> None:
    for model in ("mean", "cnn"):
        make_run(tmp_path, f"model={model}")
    section = part(compare(tmp_path)).sections[0]
    [first], more = section.tables, section.more
    assert first.heading == ["settings", "accuracy", "log loss", "parameters", "train seconds"]
    assert more is not None
    assert set(first.heading) < set(more.heading)
    assert [row[:2] for row in first.rows] == [[row[0], row[2]] for row in more.rows]  # the seeds are between


def test_a_chart_has_its_numbers(hostile: str) -> None:
    assert hostile.count("<details><summary>All columns</summary>") == 1
    charts = hostile.count("Plotly.newPlot(")
    assert hostile.count("<summary>Numbers: ") == charts - 1  # those of the leaderboard are in its table


def test_a_single_run_has_a_report_in_its_folder(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run_copy), "split=val"]) == 0
    out, err = capsys.readouterr()
    assert str(run_copy / "report.html") in out
    assert err == ""
    own = without_plotly((run_copy / "report.html").read_text())
    headings = re.findall(r"<section[^>]*><h2>([\w ]+)</h2>", own)
    assert headings[0] == "Metrics"
    assert {"Reliability", "Learning curves", "Confusion matrix", "Worst errors"} <= set(headings)
    assert own.count('<p class="text" dir="auto">') <= 5


class Texts(list[str]):
    """The texts of a split."""

    texts = list.__getitem__


def test_slices_of_stars_and_of_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, "model=mean")
    data = SimpleNamespace(stars=lambda _: np.repeat([10, 1, 7], [100, 60, 40]))
    monkeypatch.setattr(Comparison, "read_texts", lambda _: (data, Texts(["fine", "not fine", "fine", "fine"] * 50)))
    [section] = [one for one in part(compare(tmp_path)).sections if one.heading == "Accuracy by kind of text"]
    rows = {chart.title: [row[2:4] for row in chart.table.rows] for chart in section.charts if chart.table}
    assert rows["stars"] == [["1", "60"], ["7", "40"], ["10", "100"]]
    assert len({chart.figure.layout.yaxis.range for chart in section.charts}) == 1
    assert rows["negation"] == [["without", "150"], ["with", "50"]]
    assert "contrast" not in rows  # no text has a word of it


def in_browser(file: Path, width: int = 360) -> str:
    """Returns a page as a browser of that width has it; its title says if it is broken."""
    check = (
        '<script>onerror = () => { document.title = "broken"; }; onload = () => setTimeout(() => {'
        " const page = document.documentElement;"
        ' if (page.scrollWidth > page.clientWidth) document.title = "wide"; '
        ' for (const chart of document.querySelectorAll(".js-plotly-plot"))'
        '   if (chart.querySelector("svg").clientWidth > chart.clientWidth) document.title = "charts overlap";'
        ' const cue = getComputedStyle(document.querySelector(".wide")).backgroundAttachment;'
        ' if (!cue.includes("local")) document.title = "without a cue"; '
        ' for (const box of document.querySelectorAll(".read")) {'
        "   const lines = box.clientHeight / parseFloat(getComputedStyle(box.firstElementChild).lineHeight);"
        '   if (Math.abs(lines - Math.round(lines)) > 0.02) document.title = "cut"; } }, 500);</script><style>'
    )
    file.write_text(file.read_text().replace("<style>", check, 1))
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    browser += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    size = [f"--window-size={width},800", "--virtual-time-budget=5000"]
    command = [*browser, *size, f"--user-data-dir={file.parent / 'profile'}", "--dump-dom", f"file://{file}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium")
@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_draws_every_chart(tiny_run: Run, tmp_path: Path, width: int) -> None:
    file = tmp_path / "report.html"
    assert main([str(tiny_run.path), "split=val", f"report={file}"]) == 0
    charts = file.read_text().count("Plotly.newPlot(")
    page = in_browser(file, width)
    assert "<title>structured</title>" in page
    assert page.count('class="main-svg"') >= charts


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium")
@pytest.mark.parametrize("text", [f"structured;encoder=identity,{'x' * 60}", f"a {'word' * 30} of some {HOSTILE}"])
def test_long_words_do_not_make_a_phone_scroll(tmp_path: Path, text: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(page_of(tmp_path, text))
    assert "<title>2 settings on " in in_browser(file)


def test_accuracy_against_labels_where_settings_differ_in_them_alone(tmp_path: Path) -> None:
    for model in ("mean", "cnn"):
        for size in (100, 1000):
            make_run(tmp_path, f"model={model}", f"data.train_size={size}", accuracy=0.6 + size / 5000)
    ranked = compare(tmp_path).leaderboard
    sections = {section.heading: section.charts for section in part(compare(tmp_path)).sections}
    [chart] = sections["Accuracy against labels"]
    assert chart.figure.layout.xaxis.type == "log"
    accuracies = {n: [s.metrics["accuracy"].value for s in ranked if s.name.endswith(f"={n}")] for n in (100, 1000)}
    first, second = chart.figure.data
    assert tuple(first.x) == tuple(second.x) == (100, 1000)
    pairs = [sorted(pair) for pair in zip(first.y, second.y, strict=True)]
    assert pairs == [sorted(accuracies[n]) for n in (100, 1000)]
    assert chart.table is not None
    assert sorted(value for _, _, n, value, _ in chart.table.rows if n == "1,000") == sorted(
        f"{100 * value:.2f}%" for value in accuracies[1000]
    )
    assert len({name for _, name, *_ in chart.table.rows}) == 2
    make_run(tmp_path / "other", "model=mean")
    assert "Accuracy against labels" not in {section.heading for section in part(compare(tmp_path / "other")).sections}


def test_every_mark_of_accuracy_against_cost_has_its_interval(tmp_path: Path) -> None:
    make_seeds(tmp_path, {"mean": 0.8, "cnn": 0.81})
    make_run(tmp_path, "model=lstm", accuracy=0.8, parameters={"total": 40000})  # one seed: no interval
    ranked = compare(tmp_path).leaderboard
    charts = cost_charts(ranked)
    figures = {title: figure for title, figure, _ in charts}
    assert figures["parameters"].layout.xaxis.ticktext == ("2k", "5k", "10k", "20k")
    for _, figure, table in charts:
        assert table is not None
        marks = {mark.hovertext[0]: mark for mark in figure.data if mark.hovertemplate}
        for setting in ranked:
            mark, value = marks[setting.name], setting.metrics["accuracy"].value
            ends = (value - mark.error_y.arrayminus[0], value + mark.error_y.array[0])
            if not setting.has_seeds:
                assert np.isnan(ends).all()  # no bar
                continue
            assert ends == pytest.approx(setting.metrics["accuracy"].interval())
            low, high = figure.layout.yaxis.range
            assert low < ends[0]
            assert ends[1] < high
        rows = [dict(zip(table.heading, row, strict=True)) for row in table.rows]
        assert {row["settings"]: " to " in row["95% interval"] for row in rows} == {
            "mean": True,
            "cnn": True,
            "lstm": False,
        }


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1e-4, 1, [1e-4, 1e-3, 1e-2, 0.1, 1]),
        (5e-4, 2e-2, [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2]),
        (1e-9, 1, [1e-9, 1e-7, 1e-5, 1e-3, 1e-1]),
        (3, 4, [3, 4]),
        (0.11, 0.39, [0.11, 0.39]),
    ],
)
def test_ticks_of_a_log_range_are_few_and_round(low: float, high: float, expected: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(("low", "high"), [(0.915, 0.926), (0.9, 0.9), (0.3, 0.9)])
def test_an_axis_of_accuracies_spans_five_points_at_least(low: float, high: float) -> None:
    start, end = value_range([with_interval(low, None), with_interval(high, (high - 0.001, high + 0.001))])
    assert start < low
    assert high + 0.001 < end
    assert end - start >= 0.05 - 1e-12


def test_a_chart_draws_the_rows_of_its_table(tmp_path: Path) -> None:
    for number, model in enumerate(("mean", "cnn", "lstm")):
        make_run(tmp_path, f"model={model}", accuracy=0.7 + number / 10)
    ranked = compare(tmp_path).leaderboard
    slices = [("tokens", {"1 to 5": np.arange(90), "6 to 9": np.arange(90, 200)}, True), ("none", {}, True)]
    [reliability], [tokens] = reliability_chart(ranked), slice_charts(slices, ranked)
    for drawn, x in ((reliability, "probability of the predicted class"), (tokens, "tokens")):
        assert drawn.table is not None
        rows = [dict(zip(drawn.table.heading, row, strict=True)) for row in drawn.table.rows]
        traces = [trace for trace in drawn.figure.data if trace.hoverinfo != "skip"]  # all but the diagonal
        marks = {(name, f"{100 * y:.2f}%") for one in traces for name, y in zip(one.hovertext, one.y, strict=True)}
        assert marks == {(row["settings"], row["accuracy"]) for row in rows}
        assert sum(len(one.x) for one in traces) == len(rows)
        assert all(row[x] for row in rows)
        assert [one.line.color for one in traces] == [one for *_, one in key(ranked)]


def test_settings_beyond_the_first_are_in_tables_alone() -> None:
    labels = np.arange(40) % 2
    settings = [make_setting(np.eye(2)[labels][None], labels, f"s{number}") for number in range(MAX_DRAWN + 3)]
    slices = [("class", {"a": np.arange(20), "b": np.arange(20, 40)}, False)]
    [reliability], [sliced] = reliability_chart(settings), slice_charts(slices, settings)
    for drawn, most in ((reliability, MAX_DRAWN), (sliced, MAX_SLICED)):
        assert drawn.table is not None
        assert {row[1] for row in drawn.table.rows} == {setting.name for setting in settings}
        names = [trace.name for trace in drawn.figure.data if trace.hoverinfo != "skip"]
        assert names == [setting.name for setting in settings[:most]]


def test_a_single_run_has_the_loss_of_its_training_rows_too(tmp_path: Path) -> None:
    path = make_run(tmp_path, "model=mean")
    rows = [
        {"epoch": n, "val/accuracy": 0.8, "val/log_loss": 1 / n, "train/cross_entropy": 2 / n, "train/accuracy": 0.8}
        for n in (1, 2)
    ]
    (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    accuracy, log_loss = learning_charts(compare(tmp_path).leaderboard)
    assert [trace.name for trace in accuracy.figure.data] == ["validation", "training"]
    assert accuracy.figure.layout.yaxis.range == pytest.approx((0.775, 0.825))  # of a constant
    assert {trace.name: tuple(trace.y) for trace in log_loss.figure.data} == {
        "validation": (1, 0.5),
        "training": (2, 1),
    }


def test_names_next_to_an_axis_are_whole() -> None:
    labels = np.arange(40) % 2
    names = ["mean, attention=structured", "mean, attention=structured, frozen attention"]
    settings = [make_setting(np.eye(2)[labels][None], labels, name) for name in names]
    [drawn] = leaderboard_chart(settings)
    shown = [text.replace("<br>", " ") for text in drawn.figure.layout.yaxis.ticktext]
    assert shown == [f"1 {names[0]}", f"2 {names[1]}"]


def test_a_metric_without_an_error_has_no_interval(tmp_path: Path) -> None:
    make_run(tmp_path, "model=mean", accuracy=1.0)
    metrics = part(compare(tmp_path)).sections[0].tables[0]
    rows = {name: (value, interval) for name, value, interval in metrics.rows}
    assert rows["f1 macro"] == ("1.0000", "")


def test_names_of_classes_are_escaped_once_for_every_setting() -> None:
    labels = np.array([0, 1, 0, 1])
    probabilities = np.eye(2)[labels][None]
    settings = [make_setting(probabilities, labels, name) for name in ("first", "second", "third")]
    for _, figure, table in confusion_charts(settings, ["R&B", "jazz"]):
        assert figure.layout.xaxis.ticktext == ("R&amp;B", "jazz")  # plotly reads it as HTML
        assert table is not None
        assert table.heading[1] == "as R&B"  # the page escapes its tables
        assert [row[0] for row in table.rows] == ["R&B", "jazz"]
