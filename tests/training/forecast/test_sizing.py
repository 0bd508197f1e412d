"""The batches of an epoch by their size."""

from __future__ import annotations

import numpy as np

from sentattn.training.forecast.sizing import Order


class Loader:
    """Stands in for the loader: an item is the rows themselves."""

    def __init__(self, *batches: list[int]) -> None:
        self.sampler = batches
        self.dataset = {tuple(rows): rows for rows in batches}


LENGTHS = np.array([9, 1, 2, 3, 4, 5])
ORDER = Order(Loader([1, 2], [3, 4, 5, 1], [0]), LENGTHS)  # type: ignore[arg-type]


def test_sizes_of_batches_by_hand() -> None:
    assert ORDER.rows.tolist() == [2, 4, 1]
    assert ORDER.longest.tolist() == [2, 5, 9]
    assert ORDER.sizes.tolist() == [4, 20, 9]
    assert ORDER.real_tokens == 3 + 13 + 9


def test_a_ranks_share_of_each_batch() -> None:
    order = Order(Loader([1, 2], [3, 4, 5, 1], [0]), LENGTHS, world=2)  # type: ignore[arg-type]
    assert order.rows.tolist() == [1, 2, 1]
    assert order.longest.tolist() == [1, 5, 9]


def test_the_heaviest_batches() -> None:
    assert ORDER.heaviest() == [1]  # 20 tokens, and 4 x 25 pairs against 81
    assert Order(Loader([1, 2], [3, 4], [0]), LENGTHS).heaviest() == [2]  # type: ignore[arg-type]
    many_short = Order(Loader([1, 2] * 10, [0]), LENGTHS)  # type: ignore[arg-type]
    assert many_short.heaviest() == [0, 1]  # 40 tokens against 9; 80 pairs against 81


def test_batches_of_all_sizes() -> None:
    assert ORDER.spread(2) == [0, 1]
    assert ORDER.spread(3) == ORDER.spread(16) == [0, 2, 1]


def test_seconds_lie_between_those_that_were_timed() -> None:
    # of 4, 20 and 9 tokens: 1 + (9 - 4) / (20 - 4) x (5 - 1)
    assert ORDER.seconds({0: 1.0, 1: 5.0}).tolist() == [1.0, 5.0, 2.25]
