"""Shares, validation rows, repeats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.splitting import apportion, draw, repeats, set_aside, spread, wanted
from sentattn.errors import DataError


@pytest.mark.parametrize(
    ("sizes", "total", "shares"),
    [
        ([10, 10], 5, [3, 2]),
        ([70, 20, 10], 10, [7, 2, 1]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([3, 2], 9, [3, 2]),
        ([3, 0], 2, [2, 0]),
    ],
)
def test_apportion(sizes: list[int], total: int, shares: list[int]) -> None:
    assert apportion(np.array(sizes), total).tolist() == shares


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(0, 3000))
def test_shares_add_up_and_are_to_be_had(sizes: list[int], total: int) -> None:
    shares = apportion(np.array(sizes), total)
    assert shares.sum() == min(total, sum(sizes))
    assert (shares >= 0).all()
    assert (shares <= sizes).all()


def test_spread_takes_each_class_evenly() -> None:
    labels = np.array([0] * 10 + [1] * 10)
    assert spread(labels, 4).tolist() == [0, 5, 10, 15]
    assert spread(labels, 99).tolist() == list(range(20))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 3))
def test_a_draw_takes_so_many_of_each_class_as_its_share(classes: list[int], total: int, seed: int) -> None:
    labels = np.array(classes)
    drawn = draw(labels, total, seed)
    assert drawn.sum() == min(total, len(labels))
    exact = np.bincount(labels, minlength=5) * drawn.sum() / len(labels)
    assert (np.abs(np.bincount(labels[drawn], minlength=5) - exact) < 1).all()


def test_a_smaller_draw_is_part_of_a_larger_one() -> None:
    labels = np.arange(1000) % 4
    small, large, other = draw(labels, 40, 7), draw(labels, 400, 7), draw(labels, 40, 8)
    assert (small <= large).all()
    assert (small != other).any()


@pytest.mark.parametrize(("size", "number"), [(1, 1), (7, 7), (8, 8), (0.1, 1), (0.24, 2), (0.8, 8)])
def test_a_size_is_a_number_or_a_share(size: float, number: int) -> None:
    assert wanted("data.test_size", size, 10, most=8, what="test", among="rows") == number


@pytest.mark.parametrize("size", [9, 0.9, 0.04, 0.0])
def test_a_size_that_cannot_be_is_refused(size: float) -> None:
    with pytest.raises(DataError, match=rf"data\.test_size={size} asks for \d test rows of 10 rows; .* from 1 to 8,"):
        wanted("data.test_size", size, 10, most=8, what="test", among="rows")


def test_set_aside_keeps_the_shares_of_the_classes() -> None:
    labels = np.array([0] * 80 + [1] * 20)
    train, val = set_aside(labels, 10, seed=0)
    assert np.bincount(labels[val]).tolist() == [8, 2]
    assert sorted([*train, *val]) == list(range(100))
    assert (np.diff(train) > 0).all()
    assert (np.diff(val) > 0).all()


def test_set_aside_depends_on_the_seed_alone() -> None:
    labels = np.arange(200) % 2
    same, again, other = (set_aside(labels, 0.25, seed)[1].tolist() for seed in (1, 1, 2))
    assert same == again != other
    assert len(same) == 50


@pytest.mark.parametrize("size", [10, 11, 0.0, 0.01, 0.99])
def test_set_aside_refuses_what_leaves_a_side_empty(size: int | float) -> None:
    with pytest.raises(DataError, match=rf"data\.val_size={size} asks for .* of 10 training rows.*from 1 to 9"):
        set_aside(np.zeros(10, dtype=np.int64), size, seed=0)


def test_one_row_cannot_be_split() -> None:
    with pytest.raises(DataError, match="Of 1 training rows none can be set aside"):
        set_aside(np.zeros(1, dtype=np.int64), 1, seed=0)


def test_repeats_are_the_later_ones() -> None:
    assert repeats(np.array([b"a", b"b", b"a", b"a", b"c"])).tolist() == [False, False, True, True, False]
