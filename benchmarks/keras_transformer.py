"""Times the Keras example's transformer on IMDB: the command `train` against Keras's `fit`.

Same rows, same tokens, 200 of them, same sizes. Each training is in a process of its own.

An epoch: batches of 32 in random order on both sides. Ours is the training part of the second epoch, as `metrics.jsonl`
records it; Keras's is the second `fit` of one epoch without validation, so that its graph is traced before the clock
starts.

With `accuracy=0.87`: seconds of training until a validation accuracy is reached, by epochs, the tracing of Keras's
graph included; a round has a seed of its own. Ours has batches of its own then: 64 texts of similar length, a higher
learning rate, an average of the weights.

usage: python benchmarks/keras_transformer.py imdb=aclImdb_v1.tar.gz [rows=9000] [rounds=5] [backends=tensorflow,torch]
       python benchmarks/keras_transformer.py accuracy=0.87 rows=25000 rounds=3 backends=tensorflow imdb=...

Without `imdb=` both train on the demo corpus.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from measure import data_settings, fresh_process, interleave, read_data, read_options, report, require, train

from sentattn.data.batching import pad

LENGTH, WORDS, BATCH, EPOCHS = 200, 20000, 32, 4
WORKER = "--keras"
TUNED = ["data.batching=sorted", "data.batch_size=64", "optimizer.lr=0.005", "ema_decay=0.99"]


def settings(imdb: str, rows: int) -> list[str]:
    """Returns the settings of our side; its data are read here for the other side too."""
    return ["experiment=keras_imdb", f"data.max_length={LENGTH}", *data_settings(imdb), f"data.limit={rows}"]


def write_rows(imdb: str, rows: int, file: Path) -> int:
    """Writes training and validation rows, padded to 200 tokens, with their labels; returns how many train."""
    data = read_data(settings(imdb, rows))
    (train_NL, train_N), (val_NL, val_N) = map(padded, (data.train_dataloader(), data.val_dataloader()))
    np.savez(file, tokens=train_NL, labels=train_N, val_tokens=val_NL, val_labels=val_N)
    return len(train_N)


def padded(loader: Iterable) -> tuple[np.ndarray, np.ndarray]:
    """Returns tokens_NL and labels_N of all batches of a loader."""
    batches = list(loader)
    tokens = [ids[mask].numpy() for batch in batches for ids, mask in zip(batch.tokens_BL, batch.mask_BL, strict=True)]
    tokens_NL = pad([*tokens, np.zeros(LENGTH, dtype=np.int64)])[0][:-1].numpy()
    return tokens_NL.astype("int32"), np.concatenate([batch.labels_B.numpy() for batch in batches])


def our_epochs(imdb: str, rows: int, *others: str) -> list[dict[str, float]]:
    """Trains, and returns the epochs as `metrics.jsonl` records them."""
    with tempfile.TemporaryDirectory() as folder:
        run = train(folder, *settings(imdb, rows), *others, "test=false")
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def our_epoch(imdb: str, rows: int) -> float:
    """Returns seconds of the training part of the second epoch."""
    first, second = our_epochs(imdb, rows)
    return second["train_seconds"] - first["train_seconds"]


def our_seconds(imdb: str, rows: int, accuracy: float, seeds: Iterator[int]) -> float:
    """Returns seconds of training until the accuracy is reached."""
    epochs = our_epochs(imdb, rows, *TUNED, f"seed={next(seeds)}", f"trainer.max_epochs={EPOCHS}")
    for epoch in epochs:
        print(f"ours: {epoch['val/accuracy']:.4f} after {epoch['train_seconds']:.1f} s", file=sys.stderr)
    return next((epoch["train_seconds"] for epoch in epochs if epoch["val/accuracy"] >= accuracy), float("inf"))


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


def keras_seconds(file: str, accuracy: str, seed: str) -> float:
    """Returns seconds of Keras's training until the accuracy is reached."""
    model, held, seconds = keras_model(int(seed)), np.load(file), 0.0
    for epoch in range(1, EPOCHS + 1):
        started = time.perf_counter()
        model.fit(held["tokens"], held["labels"], batch_size=BATCH, verbose=0)
        seconds += time.perf_counter() - started
        _, reached = model.evaluate(held["val_tokens"], held["val_labels"], batch_size=BATCH, verbose=0)
        print(f"Keras, seed {seed}, epoch {epoch}: {reached:.4f} after {seconds:.1f} s", file=sys.stderr)
        if reached >= float(accuracy):
            return seconds
    return float("inf")


def keras_process(backend: str, file: Path, accuracy: float, seeds: Iterator[int]) -> float:
    """Runs Keras on a backend in a process of its own; returns its seconds."""
    threads = os.environ.get("OMP_NUM_THREADS", "2")
    variables = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    variables |= {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads}
    until = (str(accuracy), str(next(seeds))) if accuracy else ()
    return float(fresh_process(__file__, WORKER, str(file), *until, **variables))


def main(words: list[str]) -> None:
    """Prints the table."""
    options, _ = read_options(words, imdb="", rows=9000, rounds=5, backends="tensorflow,torch", accuracy=0.0)
    require("keras", *options["backends"].split(","))
    imdb, rows, accuracy = options["imdb"], options["rows"], options["accuracy"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        number = write_rows(imdb, rows, file)
        forms: dict[str, Callable[[], object]] = {
            f"Keras on {backend}": partial(keras_process, backend, file, accuracy, count())
            for backend in options["backends"].split(",")
        }
        forms["ours"] = (
            partial(our_seconds, imdb, rows, accuracy, count()) if accuracy else partial(our_epoch, imdb, rows)
        )
        readings = interleave(forms, rounds=options["rounds"], warm_up=0)
    what = f"Training until {accuracy} on validation rows" if accuracy else "Training part of an epoch"
    title = f"{what}, {number:,} rows, {LENGTH} tokens"
    report(title, readings, baseline=next(iter(readings)), unit="s", scale=1.0)


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        print(keras_seconds(*sys.argv[2:]) if len(sys.argv) > 3 else keras_epoch(sys.argv[2]))
    else:
        main(sys.argv[1:])
