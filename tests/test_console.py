"""Progress: a line every few seconds in a log, a bar on a terminal; a note is made only when it is shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sentattn import console


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def test_a_log_gets_a_line_every_few_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    notes: list[int] = []

    def note() -> str:
        notes.append(1)
        return "loss 0.5"

    with console.Progress() as shown:
        for done, clock.now in ((10, 0.0), (500, 5.0), (900, 12.0), (950, 13.0)):
            shown("reading", done, 1000, note)
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert all(part in line for part in ("reading", "900 of 1,000", "12 s", "loss 0.5"))
    assert len(notes) == 1


def test_a_terminal_gets_a_bar_with_loss_and_speed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "Console", lambda file: Console(file=screen, force_terminal=True, width=120))
    with console.Progress() as shown:
        for step in range(1, 5):
            clock.now += 1.0
            shown("epoch 1/2", step, 4, lambda step=step: f"loss {1 / step:.2f}, 9.0 batches/s")
    assert "4/4" in screen.getvalue()
    assert "loss 0.25, 9.0 batches/s" in screen.getvalue()


def test_progress_may_be_switched_off(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with console.Progress(shown=False) as shown:
        for clock.now in (0.0, 100.0):
            shown("reading", 1, 2, lambda: pytest.fail("a note that nobody sees"))
    assert capsys.readouterr().err == ""


def test_a_markdown_table_has_bars_and_stars_as_they_are() -> None:
    heading, _, row = console.markdown_lines([["a|b", "g*x"], ["*1*", "\\|"]])
    assert heading == r"| a\|b | g\*x |"
    assert row == r"| \*1\* | \\\| |"
