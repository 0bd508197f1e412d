"""Seconds of training until a transformer of the Keras example's size is right on 87% of the validation rows of IMDB.

Same rows, same tokens, 200 of them, same sizes. Keras trains as its example does, with `fit` on TensorFlow, batches of
32 in random order. Ours has batches of its own: 64 texts of similar length, a higher learning rate, an average of the
weights. The accuracy is looked at after each epoch; only training is timed, the tracing of Keras's graph included. A
round has a seed of its own.

usage: python benchmarks/keras_accuracy.py imdb=aclImdb_v1.tar.gz [rounds=3]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import numpy as np
from keras_transformer import BATCH, WORKER, in_process, keras_model, settings, write_rows
from measure import interleave, report

ACCURACY, EPOCHS = 0.870, 4
OURS = [
    "data.batching=sorted",
    "data.batch_size=64",
    "optimizer.lr=0.005",
    "ema_decay=0.99",
    f"trainer.max_epochs={EPOCHS}",
]
ROWS = "25000"


def keras_seconds(file: str, seed: str) -> float:
    """Returns seconds of Keras's training until the accuracy is reached."""
    model, held = keras_model(int(seed)), np.load(file)
    seconds = 0.0
    for epoch in range(1, EPOCHS + 1):
        started = time.perf_counter()
        model.fit(held["tokens"], held["labels"], batch_size=BATCH, verbose=0)
        seconds += time.perf_counter() - started
        _, accuracy = model.evaluate(held["val_tokens"], held["val_labels"], batch_size=BATCH, verbose=0)
        print(f"Keras, seed {seed}, epoch {epoch}: {accuracy:.4f} after {seconds:.1f} s", file=sys.stderr)
        if accuracy >= ACCURACY:
            return seconds
    return float("inf")


def our_seconds(imdb: str, seed: int) -> float:
    """Returns seconds of our training until the accuracy is reached."""
    with tempfile.TemporaryDirectory() as folder:
        options = [*settings(imdb, ROWS), *OURS, f"seed={seed}", "logger=none", "test=false", f"output_dir={folder}"]
        subprocess.run([sys.executable, "-m", "sentattn.train", *options], check=True, stdout=subprocess.DEVNULL)
        epochs = [json.loads(line) for line in next(Path(folder).rglob("metrics.jsonl")).read_text().splitlines()]
    for one in epochs:
        print(f"ours, seed {seed}: {one['val/accuracy']:.4f} after {one['train_seconds']:.1f} s", file=sys.stderr)
    return float(next((one["train_seconds"] for one in epochs if one["val/accuracy"] >= ACCURACY), np.inf))


def main(options: dict[str, str]) -> None:
    """Prints the table."""
    seeds, our_seeds = count(), count()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        number = write_rows(options["imdb"], ROWS, file)
        forms = {
            "Keras on TensorFlow": lambda: in_process(__file__, "tensorflow", str(file), str(next(seeds))),
            "ours": lambda: our_seconds(options["imdb"], next(our_seeds)),
        }
        readings = interleave(forms, rounds=int(options.get("rounds", "3")), warm_up=0)
    title = f"Training until {ACCURACY} on validation rows, {number:,} rows of IMDB"
    report(title, readings, baseline="Keras on TensorFlow", goal="2", unit="s", scale=1.0)


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        print(keras_seconds(*sys.argv[2:]))
    else:
        main(dict(word.split("=", 1) for word in sys.argv[1:]))
