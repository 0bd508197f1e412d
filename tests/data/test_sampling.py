"""Random selections of rows and of whole groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sentattn.data.corpus import NO_GROUP, apportion
from sentattn.data.splits import draw, draw_groups

Grouped = tuple[NDArray[np.int64], NDArray[np.int64]]


@st.composite
def grouped_rows(draw_value: st.DrawFn, fewest: int = 2, lowest: int = 0) -> Grouped:
    """Labels and groups of some rows."""
    pairs = draw_value(st.lists(st.tuples(st.integers(0, 3), st.integers(lowest, 8)), min_size=fewest, max_size=60))
    labels, groups = np.array(pairs, dtype=np.int64).T
    return labels, groups


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
def test_shares_add_up_to_the_total(sizes: list[int], total: int) -> None:
    shares = apportion(np.array(sizes), total)
    assert shares.sum() == min(total, sum(sizes))
    assert (shares >= 0).all()
    assert (shares <= sizes).all()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 3))
def test_a_draw_is_stratified_by_class(classes: list[int], total: int, seed: int) -> None:
    labels = np.array(classes)
    drawn = draw(labels, total, seed)
    assert drawn.sum() == min(total, len(labels))
    exact = np.bincount(labels, minlength=5) * drawn.sum() / len(labels)
    assert (np.abs(np.bincount(labels[drawn], minlength=5) - exact) < 1).all()


@given(grouped_rows(lowest=NO_GROUP), st.floats(0, 1), st.integers(0, 9))
@example((np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 2, 2])), 0.8, 0)  # a class with one group
@example((np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, NO_GROUP, NO_GROUP])), 1.0, 0)  # and one with none
def test_groups_are_drawn_whole_and_leave_every_class(rows: Grouped, share: float, seed: int) -> None:
    labels, groups = rows
    drawn = draw_groups(labels, groups, round(share * len(labels)), seed)
    assert not set(groups[drawn]) & set(groups[~drawn]) - {NO_GROUP}
    in_group = groups != NO_GROUP
    assert set(labels[in_group]) == set(labels[in_group & ~drawn])
    assert set(labels) == set(labels[~drawn])


@given(grouped_rows(), st.floats(0, 1), st.integers(0, 9))
def test_the_number_of_rows_differs_by_less_than_a_group(rows: Grouped, share: float, seed: int) -> None:
    labels, groups = rows
    total = round(share * len(labels))
    drawn = draw_groups(labels, groups, total, seed)
    others = [~drawn & (groups != group) for group in set(groups[~drawn])]
    has_last_rows_of_a_class = [set(labels[other]) != set(labels) for other in others]
    assert abs(int(drawn.sum()) - total) < max(2, np.bincount(groups).max()) or all(has_last_rows_of_a_class)


@given(st.integers(0, 9), st.floats(0.1, 0.5), st.integers(2, 4), st.integers(1, 8))
def test_a_draw_of_groups_is_stratified_by_class(seed: int, share: float, classes: int, largest: int) -> None:
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(300), random.integers(1, largest + 1, size=300))
    labels = random.integers(classes, size=len(groups))
    total = round(share * len(labels))
    drawn = draw_groups(labels, groups, total, seed)
    exact = np.bincount(labels) * total / len(labels)
    assert (np.abs(np.bincount(labels[drawn], minlength=classes) - exact) <= largest).all()


@given(grouped_rows(), st.integers(0, 40), st.integers(0, 9))
def test_rows_without_groups_are_drawn_as_rows(rows: Grouped, total: int, seed: int) -> None:
    labels, _ = rows
    drawn, expected = draw_groups(labels, np.full_like(labels, NO_GROUP), total, seed), draw(labels, total, seed)
    kept = [label for label in set(labels) if expected[labels == label].all()]  # each keeps a row for training
    assert not (drawn & ~expected).any()
    assert sorted(labels[expected & ~drawn]) == sorted(kept)


def test_another_seed_draws_other_groups_and_the_same_seed_the_same() -> None:
    groups = np.repeat(np.arange(100), 3)
    labels = groups % 2
    first, again, other = (draw_groups(labels, groups, 60, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
