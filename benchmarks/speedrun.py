"""Seconds from the archive of IMDB on disk to a test accuracy: the whole command, from an empty cache.

Each row is a command in a process of its own: imports, reading the archive, tokenizing, training and the predictions of
the 25,000 test reviews are counted. A line of accuracy is reached where the mean of the seeds is above it. The peers
are as their documents show them: scikit-learn, fastText, Keras's example, and the mean of MiniLM's states with logistic
regression. They need the environment of `requirements.txt`. Without `imdb=` the rows are those of the demo corpus.

usage: python benchmarks/speedrun.py imdb=aclImdb_v1.tar.gz [minilm=FOLDER] [rows=NAME,NAME,...] [seeds=3]
       python benchmarks/speedrun.py peer=tfidf imdb=aclImdb_v1.tar.gz seed=0
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tarfile
import tempfile
import time
from typing import Any

import numpy as np
from measure import data_settings, fresh_process, machine, read_options, spread, train

LINES = (0.906, 0.920, 0.930)
OURS: dict[str, list[str]] = {
    "wide_one_epoch": [
        "model=wide",
        "model.wide.orders=[1,2]",
        "model.wide.vocab_size=100000",
        "model.wide.lr=2000",
        "data.batch_size=256",
        "trainer.max_epochs=1",
    ],
    "wide": ["model=wide"],
    "attended_ngrams": ["experiment=attended_ngrams"],
}
"""Settings of our rows, after `python -m sentattn.train data=imdb data.path=ARCHIVE seed=SEED`."""
Split = tuple[list[str], list[int]]


def read_rows(archive: str) -> tuple[Split, Split]:
    """Returns texts and labels of the training and of the test reviews."""
    if not archive:
        from sentattn.data.datasets.demo import DemoSource

        rows = (list(DemoSource().read(split)) for split in ("train", "test"))
        train, test = (([row.text for row in of_split], [row.label for row in of_split]) for of_split in rows)
        return train, test
    splits: dict[str, Split] = {"train": ([], []), "test": ([], [])}
    with tarfile.open(archive) as files:
        for member in files:
            found = re.fullmatch(r"aclImdb/(train|test)/(neg|pos)/.*\.txt", member.name)
            if found and (file := files.extractfile(member)):
                splits[found[1]][0].append(file.read().decode().replace("<br />", " "))
                splits[found[1]][1].append(int(found[2] == "pos"))
    return splits["train"], splits["test"]


def tfidf(train: Split, test: Split, seed: int) -> float:
    """TF-IDF of words and bigrams with logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    model = LogisticRegression(C=10, max_iter=200).fit(vectorizer.fit_transform(train[0]), train[1])
    return model.score(vectorizer.transform(test[0]), test[1])


def nbsvm(train: Split, test: Split, seed: int) -> float:
    """Logistic regression over 1 to 3 words, scaled by their log-count ratios (Wang and Manning 2012)."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = CountVectorizer(ngram_range=(1, 3), min_df=2, binary=True, token_pattern=r"\w+|[^\w\s]")  # noqa: S106
    counts_NF, labels_N = vectorizer.fit_transform(train[0]).astype(float), np.array(train[1])
    p, q = (1 + np.asarray(counts_NF[labels_N == label].sum(axis=0)).ravel() for label in (1, 0))
    ratio_F = np.log(p / p.sum()) - np.log(q / q.sum())
    model = LogisticRegression(C=0.1, max_iter=200).fit(counts_NF.multiply(ratio_F).tocsr(), labels_N)
    return model.score(vectorizer.transform(test[0]).multiply(ratio_F).tocsr(), test[1])


def fasttext(train: Split, test: Split, seed: int) -> float:
    """FastText's classifier over words and bigrams, after the preprocessing of its tutorial."""
    from fasttext import train_supervised

    words = [
        [" ".join(re.findall(r"[a-z0-9']+|[.!?,()/]", text.lower())) for text in texts] for texts, _ in (train, test)
    ]
    order = np.random.default_rng(seed).permutation(len(words[0]))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"__label__{train[1][row]} {words[0][row]}\n" for row in order)
        file.flush()
        model = train_supervised(file.name, lr=0.5, epoch=5, wordNgrams=2, minCount=2, seed=seed, verbose=0)
    predicted = [int(labels[0][-1]) for labels in model.predict(words[1])[0]]
    return float(np.mean(np.array(predicted) == test[1]))


