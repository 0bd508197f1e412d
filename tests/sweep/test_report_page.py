"""The report: what it says, and that it needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import pytest
from fake_records import record, study_of
from optuna.trial import FrozenTrial
from plans import plan
from test_figures import TWO, trials

from sentattn.sweep.artifacts import Confirmed, Reached
from sentattn.sweep.report import Findings, page

HOSTILE = "</script><script>alert(1)</script>"
TRIALS = [
    *trials(9),
    record(9, None, state="pruned", steps={1: 0.3}, values={"model.attention.hops": 4}),
    record(10, None, error=f"{HOSTILE}\nmore", values={"model.attention.hops": 5}),
    record(11, 0.9, state="failed", values={"model.attention.hops": 30}),
    record(12, None, state="interrupted"),
]


def report(folder: Path, found: list[FrozenTrial] = TRIALS, **changed: Any) -> str:
    return page(Findings(plan(**changed), folder, study_of(plan(**changed), found)))


def without_plotly(html: str) -> str:
    from plotly.offline import get_plotlyjs

    assert html.count(get_plotlyjs()) == 1
    return html.replace(get_plotlyjs(), "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    """The report of a study whose texts are hostile."""
    overrides = ("model=structured", f"tags=[{HOSTILE}]")
    return report(folder, study=HOSTILE, overrides=overrides, sampler={"name": "tpe", "group": True})


def test_the_page_loads_nothing_and_text_cannot_break_out(html: str) -> None:
    assert "default-src 'none'" in html  # the browser refuses every request
    own = without_plotly(html)
    assert not re.findall(r"""\b(?:src|href)\s*=|@import|url\(|https?://""", own)
    assert "alert(1)</script>" not in own
    assert own.count("<script") == own.count("</script>") == 2 + own.count("Plotly.newPlot(")
    assert f"{escape(HOSTILE)}</h1>" in own


def test_a_choice_with_markup_cannot_break_out(tmp_path: Path) -> None:
    space = {"data.path": f"choice('{HOSTILE}','<img src=x onerror=alert(2)>')"}
    values = [{"data.path": HOSTILE}, {"data.path": "<img src=x onerror=alert(2)>"}]
    own = without_plotly(
        report(tmp_path, [record(n, 0.5 + n / 10, values=values[n % 2]) for n in range(4)], space=space)
    )
    assert 'id="slices"' in own
    assert "<script>alert" not in own
    assert "<img" not in own


def test_the_text_says_what_people_need(html: str, folder: Path) -> None:
    own = without_plotly(html)
    assert f"sentattn.train from={folder}/best.yaml" in own
    assert own.count("<title>Sweep &lt;/script&gt;") == own.count("<h1>Sweep &lt;/script&gt;") == 1
    [counts] = re.findall(r"13 trials: ([\w ,]+)", own)
    assert counts.split(", ") == ["9 complete", "1 pruned", "2 failed", "1 interrupted"]
    assert "range(8,129) where model/pooling=prune" in own
    assert "tpe (group=true)" in own
    assert "Only 9 complete trials" in own
    assert "Best setting: trial 8" in own
    assert re.findall(r'<section id="([\w-]+)"', own) == (["history", "importance", "slices", "learning-curves"])


def test_the_table_has_every_trial_and_nothing_where_a_setting_was_not_set(html: str) -> None:
    own = without_plotly(html)
    table = own[own.index("<h2>Trials</h2>") :]
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)[1:]]
    assert [row[0] for row in rows] == [str(number) for number in range(13)]
    assert rows[0][:7] == ["0", "complete", "1", "0", "flatten", "", "0.5"]
    assert rows[1][5] == "9"
    assert "trials.parquet has all" not in own


def test_several_objectives_have_a_front(tmp_path: Path) -> None:
    found = [record(one.number, (0.5 + one.number / 100, 1.0 + one.number), values=one.params) for one in trials(5)]
    own = without_plotly(report(tmp_path, found, objectives=TWO))
    assert "balanced setting: trial 2" in own  # on a straight front it is the middle one
    assert 'id="pareto-front"' in own


@pytest.mark.parametrize("found", [[], [record(0), record(1)]])
def test_a_study_without_a_complete_trial_has_a_report(tmp_path: Path, found: list[FrozenTrial]) -> None:
    own = without_plotly(report(tmp_path, found))
    assert "No trial is complete yet." in own
    assert "Plotly.newPlot" not in own


def test_what_was_confirmed_stands_in_the_report(tmp_path: Path) -> None:
    reached = Reached(mean=0.8, interval=(0.7, 0.9), values=[0.79, 0.81])
    confirmed = Confirmed(
        study="mine", trial=8, seeds=[1, 2], runs=[], confidence=0.95, metrics={"val/accuracy": reached}
    )
    (tmp_path / "confirm.json").write_text(confirmed.model_dump_json())
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", report(tmp_path))]
    assert ["0.8000", "0.7000 to 0.9000", "0.7900, 0.8100"] in [row[-3:] for row in rows]
    assert "Confirmed" not in without_plotly(report(tmp_path, trials(5)))  # another trial is the best


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium")
def test_a_browser_draws_every_figure_without_an_error(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    html = report(tmp_path, trials(30))
    file.write_text(
        html.replace("<style>", '<script>onerror = () => { document.title = "broken"; };</script><style>', 1)
    )
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    browser += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command = [*browser, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{file}"]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert "<title>Sweep mine</title>" in drawn
    assert drawn.count('class="main-svg"') >= html.count("Plotly.newPlot(")
