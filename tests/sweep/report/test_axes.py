"""Where values stand on their axes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.config.groups import Choices
from sentattn.sweep.report.axes import APART, axis, decades, even, names, position
from sentattn.sweep.search_space import Dimension, Value, read_dimension


def dimension(written: str) -> Dimension:
    return read_dimension("loss.penalty", written, Choices.of())


@pytest.mark.parametrize(
    ("written", "value", "share"),
    [
        ("interval(2,4)", 2.5, 0.25),
        ("range(1,31)", 30, 1.0),
        ("range(1,31)", 1, 0.0),
        ("tag(log,interval(1e-3,1))", 1e-2, 1 / 3),
        ("choice(a,b,c,d)", "b", 0.375),
        ("tag(log,zero,interval(1e-3,1))", 0.0, 0.0),
        ("tag(log,zero,interval(1e-3,1))", 1e-3, APART),
        ("tag(log,zero,interval(1e-3,1))", 1.0, 1.0),
    ],
)
def test_positions_by_hand(written: str, value: Value, share: float) -> None:
    assert position(dimension(written), value) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(
    ("written", "ticks"),
    [
        ("interval(0,0.7)", ["0", "0.2", "0.4", "0.6"]),
        ("range(1,9)", ["2", "4", "6", "8"]),
        ("tag(log,interval(1e-4,1))", ["0.0001", "0.001", "0.01", "0.1", "1"]),
        ("tag(log,zero,interval(1e-3,1))", ["0", "0.001", "0.01", "0.1", "1"]),
        ("tag(log,interval(5e-4,2e-2))", ["0.0005", "0.001", "0.002", "0.005", "0.01", "0.02"]),
        ("choice(true,false)", ["true", "false"]),
        ("choice(mean,7)", ["mean", "7"]),
    ],
)
def test_ticks_are_round(written: str, ticks: list[str]) -> None:
    shown = axis(dimension(written))
    assert [text for _, text in shown.ticks] == ticks
    assert (shown.gap is not None) == ("zero" in written)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_even_ticks_are_few_evenly_spaced_and_inside(low: float, width: float) -> None:
    ticks = even(low, low + width)
    assert 2 <= len(ticks) <= 7
    air = 1e-6 * (width + abs(low))
    assert all(low - air <= tick <= low + width + air for tick in ticks)
    gaps = [b - a for a, b in pairwise(ticks)]
    assert max(gaps) == pytest.approx(min(gaps), rel=1e-3)


@given(st.floats(1e-8, 1e3), st.floats(1.01, 1e9))
def test_log_ticks_are_inside(low: float, ratio: float) -> None:
    ticks = decades(low, low * ratio)
    assert 1 <= len(ticks) <= 10
    assert ticks == sorted(ticks)
    assert all(low * (1 - 1e-8) <= tick <= low * ratio * (1 + 1e-8) for tick in ticks)
    assert all(math.isfinite(tick) for tick in ticks)


def test_short_names_tell_settings_apart() -> None:
    keys = ["model.attention.hidden", "model.encoder.hidden", "model/pooling", "optimizer.lr"]
    assert names(keys) == ["model.attention.hidden", "model.encoder.hidden", "pooling", "lr"]