def keras(train: Split, test: Split, seed: int) -> float:
    """The transformer of Keras's example, two epochs: 20,000 words, the last 200 of each text."""
    from keras.layers import TextVectorization
    from keras_transformer import BATCH, LENGTH, WORDS, keras_model

    vectorization = TextVectorization(WORDS, ragged=True)
    vectorization.adapt(train[0])

    def padded(texts: list[str]) -> Any:
        return vectorization(texts)[:, -LENGTH:].to_tensor(shape=(None, LENGTH))

    model = keras_model(seed)
    model.fit(padded(train[0]), np.array(train[1]), batch_size=BATCH, epochs=2, verbose=0)
    return float(model.evaluate(padded(test[0]), np.array(test[1]), batch_size=BATCH, verbose=0)[1])


def minilm(train: Split, test: Split, seed: int) -> float:
    """The mean of MiniLM's states by sentence-transformers, with logistic regression."""
    from sentence_transformers import SentenceTransformer
    from sklearn.linear_model import LogisticRegression

    encoder = SentenceTransformer(os.environ["MINILM"])
    train_NE, test_NE = (encoder.encode(texts, show_progress_bar=False) for texts, _ in (train, test))
    return LogisticRegression(C=10, max_iter=1000).fit(train_NE, train[1]).score(test_NE, test[1])


PEERS = {peer.__name__: peer for peer in (tfidf, nbsvm, fasttext, keras, minilm)}


def run(name: str, imdb: str, seed: int) -> tuple[float, float]:
    """Runs a row from an empty cache; returns its seconds and its test accuracy."""
    started = time.perf_counter()
    if name in PEERS:
        accuracy = fresh_process(__file__, f"peer={name}", f"imdb={imdb}", f"seed={seed}")
        return time.perf_counter() - started, accuracy
    with tempfile.TemporaryDirectory() as folder:
        settings = [*OURS[name], *data_settings(imdb), f"seed={seed}"]
        result = train(f"{folder}/outputs", *settings, SENTATTN_CACHE=f"{folder}/cache") / "result.json"
        seconds = time.perf_counter() - started
        return seconds, json.loads(result.read_text())["metrics"]["test/accuracy"]


def main(words: list[str]) -> None:
    """Runs the seeds of all rows, one after another, and prints a table and a line of JSON."""
    defaults = {"rows": ",".join([*OURS, *PEERS]), "seeds": 3, "seed": 0}
    options, _ = read_options(words, imdb="", minilm="", peer="", **defaults)
    if options["peer"]:
        print(PEERS[options["peer"]](*read_rows(options["imdb"]), options["seed"]))
        return
    os.environ["MINILM"] = options["minilm"]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in options["rows"].split(",")}
    for seed in range(options["seeds"]):
        for name, runs in found.items():
            runs.append(run(name, options["imdb"], seed))
            print(f"{name}, seed {seed}: {runs[-1]}", file=sys.stderr, flush=True)
    print("| | test accuracy (seeds) | median s (range) | above |\n|---|---|---|---|")
    for name, runs in sorted(found.items(), key=lambda item: statistics.median(seconds for seconds, _ in item[1])):
        seconds, accuracies = map(sorted, zip(*runs, strict=True))
        mean = statistics.mean(accuracies)
        above = max((line for line in LINES if mean > line), default="-")
        of_seeds = ", ".join(f"{one:.4f}" for one in accuracies)
        print(f"| `{name}` | {mean:.4f} ({of_seeds}) | {spread(seconds, 1)} | {above} |")
    print("\n" + json.dumps({"rows": found} | machine()))


if __name__ == "__main__":
    main(sys.argv[1:])
