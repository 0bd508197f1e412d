"""Batches: the tokens of their rows, their order, and what each rank reads of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tiny import tiny

from sentattn import build
from sentattn.config.compose import compose
from sentattn.data.batching import BatchLoader, FixedBuckets, OrderOfRank, ShuffledBatches, length_batches, pad
from sentattn.data.corpus import Corpus, Split
from sentattn.data.datamodule import TextData
from sentattn.data.tokenizer import Tokenizer

lengths_and_sizes = {
    "lengths": st.lists(st.integers(1, 50), min_size=1, max_size=300).map(np.array),
    "batch_size": st.integers(1, 40),
}


@given(**lengths_and_sizes, seed=st.integers(0, 9), epoch=st.integers(0, 9), by_length=st.booleans())
def test_an_epoch_has_every_row_once(lengths, batch_size, seed, epoch, by_length) -> None:
    batches = ShuffledBatches(lengths, batch_size=batch_size, seed=seed, by_length=by_length)
    batches.set_epoch(epoch)
    drawn = list(batches)
    assert len(drawn) == len(batches)
    assert sorted(row for batch in drawn for row in batch) == list(range(len(lengths)))
    assert sorted(map(len, drawn))[1:] == [batch_size] * (len(drawn) - 1)


@given(**lengths_and_sizes)
def test_length_batches_have_every_row_once_longest_first(lengths, batch_size) -> None:
    batches = length_batches(lengths, batch_size=batch_size)
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert (np.diff(lengths[rows]) <= 0).all()


@pytest.mark.parametrize("index", [0, 1])
def test_the_order_depends_on_seed_and_epoch(index: int) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return list(_orders(np.arange(1, 101), 8, epoch, seed)[index])

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
    assert re.findall(r"\d+,\d+", buckets.statistics())[:2] == ["198,000", "2,922"]


@given(**lengths_and_sizes, seed=st.integers(0, 9), epoch=st.integers(0, 9), num_buckets=st.integers(1, 60))
def test_fixed_buckets_have_every_row_once(lengths, batch_size, seed, epoch, num_buckets) -> None:
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


def _orders(lengths: np.ndarray, batch_size: int, epoch: int, seed: int = 3) -> list[ShuffledBatches | FixedBuckets]:
    about = {"batch_size": batch_size, "seed": seed}
    orders = [
        ShuffledBatches(lengths, **about, by_length=True),
        FixedBuckets(lengths, **about, num_buckets=10, bucket_ratio=0.5),
    ]
    for order in orders:
        order.set_epoch(epoch)
    return orders


@given(**lengths_and_sizes, epoch=st.integers(0, 9), world_size=st.integers(1, 5))
def test_ranks_share_every_batch_of_one_process(lengths, batch_size, epoch, world_size) -> None:
    for order in _orders(lengths, batch_size, epoch):
        whole = list(order)
        shares = [OrderOfRank(order, rank=rank, world_size=world_size) for rank in range(world_size)]
        for share in shares:
            share.set_epoch(epoch)
        assert {len(share) for share in shares} == {len(whole)}
        for batch, *parts in zip(whole, *shares, strict=True):
            assert sorted(row for part in parts for row in part) == sorted(batch)
            sizes = list(map(len, parts))
            assert max(sizes) - min(sizes) <= 1
            assert sizes[0] == max(sizes), "rank 0 is never the one without a row"


@given(**lengths_and_sizes, world_size=st.integers(1, 5))
def test_each_batch_is_evaluated_by_one_rank(lengths, batch_size, world_size) -> None:
    order = length_batches(lengths, batch_size=batch_size)
    measured = [OrderOfRank(order, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert [len(batches) for batches in measured] == [len(list(batches)) for batches in measured]
    in_turns = sorted((place, rank) for rank, batches in enumerate(measured) for place in range(len(batches)))
    parts = [iter(batches) for batches in measured]
    assert [next(parts[rank]) for _, rank in in_turns] == list(order)


def _data(*settings: str) -> TextData:
    return build.build_data(compose(tiny(*settings)))


def _batches_of_ranks(data: TextData, split: str, world_size: int) -> Iterator[list[list[int]]]:
    """Yields the rows of each batch of each rank."""
    data.world_size = world_size
    for data.rank in range(world_size):
        loader = data.train_dataloader() if split == "train" else data.val_dataloader()
        yield [batch.rows_B.tolist() for batch in loader]


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("settings", [(), ("data.batching=fixed", "data.num_buckets=7", "data.limit=199")])
def test_ranks_share_every_training_batch(world_size: int, settings: tuple[str, ...]) -> None:
    data = _data(*settings)
    batches = [sorted(batch.rows_B.tolist()) for batch in data.train_dataloader()]
    shares = list(_batches_of_ranks(data, "train", world_size))
    assert [sorted(row for share in batch for row in share) for batch in zip(*shares, strict=True)] == batches


@pytest.mark.parametrize(("limit", "world_size"), [(200, 3), (30, 2), (5, 3), (3, 3)])
def test_each_validation_row_is_evaluated_by_one_rank(limit: int, world_size: int) -> None:
    data = _data(f"data.limit={limit}")
    shares = list(_batches_of_ranks(data, "val", world_size))
    assert min(map(len, shares)) >= 1, "a rank without a batch would block the others"
    assert sorted(row for share in shares for batch in share for row in batch) == list(range(limit))


def test_fewer_validation_rows_than_ranks_are_refused() -> None:
    data = _data("data.limit=3")
    data.world_size = 4
    assert refused(lambda: data.prepare()) == [("trainer.devices", "conflict")]


def test_a_batch_has_the_ids_of_its_rows(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a b c d e", "b a", "zzz", "e"])
    assert corpus.words == ["a", "b", "c", "d", "e", "zzz"]
    ids = np.array([10, 11, 12, 13, 14, 1])
    rows = Split(corpus, np.array([3, 0, 1, 2]), ids=ids, tokenizer=Tokenizer([], max_length=3))
    batch = rows[[1, 2, 3]]
    assert batch.tokens_BL.tolist() == [[10, 11, 14], [11, 10, 0], [1, 0, 0]]
    assert batch.mask_BL.tolist() == [[True, True, True], [True, True, False], [True, False, False]]
    assert batch.rows_B.tolist() == [1, 2, 3]
    assert (batch.tokens_BL.dtype, batch.mask_BL.dtype) == (torch.int64, torch.bool)
    assert rows.lengths.tolist() == [1, 3, 2, 1]
    assert rows[0].tokens_BL.tolist() == [[14]]


def test_flat_concatenates_the_clipped_rows(corpus_of: Callable[..., Corpus], monkeypatch) -> None:
    monkeypatch.setattr("sentattn.data.corpus.FLAT_ROWS", 2)
    corpus = corpus_of(train=["a b c d e", "b a", "zzz", "e"])
    rows = Split(corpus, np.array([3, 0, 1]), ids=np.arange(10, 16), tokenizer=Tokenizer([], max_length=3))
    tokens, offsets = rows.flat()
    assert tokens.tolist() == [14, 10, 11, 14, 11, 10]
    assert offsets.tolist() == [0, 1, 4, 6]


def test_pad() -> None:
    tokens_BL, mask_BL = pad([np.array([5, 6], dtype=np.int32), np.array([7], dtype=np.int32)])
    assert tokens_BL.tolist() == [[5, 6], [7, 0]]
    assert tokens_BL.dtype == torch.int64
    assert mask_BL.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_resumes_within_an_epoch(corpus_of: Callable[..., Corpus], num_workers: int) -> None:
    corpus = corpus_of(train=[f"a{i} " * (1 + i % 5) for i in range(20)])
    rows = Split(corpus, np.arange(20), ids=np.arange(len(corpus.words)), tokenizer=Tokenizer([]))

    def epochs(loader: BatchLoader, first: int) -> list[list[list[int]]]:
        passes = []
        for epoch in range(first, 3):
            loader.sampler.set_epoch(epoch)
            passes.append([batch.rows_B.tolist() for batch in loader])
        return passes

    def shuffled() -> BatchLoader:
        return BatchLoader(rows, ShuffledBatches(rows.lengths, batch_size=3, seed=1, by_length=True), num_workers)

    whole = epochs(shuffled(), 0)
    loader = shuffled()
    loader.sampler.set_epoch(1)
    batches = iter(loader)
    before = [next(batches).rows_B.tolist() for _ in range(4)]
    state = loader.state_dict()
    assert state == {"batches": 4}
    again = shuffled()
    again.load_state_dict(state)
    after, *rest = epochs(again, 1)
    assert before + after == whole[1]
    assert rest == whole[2:]


def test_batches_leave_the_random_state_unchanged(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b"])
    rows = Split(corpus, np.arange(2), ids=np.arange(len(corpus.words)), tokenizer=Tokenizer([]))
    before = torch.get_rng_state()
    assert len(list(BatchLoader(rows, length_batches(rows.lengths, batch_size=1), 0))) == 2
    assert torch.equal(before, torch.get_rng_state())
