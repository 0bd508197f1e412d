"""Times an epoch of the Keras example's transformer on IMDB: our own training command against Keras's `fit`.

Same rows, same tokens, 200 of them, batches of 32 in random order, same sizes. A round trains each side in a process of
its own. Ours: the training part of the second epoch, as `metrics.jsonl` records it. Keras: the second `fit` of one
epoch without validation, so that its graph is traced before the clock starts.

usage: python benchmarks/keras_transformer.py imdb=aclImdb_v1.tar.gz [rows=9000] [rounds=5] [backends=tensorflow,torch]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import interleave, report

from sentattn.build import build_data
from sentattn.config.compose import compose
from sentattn.data.batching import pad

LENGTH, WORDS, BATCH = 200, 20000, 32
WORKER = "--keras"


def settings(imdb: str, rows: str) -> list[str]:
    """Returns the settings of our side; its data are read here for the other side too."""
    return ["experiment=keras_imdb", f"data.max_length={LENGTH}", f"data.path={imdb}", f"data.limit={rows}"]


def write_rows(imdb: str, rows: str, file: Path) -> int:
    """Writes training and validation rows, padded to 200 tokens, with their labels; returns how many train."""
    data = build_data(compose([*settings(imdb, rows), "logger=none"]))
    data.prepare()
    (train_NL, train_N), (val_NL, val_N) = map(padded, (data.train_dataloader(), data.val_dataloader()))
    np.savez(file, tokens=train_NL, labels=train_N, val_tokens=val_NL, val_labels=val_N)
    return len(train_N)


def padded(loader: Iterable) -> tuple[np.ndarray, np.ndarray]:
    """Returns tokens_NL and labels_N of all batches of a loader."""
    batches = list(loader)
    tokens = [ids[mask].numpy() for batch in batches for ids, mask in zip(batch.tokens_BL, batch.mask_BL, strict=True)]
    tokens_NL = pad([*tokens, np.zeros(LENGTH, dtype=np.int64)])[0][:-1].numpy()
    return tokens_NL.astype("int32"), np.concatenate([batch.labels_B.numpy() for batch in batches])


def ours(imdb: str, rows: str) -> float:
    """Returns seconds of the training part of the second epoch of our command."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*settings(imdb, rows), "logger=none", "test=false", f"output_dir={folder}"]
        subprocess.run([sys.executable, "-m", "sentattn.train", *command], check=True, stdout=subprocess.DEVNULL)
        lines = next(Path(folder).rglob("metrics.jsonl")).read_text().splitlines()
        first, second = (json.loads(line)["train_seconds"] for line in lines)
        return float(second - first)


def keras_model(seed: int = 0) -> Any:
    """Returns the example's model, compiled; the backend is the environment's."""
    import keras
    from keras import layers

    class Positions(layers.Layer):
        """Adds a learned vector to each position."""

        def build(self, shape):
            self.table = self.add_weight(shape=shape[1:])

        def call(self, states):
            return states + self.table

    keras.utils.set_random_seed(seed)
    tokens = keras.Input((LENGTH,), dtype="int32")
    states = Positions()(layers.Embedding(WORDS, 32)(tokens))
    attended = layers.MultiHeadAttention(num_heads=2, key_dim=16)(states, states)
    states = layers.LayerNormalization(epsilon=1e-6)(states + layers.Dropout(0.1)(attended))
    hidden = layers.Dense(32)(layers.Dense(32, activation="relu")(states))
    states = layers.LayerNormalization(epsilon=1e-6)(states + layers.Dropout(0.1)(hidden))
    vector = layers.Dropout(0.1)(layers.GlobalAveragePooling1D()(states))
    vector = layers.Dropout(0.1)(layers.Dense(20, activation="relu")(vector))
    model = keras.Model(tokens, layers.Dense(2, activation="softmax")(vector))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def keras_epoch(file: str) -> float:
    """Returns seconds of the second epoch of Keras's `fit`."""
    model, held = keras_model(), np.load(file)
    rows_NL, labels_N = held["tokens"], held["labels"]
    warm = len(rows_NL) // 4 // BATCH * BATCH + len(rows_NL) % BATCH  # with the last, smaller batch
    model.fit(rows_NL[:warm], labels_N[:warm], batch_size=BATCH, verbose=0)
    started = time.perf_counter()
    model.fit(rows_NL, labels_N, batch_size=BATCH, verbose=0)
    return time.perf_counter() - started


def in_process(script: str, backend: str, *arguments: str) -> float:
    """Runs the Keras side of a script in a process of its own; returns the number that it prints."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    threads = os.environ.get("OMP_NUM_THREADS", "2")
    environment |= {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads}
    command = [sys.executable, script, WORKER, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return float(done.stdout.splitlines()[-1])


def main(options: dict[str, str]) -> None:
    """Prints the table."""
    rows = options.get("rows", "9000")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        number = write_rows(options["imdb"], rows, file)
        forms: dict[str, Callable[[], object]] = {
            f"Keras on {backend}": partial(in_process, __file__, backend, str(file))
            for backend in options.get("backends", "tensorflow,torch").split(",")
        }
        forms["experiment=keras_imdb"] = partial(ours, options["imdb"], rows)
        readings = interleave(forms, rounds=int(options.get("rounds", "5")), warm_up=0)
    title = f"Training part of an epoch, {number:,} rows of IMDB, {LENGTH} tokens, batch {BATCH}"
    report(title, readings, baseline=next(iter(readings)), goal="1.7 times Keras", unit="s", scale=1.0)


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        print(keras_epoch(sys.argv[2]))
    else:
        main(dict(word.split("=", 1) for word in sys.argv[1:]))
