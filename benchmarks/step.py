"""Measures time and memory of a training step by settings and environment.

Rounds are interleaved, and each measurement is in a fresh process.

usage: python benchmarks/step.py [rounds=5] "SETTINGS" ["SETTINGS" ...]

SETTINGS are training settings and environment variables, separated by spaces; FLUSH_DENORMAL=0 keeps denormal numbers
as they are. Processor time leaves out the time in which a thread waits for other processes; on a quiet machine compare
the elapsed time too.

Examples:
  python benchmarks/step.py "model=structured" "THP_MEM_ALLOC_ENABLE=0 model=structured"
  python benchmarks/step.py rounds=3 "model=mean" "model=mean optimizer.fused=false"
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

import torch
from measure import fresh_process, read_options, spread, training_step

from sentattn.config.compose import compose
from sentattn.training.environment import set_up_torch

BATCH, WORDS, LENGTHS = 64, 30002, (230, 120, 600, 180, 300, 150, 230, 420, 200, 100)
WARM_UP = 3
READ = "--read"
ENVIRONMENT = {"FLUSH_DENORMAL": "1", "THP_MEM_ALLOC_ENABLE": "1", "GOMP_SPINCOUNT": "5000"}


def main(words: list[str]) -> None:
    """Measures each set of settings once a round; prints medians and ranges of a step's milliseconds."""
    options, sets = read_options(words, rounds=5)
    readings: dict[str, list[dict[str, float]]] = {settings: [] for settings in sets}
    for _ in range(options["rounds"]):
        for settings, read in readings.items():
            typed = settings.split()
            variables = {key: value for key, _, value in (word.partition("=") for word in typed) if key.isupper()}
            others = [word for word in typed if word.partition("=")[0] not in variables]
            read.append(fresh_process(__file__, READ, *others, **ENVIRONMENT | variables))
    print(f"{options['rounds']} rounds, {BATCH} texts of {LENGTHS} tokens or data.max_length, ms a step")
    for settings, read in readings.items():
        columns = [f"{metric} {spread([reading[metric] for reading in read], 0)}" for metric in read[0]]
        print(f"{settings}\n  {'   '.join(columns)}")


def read(words: list[str]) -> dict[str, float]:
    """Returns processor milliseconds, elapsed milliseconds and peak memory in MB of a step in this process."""
    settings = compose([*words, "logger=none"])
    set_up_torch(settings)
    torch.set_flush_denormal(os.environ["FLUSH_DENORMAL"] == "1")
    torch.manual_seed(0)
    step = training_step(settings, WORDS, {"negative": 1, "positive": 1})
    labels_B = torch.arange(BATCH) % 2
    longest = settings["data"]["max_length"] or max(LENGTHS)

    def steps(lengths: tuple[int, ...]) -> None:
        for length in lengths:
            tokens_BL = torch.randint(2, WORDS, (BATCH, min(length, longest)))
            step(tokens_BL, torch.ones_like(tokens_BL, dtype=torch.bool), labels_B)

    steps(LENGTHS[:WARM_UP])
    busy, started = time.process_time(), time.perf_counter()
    steps(LENGTHS)
    milliseconds = 1000 / len(LENGTHS)
    return {
        "processor": (time.process_time() - busy) * milliseconds,
        "elapsed": (time.perf_counter() - started) * milliseconds,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == [READ]:
        print(json.dumps(read(sys.argv[2:])))
    else:
        main(sys.argv[1:])
