"""The report of a comparison and of a run: what it shows, and that no text of it is markup."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import make_run

from sentattn.compare.__main__ import main
from sentattn.compare.leaderboard import leaderboard
from sentattn.compare.report.examples import Example, Side
from sentattn.compare.report.page import page, part
from sentattn.compare.report.style import Table
from sentattn.compare.runs import comparisons
from sentattn.insight.prediction import Piece
from sentattn.run import Run

HOSTILE = "</script><script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


def without_plotly(html: str) -> str:
    from plotly.offline import get_plotlyjs

    assert html.count(get_plotlyjs()) == 1
    return html.replace(get_plotlyjs(), "")


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    """The page of settings whose names, classes and texts are hostile."""
    for seed in range(2):
        for hops in (2, 4):
            path = make_run(tmp_path, "model=structured", f"model.attention.hops={hops}", seed=seed)
            (path / "model" / "labels.json").write_text(json.dumps([HOSTILE, "good"]))
            rows = [{"epoch": n, "val/accuracy": 0.5 + n / 10, "val/log_loss": 1 / n} for n in (1, 2)]
            (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    [found], _ = comparisons([tmp_path], split="test")
    named = [replace(one, name=f"{HOSTILE}{n}") for n, one in enumerate(found.settings)]
    found = replace(found, settings=named, data=HOSTILE)
    table = Table([HOSTILE], [[HOSTILE]], HOSTILE, HOSTILE)
    shown = part(found, leaderboard(found), tables=[table])
    shown.examples = [Example(HOSTILE, [Side(HOSTILE, HOSTILE, 0.9, [(Piece(HOSTILE, 0), 0.5, False)])])]
    return without_plotly(page([shown]))


def test_no_text_is_markup_and_nothing_is_loaded(hostile: str) -> None:
    assert "default-src 'none'" in hostile  # the browser refuses every request
    assert not re.findall(r"""\b(?:src|href)\s*=|@import|url\(|https?://""", hostile)
    assert "alert(1)</script>" not in hostile
    assert hostile.count("<script") == hostile.count("</script>") == 2 + hostile.count("Plotly.newPlot(")
    assert f"2 settings on &lt;/script&gt;{ESCAPED}</h1>" in hostile
    assert f">&lt;/script&gt;{ESCAPED}</span>" in hostile


def test_a_comparison_has_all_sections(hostile: str) -> None:
    assert re.findall(r"<section[^>]*><h2>([\w ]+)</h2>", hostile) == [
        "Leaderboard",
        "Accuracy against cost",
        "Accuracy by kind of text",
        "Reliability",
        "Hops",
        "Learning curves",
        "Confusion matrices",
        "Disagreements",
    ]
    assert "The report has no slices by words" in hostile  # these runs do not say what they were trained on


def test_a_chart_has_its_numbers(hostile: str) -> None:
    charts = hostile.count("Plotly.newPlot(")
    assert hostile.count("<summary>Numbers: ") == charts - 1  # those of the leaderboard are in its table


def test_a_single_run_has_a_report_in_its_folder(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(tiny_run.path, copy)
    assert main([str(copy), "split=val"]) == 0
    out, err = capsys.readouterr()
    assert str(copy / "report.html") in out
    assert err == ""
    own = without_plotly((copy / "report.html").read_text())
    headings = re.findall(r"<section[^>]*><h2>([\w ]+)</h2>", own)
    assert headings[0] == "Metrics"
    assert {"Reliability", "Learning curves", "Confusion matrix", "Worst errors"} <= set(headings)
    assert own.count('<p class="text" dir="auto">') <= 5


def test_other_calls_write_no_report(tmp_path: Path) -> None:
    make_run(tmp_path, "model=mean")
    assert main([str(tmp_path)]) == 0
    assert not list(tmp_path.rglob("*.html"))


def test_a_report_that_cannot_be_written_ends_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, "model=mean")
    assert main([str(tmp_path), f"report={tmp_path / 'none' / 'report.html'}"]) == 2
    assert "error: report=" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium")
def test_a_browser_draws_every_chart_on_a_phone(tiny_run: Run, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert main([str(tiny_run.path), "split=val", f"report={file}"]) == 0
    html = file.read_text()
    check = (
        '<script>onerror = () => { document.title = "broken"; }; onload = () => setTimeout(() => {'
        " const page = document.documentElement;"
        ' if (page.scrollWidth > page.clientWidth) document.title = "wide"; }, 500);</script><style>'
    )
    file.write_text(html.replace("<style>", check, 1))
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    browser += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    size = ["--window-size=360,800", "--virtual-time-budget=5000"]
    command = [*browser, *size, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{file}"]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert "<title>structured</title>" in drawn
    assert drawn.count('class="main-svg"') >= html.count("Plotly.newPlot(")
