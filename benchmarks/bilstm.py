"""Times forward and backward passes of our BiLSTM and of a packed `nn.LSTM` with the same weights.

Rounds are interleaved.

usage: python benchmarks/bilstm.py [rounds]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentattn.models.encoders.bilstm import BiLSTM

BATCH, LENGTH, DIM, HIDDEN = 64, 256, 100, 100


def main(rounds: int = 15) -> None:
    """Prints the median time of each model, their ratio, and the range of the ratio over the rounds."""
    torch.manual_seed(0)
    lengths = torch.randint(LENGTH * 9 // 10, LENGTH + 1, (BATCH,))
    lengths[0] = LENGTH
    mask_BL = torch.arange(LENGTH)[None] < lengths[:, None]
    states = torch.randn(BATCH, LENGTH, DIM, requires_grad=True)
    ours, packed = BiLSTM(dim=DIM, hidden=HIDDEN), nn.LSTM(DIM, HIDDEN, bidirectional=True, batch_first=True)

    def packed_forward() -> Tensor:
        output, _ = packed(pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False))
        return pad_packed_sequence(output, batch_first=True)[0]

    models: dict[str, Callable[[], Tensor]] = {"packed": packed_forward, "ours": lambda: ours(states, mask_BL)}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(rounds + 3):
        for name, forward in models.items():
            started = time.perf_counter()
            forward().square().mean().backward()
            if turn >= 3:
                seconds[name].append(time.perf_counter() - started)
    ratios = [slow / fast for slow, fast in zip(seconds["packed"], seconds["ours"], strict=True)]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {rounds} rounds after 3 of warm-up")
    for name, times in seconds.items():
        low, middle, high = (1000 * f(times) for f in (min, statistics.median, max))
        print(f"{name:7} median {middle:.1f} ms ({low:.1f} to {high:.1f})")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print(
        f"ratio of medians {medians['packed'] / medians['ours']:.2f}, by round {min(ratios):.2f} to {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
