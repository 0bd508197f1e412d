"""The demo corpus: the same rows everywhere."""

from __future__ import annotations

import hashlib
from collections import Counter

from sentattn.data.datasets.demo import DemoSource

SPLITS = {split: tuple(DemoSource().read(split)) for split in DemoSource.splits}


def test_the_fingerprint_is_that_of_the_rows() -> None:
    digest = hashlib.sha256()
    for split, rows in SPLITS.items():
        for row in rows:
            digest.update(f"{split}\t{row.label}\t{row.rationale}\t{row.text}\n".encode())
    assert DemoSource().fingerprint() == digest.hexdigest()
    assert digest.hexdigest() == "188ad12d353091ddea3466a85a782bde9207a8841f8c0db365f67a06e8648f97"


def test_splits_are_balanced_and_their_texts_are_unique() -> None:
    halves = {split: Counter(row.label for row in rows) for split, rows in SPLITS.items()}
    assert halves == {"train": {0: 2500, 1: 2500}, "val": {0: 250, 1: 250}, "test": {0: 250, 1: 250}}
    assert len({row.text for rows in SPLITS.values() for row in rows}) == 6000
