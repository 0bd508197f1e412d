"""Runs that are killed, and whether two runs are the same run, bit by bit."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from sentattn import fit

HANGS = 600.0
TIMES = ("train_seconds", "seconds", "train/tokens_per_second")


def kill_in_the_second_epoch(arguments: list[str], output_dir: Path) -> Path:
    """Trains in a process of its own and kills it in the middle; returns the run that is left."""
    process = multiprocessing.get_context("fork").Process(target=fit, args=(arguments,))
    process.start()
    deadline = time.monotonic() + HANGS
    while not list(output_dir.glob("*/*/*/metrics.jsonl")):
        assert process.is_alive(), "the training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.join()
    [left] = output_dir.glob("*/*/*")
    assert not (left / "result.json").exists(), "the training ended before it could be killed"
    return left


def assert_alike(one: Path, other: Path) -> None:
    """Asserts that weights, optimizer, schedule, averages, random states, metrics and predictions are equal."""
    results = [json.loads((path / "result.json").read_text()) for path in (one, other)]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert results[0]["best_epoch"] == results[1]["best_epoch"]
    assert (one / "model/model.safetensors").read_bytes() == (other / "model/model.safetensors").read_bytes()
    assert pq.read_table(one / "predictions.parquet") == pq.read_table(other / "predictions.parquet")
    assert rows(one) == rows(other)
    for name in ("last.ckpt", "best.ckpt"):
        checkpoints = [torch.load(path / "checkpoints" / name, weights_only=True) for path in (one, other)]
        assert not list(differences(*checkpoints))


def rows(path: Path) -> list[dict[str, float]]:
    """The lines of `metrics.jsonl` but for the time they took."""
    lines = (path / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Yields where two nested values differ, times left out."""
    if isinstance(one, torch.Tensor):
        if not torch.equal(one, other):
            yield where
    elif isinstance(one, dict):
        if set(one) != set(other):
            yield where
        for key in (key for key in one if key not in TIMES):
            yield from differences(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list | tuple):
        if len(one) != len(other):
            yield where
        for i, pair in enumerate(zip(one, other, strict=False)):
            yield from differences(*pair, f"{where}/{i}")
    elif one != other:
        yield where
