"""Progress in a log: a line every few seconds, nothing between."""

from __future__ import annotations

import pytest

from sentattn import progress


def test_a_log_gets_a_line_when_time_has_passed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 0.0, 0.0, 5.0, 12.0, 12.0, 12.0, 13.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.Progress() as shown:
        shown("reading", 10, 1000)
        shown("reading", 500, 1000)
        shown("reading", 900, 1000, "nearly")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["reading: 500 of 1,000, 12 s"] or captured.err.splitlines() == [
        "reading: 900 of 1,000, 12 s nearly"
    ]
