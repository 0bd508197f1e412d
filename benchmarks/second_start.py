"""Measures seconds from the end of the imports to the first training batch, with the corpus in the cache.

usage: python benchmarks/second_start.py data=imdb data.path=aclImdb_v1.tar.gz
"""

from __future__ import annotations

import sys
import time

from sentattn.build import build_data
from sentattn.config.compose import compose
from sentattn.data.datamodule import TextData


def main(arguments: list[str]) -> None:
    """Prints the seconds of each step; run it twice and use the second result."""
    started = time.perf_counter()
    settings = compose(arguments)
    composed = time.perf_counter()
    data = build_data(settings)
    assert isinstance(data, TextData)
    data.prepare()
    prepared = time.perf_counter()
    batch = next(iter(data.train_dataloader()))
    ended = time.perf_counter()
    print(f"settings {composed - started:.2f} s, corpus {prepared - composed:.2f} s, batch {ended - prepared:.3f} s")
    print(f"first batch {tuple(batch.tokens_BL.shape)} after {ended - started:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
