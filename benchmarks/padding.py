"""Counts the padding of an epoch of training batches, as a share of all tokens, by data set and order of the batches.

usage: python benchmarks/padding.py DATA[=PATH] ... [SETTING ...], for example imdb=aclImdb_v1.tar.gz data.batch_size=64
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Literal

import numpy as np
from measure import machine
from numpy.typing import NDArray

from sentattn.build import build_data
from sentattn.config.compose import compose

BATCHING: tuple[Literal["sorted", "fixed", "random"], ...] = ("sorted", "fixed", "random")
GOAL = 0.02


def main(arguments: list[str]) -> None:
    """Prints a row a data set and order, then a line of JSON."""
    settings = [argument for argument in arguments if "." in argument.partition("=")[0]]
    rows = []
    print("| data | batching | batches | tokens | padding |\n|---|---|---|---|---|")
    for argument in (argument for argument in arguments if argument not in settings):
        name, _, path = argument.partition("=")
        data = build_data(compose([f"data={name}", *([f"data.path={path}"] if path else []), *settings]))
        data.prepare()
        lengths = data.split("train").lengths
        for batching in BATCHING:
            data.batching = batching
            batches = list(data.train_dataloader().sampler)
            share = padding(lengths, batches)
            rows.append({"data": name, "batching": data.batching, "batches": len(batches), "padding": share})
            print(f"| {name} | {data.batching} | {len(batches):,} | {lengths.sum():,} | {share:.2%} |")
    print("\n" + json.dumps({"title": "padding", "goal": GOAL, "rows": rows} | machine()))


def padding(lengths: NDArray[np.int64], batches: Iterable[list[int]]) -> float:
    """Returns the share of the tokens of all batches that is padding."""
    widths = [lengths[batch].max() * len(batch) for batch in batches]
    return 1 - float(lengths.sum() / sum(widths))


if __name__ == "__main__":
    main(sys.argv[1:])
