"""A report whose parts cannot be made."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fake_records import record
from plans import plan

from sentattn.sweep.report import Charts, write_report

ONE = plan({"model.attention.hops": "range(1,31)"})


@pytest.mark.parametrize("figure", ["history", "pareto", "importances", "slices", "curves"])
def test_a_figure_that_fails_costs_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: str) -> None:
    def fail(*_: object) -> None:
        raise ValueError("nothing to draw")

    monkeypatch.setattr(Charts, figure, fail)
    found = [record(n, n / 20, values={"model.attention.hops": 1 + n}) for n in range(12)]
    [line] = write_report(ONE, tmp_path, found)
    assert "nothing to draw" in line
    page = (tmp_path / "report.html").read_text()
    assert "Best setting: trial 11" in page
    assert ('id="slices"' in page) == (figure != "slices")


@pytest.mark.parametrize("place", ["importances", "draw", "page"])
def test_an_error_in_any_part_of_a_report_costs_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("out of range")

    monkeypatch.setattr(f"sentattn.sweep.report.{place}", fail)
    found = [record(n, n / 20, values={"model.attention.hops": 1 + n}) for n in range(5)]
    lines = write_report(ONE, tmp_path, found)
    assert lines
    assert all("out of range" in line for line in lines)
    assert pq.read_table(tmp_path / "trials.parquet").num_rows == 5
    assert place == "page" or "Best setting: trial 4" in (tmp_path / "report.html").read_text()
