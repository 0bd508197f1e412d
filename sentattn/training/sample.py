"""A sample of the batches of a training, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from pytorch_lightning import Callback, LightningModule, Trainer

from sentattn.console import Progress
from sentattn.data.batching import Batch, BatchLoader
from sentattn.training.signals import Signals

SECONDS, LONGEST, STEPS = 15.0, 60.0, 16
"""Seconds that all batches may take together and one alone, and how many of all sizes there are at most."""
SINGLE, HEAVIEST = 2, 2
"""Batches at the beginning of what is timed: a single text, and the largest batches."""


class Batches(Iterable[Batch]):
    """Some batches of a split, and their sizes.

    Args:
        dataset: Returns a batch for its rows.
        rows: The rows of each batch.
        lengths: How many tokens each row of the split has.

    Attributes:
        longest: Tokens of the longest row of each batch.
        tokens: Tokens of each batch, padding included.
        timer: Ends a pass early; None where all batches are wanted.
    """

    def __init__(self, dataset: Any, rows: Sequence[Sequence[int]], lengths: Any) -> None:
        self.dataset, self.rows, self.lengths = dataset, rows, lengths
        self.longest = np.array([int(lengths[batch].max()) for batch in rows])
        self.tokens = self.longest * np.array([len(batch) for batch in rows])
        self.timer: Timer | None = None

    @classmethod
    def of(cls, loader: BatchLoader, lengths: Any, *, world: int = 1) -> Batches:
        """Returns the batches of a loader, one rank's rows of each, the smallest first."""
        batches = cls(loader.dataset, [rows[::world] for rows in loader.sampler], lengths)
        return batches.pick(np.argsort(batches.tokens, kind="stable"))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Batch]:
        for index, rows in enumerate(self.rows):
            if index > 1 and self.timer and self.timer.is_over(self.tokens[index - 1], self.tokens[index]):
                return
            yield self.dataset[rows]

    def pick(self, indices: Iterable[int]) -> Batches:
        """Returns some of the batches, in this order."""
        return Batches(self.dataset, [self.rows[index] for index in indices], self.lengths)

    def sample(self) -> Batches:
        """Returns what is timed: a single text, the heaviest batches, and then batches of all sizes.

        The most memory is taken by the batch with the most tokens, or by the one with the most pairs of tokens.
        """
        spread = np.linspace(0, len(self) - 1, min(STEPS, len(self))).round().astype(int)
        heaviest = [int((self.tokens * self.longest).argmax()), len(self) - 1]
        chosen = self.pick([*heaviest, *np.random.default_rng(0).permutation(spread)])
        return Batches(self.dataset, [*[self.rows[0][:1]] * SINGLE, *chosen.rows], self.lengths)


class Timer(Callback):
    """Times batches.

    Attributes:
        seconds: Of each batch.
        state_bytes: Size of the optimizer's state after the last step.
    """

    def __init__(self, signals: Signals, progress: Progress, stage: str) -> None:
        self.signals, self.progress, self.stage = signals, progress, stage
        self.seconds: list[float] = []
        self.state_bytes = 0
        self._started = 0.0

    def is_over(self, last: int, following: int) -> bool:
        """Returns whether the next batch would take too long, or the batches so far have.

        Args:
            last: Tokens of the last batch.
            following: Tokens of the next batch.
        """
        return sum(self.seconds[1:]) > SECONDS or self.seconds[-1] * following / last > LONGEST

    @property
    def tried_heaviest(self) -> bool:
        """Whether the heaviest batches were among those that were timed."""
        return len(self.seconds) >= SINGLE + HEAVIEST

    def seconds_per_token(self, batches: Batches) -> float:
        """Returns the mean over the batches of all sizes, or from the last batch where there are none."""
        timed = range(min(SINGLE + HEAVIEST, len(self.seconds) - 1), len(self.seconds))
        return sum(self.seconds[index] for index in timed) / sum(int(batches.tokens[index]) for index in timed)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self._tick(pl_module.device, int(trainer.num_training_batches))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
        self.state_bytes = sum(value.nbytes for state in states for value in state.values() if torch.is_tensor(value))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start()

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self._tick(pl_module.device, int(trainer.num_val_batches[0]))

    def _start(self) -> None:
        self.signals.install()  # Ctrl-C and SIGTERM raise at once, not as Lightning handles them
        self._started = time.perf_counter()

    def _tick(self, device: torch.device, total: int) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.perf_counter()
        self.seconds.append(now - self._started)
        self._started = now
        self.progress(self.stage, len(self.seconds), total)
