"""Every row once an epoch, in whole batches; fixed buckets as the Gluon tutorial printed them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.ordering import FixedBuckets, LengthBatches, ShuffledBatches

lengths_and_sizes = {
    "lengths": st.lists(st.integers(1, 50), min_size=1, max_size=300).map(np.array),
    "batch_size": st.integers(1, 40),
}


@given(**lengths_and_sizes, seed=st.integers(0, 9), epoch=st.integers(0, 9), by_length=st.booleans())
def test_an_epoch_holds_every_row_once(lengths, batch_size, seed, epoch, by_length) -> None:
    batches = ShuffledBatches(lengths, batch_size=batch_size, seed=seed, by_length=by_length)
    batches.set_epoch(epoch)
    drawn = list(batches)
    assert len(drawn) == len(batches)
    assert sorted(row for batch in drawn for row in batch) == list(range(len(lengths)))
    assert sorted(map(len, drawn))[1:] == [batch_size] * (len(drawn) - 1)


@given(**lengths_and_sizes)
def test_length_batches_hold_every_row_once_longest_first(lengths, batch_size) -> None:
    batches = LengthBatches(lengths, batch_size=batch_size)
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert (np.diff(lengths[rows]) <= 0).all()
    assert len(list(batches)) == len(batches)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = ShuffledBatches(np.arange(100), batch_size=8, seed=seed, by_length=True)
        batches.set_epoch(epoch)
        return list(batches)

    assert order(0, 0) == order(0, 0)
    assert len({str(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


def _padding(lengths: np.ndarray, batches: list[list[int]]) -> float:
    padded = sum(lengths[batch].max() * len(batch) for batch in batches)
    return float(1 - lengths.sum() / padded)


def test_sorting_leaves_little_padding() -> None:
    lengths = np.random.default_rng(0).lognormal(5, 0.7, size=20000).astype(np.int64) + 1
    by_length, by_chance = (
        list(ShuffledBatches(lengths, batch_size=64, seed=0, by_length=choice)) for choice in (True, False)
    )
    assert _padding(lengths, by_length) < 0.1 < 0.5 < _padding(lengths, by_chance)
    # Random nevertheless: neighbouring batches are not of neighbouring lengths.
    means = np.array([lengths[batch].mean() for batch in by_length])
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.2


GLUON_COUNTS = [269, 4494, 13819, 14968, 15000, 14057, 12908, 11670, 10270, 100545]


def _buckets(lengths: np.ndarray, batch_size: int = 64, seed: int = 0) -> FixedBuckets:
    return FixedBuckets(lengths, batch_size=batch_size, num_buckets=10, bucket_ratio=0.5, seed=seed)


def test_fixed_buckets_are_those_of_the_gluon_tutorial() -> None:
    keys = range(10, 101, 10)
    lengths = np.concatenate([np.full(count, key) for key, count in zip(keys, GLUON_COUNTS, strict=True)])
    lengths[0] = 1  # the histogram tells the keys only; a width of 10 needs lengths from 1 to 100
    buckets = _buckets(lengths)
    assert buckets.keys == list(keys)
    assert buckets.counts == GLUON_COUNTS
    assert buckets.batch_sizes == [320, 160, 106, 80, 64, 64, 64, 64, 64, 64]
    assert len(buckets) == 2922
    assert "198,000 training rows in 2,922 batches" in buckets.statistics()


@given(**lengths_and_sizes, seed=st.integers(0, 9), epoch=st.integers(0, 9), num_buckets=st.integers(1, 60))
def test_fixed_buckets_hold_every_row_once(lengths, batch_size, seed, epoch, num_buckets) -> None:
    buckets = FixedBuckets(lengths, batch_size=batch_size, num_buckets=num_buckets, bucket_ratio=0.5, seed=seed)
    buckets.set_epoch(epoch)
    drawn = list(buckets)
    assert len(drawn) == len(buckets)
    assert sorted(row for batch in drawn for row in batch) == list(range(len(lengths)))
    assert buckets.keys[-1] == lengths.max()
    assert len(buckets.keys) <= num_buckets
    for batch in drawn:
        key = next(key for key in buckets.keys if key >= lengths[batch].max())
        below = [other for other in buckets.keys if other < key]
        assert lengths[batch].min() > max(below, default=0)
        assert len(batch) <= buckets.batch_sizes[buckets.keys.index(key)]


@pytest.mark.parametrize(("ratio", "sizes"), [(0.0, [8, 8]), (1.0, [80, 8]), (0.25, [20, 8])])
def test_batches_of_short_rows_grow_with_the_ratio(ratio: float, sizes: list[int]) -> None:
    lengths = np.array([1, 10, 95, 100])
    buckets = FixedBuckets(lengths, batch_size=8, num_buckets=10, bucket_ratio=ratio, seed=0)
    assert buckets.keys == [10, 100]
    assert buckets.batch_sizes == sizes


def test_the_order_of_fixed_buckets_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        buckets = _buckets(np.arange(1, 101), batch_size=4, seed=seed)
        buckets.set_epoch(epoch)
        return list(buckets)

    assert order(0, 0) == order(0, 0)
    assert len({str(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4
