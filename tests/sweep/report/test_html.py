"""The report: what it holds, and that it holds by itself."""

from __future__ import annotations

import json
import math
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from made import record
from plans import SPACE, plan

from sentattn.sweep.config import Plan
from sentattn.sweep.objective import Objective
from sentattn.sweep.records import Record
from sentattn.sweep.report import drawn as drawn_module
from sentattn.sweep.report.drawn import data, so_far
from sentattn.sweep.report.html import page
from sentattn.sweep.report.keeping import findings
from sentattn.sweep.report.trials import Reader

SECTIONS = ("history", "slices", "parallel", "curves", "table")


def trial(number: int, **others: Any) -> Record:
    pooling = ("flatten", "prune", "mean")[number % 3]
    values = {"model.attention.hops": 3 + number, "loss.penalty": 0.0 if number % 2 else 0.1, "model/pooling": pooling}
    values |= {"model.pooling.p": 8 + number} if pooling == "prune" else {}
    steps = {1: 0.4, 2: 0.5 + number / 100}
    usual: dict[str, Any] = {"objectives": 0.5 + number / 100, "values": values, "steps": steps}
    return record(number, **(usual | others))


TRIALS = [
    *(trial(number) for number in range(9)),
    trial(9, objectives=None, state="pruned", steps={1: 0.3}),
    trial(10, objectives=None, steps={}, error="</script><script>alert(1)</script>\nmore"),
    trial(11, objectives=None, state="outside", values={"model.attention.hops": 400}),
    trial(12, objectives=None, state="interrupted"),
]


def made(folder: Path, trials: list[Record] = TRIALS, **changed: Any) -> tuple[str, dict[str, Any]]:
    """A page and the data in it."""
    one: Plan = plan(**changed)
    html = page(findings(one, folder, trials, Reader(folder)))
    [inside] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return html, json.loads(inside)


def test_the_page_stands_alone_and_texts_cannot_break_out(tmp_path: Path) -> None:
    html, inside = made(tmp_path, study="mine", overrides=("model=structured", "tags=[<b>]"))
    assert not re.findall(r"""(?:src|href)\s*=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)""", html)
    assert html.count("</script>") == 2
    assert "<b>]" not in html
    assert "tags=[&lt;b&gt;]" in html
    assert inside["trials"][10]["note"] == "</script><script>alert(1)</script>"


def test_the_data_is_what_was_tried_and_where_it_stands(tmp_path: Path) -> None:
    _, inside = made(tmp_path)
    assert [axis["key"] for axis in inside["axes"]] == list(SPACE)
    assert [axis["condition"] for axis in inside["axes"]] == [False, False, False, True]
    first, second = inside["trials"][:2]
    assert first["values"] == {"model.attention.hops": 3, "loss.penalty": 0.1, "model/pooling": "flatten"}
    assert second["values"]["model.pooling.p"] == 9
    # hops from 1 to 30; 0.1 lies at two of three decades behind the gap; flatten is the first of three.
    assert first["at"] == pytest.approx(
        {"model.attention.hops": 2 / 29, "loss.penalty": 0.12 + 0.88 * 2 / 3, "model/pooling": 1 / 6}, abs=1e-5
    )
    assert second["at"]["loss.penalty"] == 0
    assert inside["trials"][11]["at"] == {}
    assert inside["front"] == [8]
    assert first["steps"] == [[1, 0.4], [2, 0.5]]
    assert inside["trials"][0]["seconds"] == 10


def test_what_people_should_know_stands_in_the_text(tmp_path: Path) -> None:
    html, _ = made(tmp_path, sampler={"name": "tpe", "group": True})
    assert f"python -m sentattn.train from={tmp_path}/best.yaml" in html
    assert "13 trials: 9 complete, 1 pruned, 1 failed, 1 outside, 1 interrupted" in html
    assert "range(8,129) where model/pooling=prune" in html
    assert "tpe (group=true)" in html
    assert "Only 9 trials are complete" in html
    assert "trial 8" in html


def test_several_objectives_have_a_front(tmp_path: Path) -> None:
    two = (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))
    trials = [trial(number, objectives=(0.5 + number / 100, 1.0 + number), steps={}) for number in range(5)]
    html, inside = made(tmp_path, trials, objectives=two)
    assert sorted(inside["front"]) == [0, 1, 2, 3, 4]
    assert "Most balanced setting: trial 2" in html  # on a straight front it is the middle one
    assert len(inside["importances"]) == len(inside["surfaces"]) == 2


def test_a_study_without_trials_and_figures_that_are_no_numbers(tmp_path: Path) -> None:
    html, inside = made(tmp_path, [])
    assert "No trial is complete yet." in html
    assert inside["trials"] == []
    _, inside = made(tmp_path, [trial(0, steps={1: math.inf, 2: 0.5}), trial(1)])
    assert inside["trials"][0]["steps"] == [[2, 0.5]]


def test_the_best_so_far_by_hand() -> None:
    found = [record(0, 0.5), record(1), record(2, 0.4), record(3, 0.7), record(4, 0.6)]
    assert so_far(found, "max") == {0: 0.5, 2: 0.5, 3: 0.7, 4: 0.7}
    assert so_far(found, "min") == {0: 0.5, 2: 0.4, 3: 0.4, 4: 0.4}


def test_of_too_many_trials_the_best_and_an_even_share_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_module, "MOST", 6)
    one = plan()
    found = findings(one, tmp_path, TRIALS[:9], Reader(tmp_path))
    inside = data(found)
    assert [trial["number"] for trial in inside["trials"]] == [0, 2, 4, 6, 8]
    assert inside["count"] == 9
    monkeypatch.setattr(drawn_module, "MOST", 4)
    assert [trial["number"] for trial in data(found)["trials"]] == [0, 3, 6, 8]


@pytest.mark.slow
def test_a_browser_draws_every_chart_without_an_error(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(
        made(tmp_path)[0].replace('"use strict";', '"use strict"; onerror = () => { document.title = "broken"; };')
    )
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command = [*browser, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{file}"]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "<title>mine</title>" in drawn
    for name in SECTIONS:
        start = drawn.index(f'id="{name}"')
        assert ("<svg" in drawn[start : start + 2000]) or ("<table" in drawn[start : start + 2000])
    assert drawn.count('class="best"') >= len(SPACE)
    assert "alert(1)" in drawn
