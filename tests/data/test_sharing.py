"""What several ranks read of a data set: together its batches, once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny

from sentattn import build
from sentattn.config.compose import compose
from sentattn.data.ordering import FixedBuckets, LengthBatches, ShuffledBatches
from sentattn.data.sharing import BatchesOfRank, RowsOfRank
from sentattn.data.text_data import TextData
from sentattn.distributed import ranks
from sentattn.errors import DataError

lengths_and_sizes = {
    "lengths": st.lists(st.integers(1, 50), min_size=1, max_size=300).map(np.array),
    "batch_size": st.integers(1, 40),
}


def _orders(lengths: np.ndarray, batch_size: int, epoch: int) -> list[ShuffledBatches | FixedBuckets]:
    about = {"batch_size": batch_size, "seed": 3}
    orders = [
        ShuffledBatches(lengths, **about, by_length=True),
        FixedBuckets(lengths, **about, num_buckets=10, bucket_ratio=0.5),
    ]
    for order in orders:
        order.set_epoch(epoch)
    return orders


@given(**lengths_and_sizes, epoch=st.integers(0, 9), world=st.integers(1, 5))
def test_ranks_share_every_batch_of_one_process(lengths, batch_size, epoch, world) -> None:
    for order in _orders(lengths, batch_size, epoch):
        whole = list(order)
        shares = [RowsOfRank(order, rank=rank, world=world) for rank in range(world)]
        for share in shares:
            share.set_epoch(epoch)
        assert {len(share) for share in shares} == {len(whole)}
        for batch, *parts in zip(whole, *shares, strict=True):
            assert sorted(row for part in parts for row in part) == sorted(batch)
            sizes = list(map(len, parts))
            assert max(sizes) - min(sizes) <= 1
            assert sizes[0] == max(sizes), "rank 0 is never the one without a row"


def test_shares_come_in_another_order_each_epoch() -> None:
    share = RowsOfRank(_orders(np.arange(1, 101), 8, 0)[0], rank=1, world=2)
    drawn = []
    for epoch in range(3):
        share.set_epoch(epoch)
        drawn.append(str(list(share)))
    share.set_epoch(0)
    assert len(set(drawn)) == 3
    assert drawn[0] == str(list(share))


@given(**lengths_and_sizes, world=st.integers(1, 5))
def test_each_batch_is_measured_by_one_rank(lengths, batch_size, world) -> None:
    order = LengthBatches(lengths, batch_size=batch_size)
    measured = [BatchesOfRank(order, rank=rank, world=world) for rank in range(world)]
    assert [len(batches) for batches in measured] == [len(list(batches)) for batches in measured]
    in_turns = sorted((place, rank) for rank, batches in enumerate(measured) for place in range(len(batches)))
    parts = [iter(batches) for batches in measured]
    assert [next(parts[rank]) for _, rank in in_turns] == list(order)


def _data(*settings: str) -> TextData:
    return build.build_data(compose(tiny(*settings)))


def _of_each(data: TextData, split: str, world: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[int]]]:
    """Yields the rows of each batch of each rank."""
    monkeypatch.setattr(ranks, "world", lambda: world)
    for rank in range(world):
        monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
        loader = data.train_dataloader() if split == "train" else data.val_dataloader()
        yield [batch.rows_B.tolist() for batch in loader]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("settings", [(), ("data.batching=fixed", "data.num_buckets=7", "data.limit=199")])
def test_training_rows_are_divided_in_every_batch(
    world: int, settings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _data(*settings)
    whole = [sorted(batch.rows_B.tolist()) for batch in data.train_dataloader()]
    shares = list(_of_each(data, "train", world, monkeypatch))
    assert [sorted(row for part in parts for row in part) for parts in zip(*shares, strict=True)] == whole


@pytest.mark.parametrize(("limit", "world"), [(200, 2), (200, 3), (30, 2), (5, 3), (3, 3)])
def test_each_rank_measures_rows_of_its_own(limit: int, world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _data(f"data.limit={limit}")
    shares = list(_of_each(data, "val", world, monkeypatch))
    assert min(map(len, shares)) >= 1, "a rank without a batch would keep the others waiting"
    assert sorted(row for share in shares for batch in share for row in batch) == list(range(limit))


def test_fewer_validation_rows_than_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _data("data.limit=3")
    monkeypatch.setattr(ranks, "world", lambda: 4)
    with pytest.raises(DataError, match=r"4 devices cannot share 3 validation rows: type trainer.devices=3"):
        data.prepare()
