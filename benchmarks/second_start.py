"""Measures seconds from the end of the imports to the first training batch, with corpus and states in the cache.

usage: python benchmarks/second_start.py data=imdb data.path=aclImdb_v1.tar.gz [SETTINGS]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from sentattn.config.request import read_request
from sentattn.console import Progress
from sentattn.training.prepare import build_data, build_module, choose_precision, set_up
from sentattn.training.states import use_cached_states


def main(arguments: list[str]) -> None:
    """Prints the seconds of each step; run it twice and use the second result."""
    started = time.perf_counter()
    settings = read_request(arguments).settings
    settings = replace(settings, trainer=choose_precision(settings.trainer))
    composed = time.perf_counter()
    with Progress() as progress:
        evaluator, _ = set_up(settings, progress)
        data = build_data(settings, progress)
        module = build_module(settings, data)
        prepared = time.perf_counter()
        use_cached_states(data, module.model, evaluator.device, progress, test=settings.test)
    cached = time.perf_counter()
    batch = next(iter(data.train_dataloader()))
    ended = time.perf_counter()
    print(
        f"settings {composed - started:.2f} s, corpus and model {prepared - composed:.2f} s, "
        f"states {cached - prepared:.2f} s, batch {ended - cached:.3f} s"
    )
    print(f"first batch {tuple(batch.tokens_BL.shape)} after {ended - started:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
