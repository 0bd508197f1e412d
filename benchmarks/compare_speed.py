"""Measures `sentattn.compare` on runs with random predictions.

usage: python benchmarks/compare_speed.py [runs=100] [rows=25000] [rounds=5]

The runs are settings of five seeds each, on rows in 400 groups. A round is a fresh process with the imports.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sentattn.config.compose import compose
from sentattn.config.hashing import setting_hash
from sentattn.run import yaml_text

SEEDS, GROUPS, CLASSES = 5, 400, 2


def main(arguments: list[str]) -> None:
    """Prints the seconds of each round and a line of JSON."""
    options = {"runs": 100, "rows": 25_000, "rounds": 5}
    options |= {word.partition("=")[0]: int(word.partition("=")[2]) for word in arguments}
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), options["runs"], options["rows"])
        for _ in range(options["rounds"]):
            started = time.perf_counter()
            command = [sys.executable, "-m", "sentattn.compare", folder, "pairs=all"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(round(time.perf_counter() - started, 2))
    print(f"{options['runs']} runs of {options['rows']:,} rows: median {statistics.median(seconds)} s, {seconds}")
    print(json.dumps({**options, "seconds": seconds}))


def write_runs(folder: Path, runs: int, rows: int) -> None:
    """Writes run directories whose predictions are right with probability 0.9."""
    random = np.random.default_rng(0)
    labels, groups = random.integers(CLASSES, size=rows), random.integers(GROUPS, size=rows)
    for number in range(runs):
        seed = number % SEEDS
        settings = compose(["model=structured", f"model.attention.hops={number // SEEDS + 1}", f"seed={seed}"])
        run = folder / f"{number:04d}"
        (run / "model").mkdir(parents=True)
        (run / "config.yaml").write_text(yaml_text(settings))
        predicted = np.where(random.random(rows) < 0.9, labels, 1 - labels)
        confidence = random.uniform(0.5, 1, rows)
        probabilities = np.where(np.arange(CLASSES) == predicted[:, None], confidence[:, None], 1 - confidence[:, None])
        table = {
            "split": ["test"] * rows,
            "row": np.arange(rows),
            "row_id": [f"{row:016x}" for row in range(rows)],
            "group": [f"tt{group}" for group in groups],
            "length": np.full(rows, 200, np.int32),
            "label": labels.astype(np.int32),
            "predicted": predicted.astype(np.int32),
            "probabilities": pa.array(probabilities.tolist(), pa.list_(pa.float32())),
        }
        pq.write_table(pa.table(table), run / "predictions.parquet", compression="zstd")
        result = {
            "status": "finished",
            "setting": setting_hash(settings),
            "data": "demo",
            "seed": seed,
            "metrics": {"test/accuracy": float((predicted == labels).mean())},
            "parameters": {"total": 1},
            "seconds": {"train": 1.0},
        }
        (run / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
