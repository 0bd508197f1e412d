"""Which batches of a training are timed, and what their times say of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sentattn.console import Progress
from sentattn.training.sample import LONGEST, SECONDS, STEPS, Batches, Timer
from sentattn.training.signals import Signals

LENGTHS = np.array([9, 1, 2, 3, 4, 5])


class Loader:
    """A loader whose batches are the rows themselves."""

    class Rows:
        def __getitem__(self, rows: list[int]) -> list[int]:
            return rows

    def __init__(self, *batches: list[int]) -> None:
        self.sampler = batches
        self.dataset = self.Rows()


def batches(*rows: list[int], world: int = 1) -> Batches:
    loader: Any = Loader(*rows)
    return Batches.of(loader, LENGTHS, world=world)


def timer(*seconds: float) -> Timer:
    times = Timer(Signals(), Progress(), "")
    times.seconds = list(seconds)
    return times


def test_batches_come_by_size() -> None:
    ordered = batches([3, 4, 5, 1], [1, 2], [0])
    assert ordered.rows == [[1, 2], [0], [3, 4, 5, 1]]
    assert ordered.longest.tolist() == [2, 9, 5]
    assert ordered.tokens.tolist() == [4, 9, 20]
    assert list(ordered) == ordered.rows


def test_a_ranks_share_of_each_batch() -> None:
    shared = batches([1, 2], [3, 4, 5, 1], [0], world=2)
    assert shared.rows == [[1], [0], [3, 5]] or sorted(map(len, shared.rows)) == [1, 1, 2]
    assert shared.tokens.tolist() == [1, 9, 10]


def test_a_sample_begins_with_a_single_text_and_the_heaviest_batches() -> None:
    many_short = batches([1, 2] * 10, [0])
    sample = many_short.sample()
    # 40 tokens against 9; 80 pairs of tokens against 81
    assert sample.rows[:4] == [[0], [0], [0], [1, 2] * 10]
    assert sorted(map(len, sample.rows[4:])) == [1, 20], "and all sizes"
    assert len(batches(*([row] for row in [0, 1, 2, 3, 4, 5] * 10)).sample()) == 4 + STEPS


def test_a_sample_ends_where_the_next_batch_would_take_too_long() -> None:
    sample = batches([1], [2, 3, 4, 5] * 20).sample()
    sample.timer = timer(0.0, LONGEST / 100)  # for one token, and the next batch has 400
    assert len(list(sample)) == 2
    sample.timer = timer(SECONDS + 1, LONGEST / 1000)
    assert len(list(sample)) == len(sample), "the first batch pays for the start"
    sample.timer = timer(0.0, SECONDS + 1)
    assert len(list(sample)) == 2


def test_seconds_of_a_token() -> None:
    sample = batches([1], [2], [3], [0]).sample()
    assert sample.tokens[:4].tolist() == [1, 1, 9, 9]
    complete = timer(5.0, 1.0, 9.0, 9.0, *(2.0 * sample.tokens[4:]))
    assert complete.tried_heaviest
    assert complete.seconds_per_token(sample) == pytest.approx(2.0)
    cut = timer(5.0, 1.0)
    assert not cut.tried_heaviest
    assert cut.seconds_per_token(sample) == pytest.approx(1.0)
