"""A report whose parts cannot be made."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fake_records import record, study_of
from plans import HOPS, plan

from sentattn.sweep.report import write_report


@pytest.mark.parametrize(
    ("part", "count"),
    [("Charts.slices", 1), ("Charts.importances", 1), ("importances", 1), ("draw", 3), ("page", 1)],
)
def test_an_error_in_any_part_of_a_report_costs_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, count: int
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("out of range")

    monkeypatch.setattr(f"sentattn.sweep.report.{part}", fail)
    found = [record(n, n / 20, values={"model.attention.hops": 1 + n}) for n in range(12)]
    lines = write_report(plan(HOPS), tmp_path, study_of(plan(HOPS), found))
    assert len(lines) == count
    assert all("out of range" in line for line in lines)
    assert pq.read_table(tmp_path / "trials.parquet").num_rows == 12
    if part != "page":
        page = (tmp_path / "report.html").read_text()
        assert "Best setting: trial 11" in page
        assert ('id="slices"' in page) == (part not in ("Charts.slices", "draw"))
