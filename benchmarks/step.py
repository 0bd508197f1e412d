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
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentattn.models.classifier import TextClassifier

BATCH, WORDS, LENGTHS = 64, 30002, (230, 120, 600, 180, 300, 150, 230, 420, 200, 100)
WARM_UP = 3
READ = "--read"
ENVIRONMENT = {"FLUSH_DENORMAL": "1", "THP_MEM_ALLOC_ENABLE": "1", "GOMP_SPINCOUNT": "5000"}


def main(arguments: list[str]) -> None:
    """Measures each set of settings once a round; prints medians and ranges of a step's milliseconds."""
    rounds = int(arguments.pop(0).partition("=")[2]) if arguments[0].startswith("rounds=") else 5
    readings: dict[str, list[dict[str, float]]] = {settings: [] for settings in arguments}
    for _ in range(rounds):
        for settings, read in readings.items():
            read.append(_measure_in_process(settings.split()))
    print(f"{rounds} rounds, {BATCH} texts of {LENGTHS} tokens or data.max_length, ms a step")
    for settings, read in readings.items():
        columns = [f"{metric} {_spread([reading[metric] for reading in read])}" for metric in read[0]]
        print(f"{settings}\n  {'   '.join(columns)}")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def _measure_in_process(words: list[str]) -> dict[str, float]:
    variables = {word.partition("=")[0]: word.partition("=")[2] for word in words if word.partition("=")[0].isupper()}
    settings = [word for word in words if word.partition("=")[0] not in variables]
    done = subprocess.run(
        [sys.executable, __file__, READ, *settings],
        env={**os.environ, **ENVIRONMENT, **variables},
        check=True,
        capture_output=True,
        text=True,
    )
    reading: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return reading


def training_step(settings: list[str]) -> tuple[TextClassifier, Callable[[int], None]]:
    """Returns the model of some settings, and a function that trains it on a batch of texts of one length."""
    import torch

    from sentattn.build import build_model, instantiate
    from sentattn.config.compose import compose
    from sentattn.training.environment import set_up_torch

    composed: dict[str, Any] = compose([*settings, "logger=none"])
    set_up_torch(composed)
    torch.set_flush_denormal(os.environ.get("FLUSH_DENORMAL", "1") == "1")
    torch.manual_seed(0)
    model = build_model(composed["model"], num_embeddings=WORDS, classes=2)
    loss = instantiate(composed["loss"], class_counts={"negative": 1, "positive": 1})
    optimizer = instantiate(composed["optimizer"], params=model.parameters())
    averaged = [p.detach().clone() for p in model.parameters()]
    longest = composed["data"]["max_length"] or max(LENGTHS)

    def step(length: int) -> None:
        tokens_BL = torch.randint(2, WORDS, (BATCH, min(length, longest)))
        with torch.autocast("cpu", torch.bfloat16, enabled=composed["trainer"]["precision"] == "bf16-mixed"):
            classified = model(tokens_BL, torch.ones_like(tokens_BL, dtype=torch.bool))
        labels_B = torch.arange(BATCH) % 2
        optimizer.zero_grad()
        loss(classified.logits_BC, labels_B, classified.attended.weights_BRL).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch._foreach_lerp_(averaged, [p.detach() for p in model.parameters()], 0.002)

    return model, step


def read(settings: list[str]) -> dict[str, float]:
    """Returns processor milliseconds, elapsed milliseconds and peak memory in MB of a step in this process."""
    _, step = training_step(settings)
    for length in LENGTHS[:WARM_UP]:
        step(length)
    busy, started = time.process_time(), time.perf_counter()
    for length in LENGTHS:
        step(length)
    milliseconds = 1000 / len(LENGTHS)
    return {
        "processor": (time.process_time() - busy) * milliseconds,
        "elapsed": (time.perf_counter() - started) * milliseconds,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == [READ]:
        print(json.dumps(read(sys.argv[2:])))
    elif len(sys.argv) > 1:
        main(sys.argv[1:])
    else:
        print((__doc__ or "").strip())
