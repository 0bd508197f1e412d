"""Baselines on the same rows: TF-IDF of words, and of words and bigrams, with logistic regression.

Uses the rows and the tokenizer of a training. Needs scikit-learn, which nothing else here does.

usage: python benchmarks/tfidf.py data=imdb data.path=aclImdb_v1.tar.gz
"""

from __future__ import annotations

import sys
import time

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from sentattn.build import build_data
from sentattn.config.compose import compose


def main(arguments: list[str]) -> None:
    """Prints the accuracy on validation rows; the test rows are not used."""
    data = build_data(compose(arguments))
    data.prepare()
    texts, labels = {}, {}
    for name in ("train", "val"):
        split = data.split(name)
        rows = [split.texts(i) for i in range(len(split))]
        texts[name] = [" ".join(encoded.tokens).lower() for encoded in data.tokenizer.encode(rows)]
        labels[name] = split.labels
    print(f"data {data.fingerprint}: {len(texts['train']):,} training and {len(texts['val']):,} validation rows")
    for words in (1, 2):
        started = time.perf_counter()
        features = TfidfVectorizer(ngram_range=(1, words), min_df=2, sublinear_tf=True, token_pattern=r"\S+")  # noqa: S106
        model = LogisticRegression(C=10, max_iter=200)
        model.fit(features.fit_transform(texts["train"]), labels["train"])
        accuracy = model.score(features.transform(texts["val"]), labels["val"])
        print(f"1 to {words} words: val/accuracy {accuracy:.4f}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
