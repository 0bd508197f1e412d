"""The demo corpus: the same rows everywhere, well-formed texts, and rationales that agree with the labels."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from itertools import combinations

import pytest

from sentattn.data.corpus import Row
from sentattn.data.datasets.demo import DemoSource

SPLITS = {split: tuple(DemoSource().read(split)) for split in DemoSource.splits}
ROWS = [row for rows in SPLITS.values() for row in rows]
NEGATORS = {"not", "hardly", "never", "far from", "anything but", "by no means", "nobody", "nothing"} | {
    f"{verb}n't" for verb in ("is", "are", "was", "were", "do", "did", "would")
}


def test_the_fingerprint_is_that_of_the_rows() -> None:
    digest = hashlib.sha256()
    for split, rows in SPLITS.items():
        for row in rows:
            digest.update(f"{split}\t{row.label}\t{row.rationale}\t{row.text}\n".encode())
    assert DemoSource().fingerprint() == digest.hexdigest()


def tokens(text: str) -> list[str]:
    return re.findall(r"[\w']+|[^\w\s]", text.lower())


def sentences(text: str) -> list[str]:
    return re.findall(r"[^.!]+[.!]?", text)


def deciding(row: Row) -> list[str]:
    return [row.text[start:end].lower() for start, end in row.rationale]


def deciding_words(label: int) -> set[str]:
    """The words that decide a row of this label, or with a negator one of the other."""
    return {word for row in ROWS for *negator, word in [deciding(row)] if (row.label == label) != bool(negator)}


BAD, GOOD = deciding_words(0), deciding_words(1)


def test_rows_are_the_same_on_every_machine() -> None:
    assert DemoSource().fingerprint() == "188ad12d353091ddea3466a85a782bde9207a8841f8c0db365f67a06e8648f97"
    assert tuple(DemoSource().read("val")) == SPLITS["val"]


@pytest.mark.parametrize(("split", "size"), [("train", 5000), ("val", 500), ("test", 500)])
def test_splits_are_balanced_and_mixed(split: str, size: int) -> None:
    labels = [row.label for row in SPLITS[split]]
    assert Counter(labels) == {0: size // 2, 1: size // 2}
    # No stretch of one batch's length is far from balanced: six standard deviations of a fair coin.
    assert all(abs(sum(labels[i : i + 64]) - 32) < 24 for i in range(size - 63))


def test_texts_are_unique_and_sentences_are_in_one_split() -> None:
    assert len({row.text for row in ROWS}) == len(ROWS)
    # A review may end without a full stop.
    used = {split: {s.strip(" .!") for row in rows for s in sentences(row.text)} for split, rows in SPLITS.items()}
    for one, other in combinations(used, 2):
        assert not used[one] & used[other]


def test_words_of_val_and_test_are_in_train() -> None:
    counts = Counter(token for row in SPLITS["train"] for token in tokens(row.text))
    assert 250 <= len(counts) <= 500
    rare = {token for row in SPLITS["val"] + SPLITS["test"] for token in tokens(row.text) if counts[token] < 5}
    assert not rare


def test_texts_are_short_and_well_formed() -> None:
    for row in ROWS:
        text = row.text
        assert 1 <= len(tokens(text)) <= 30
        assert all(sentence.strip()[0].isupper() for sentence in sentences(text)), text
        assert not re.search(r"^\s|\s\s|\s[,.:!]|[^\w .,:!']", text), text
        assert not re.search(r"\b(\w+) \1\b|\ba [aeiou]|\ban [^aeiou]|\ban? (a|an|the|this|so) ", text, re.I), text


def test_rationale_spans_are_single_words_in_order() -> None:
    for row in ROWS:
        assert row.rationale
        assert all(word.replace("'", "").isalpha() for word in deciding(row)), row
        ends = [0, *(end for _, end in row.rationale)]
        starts = [start for start, _ in row.rationale]
        assert all(end <= start for end, start in zip(ends, starts, strict=False)), row
        for start, end in row.rationale:
            assert not row.text[max(start - 1, 0) : start].isalpha()
            assert not row.text[end : end + 1].isalpha()


def test_words_decide_for_one_label_only() -> None:
    assert not GOOD & BAD
    assert {"good", "amazing", "friendly", "funny", "joy", "loved", "love", "charmed", "best"} <= GOOD
    assert {"bad", "terrible", "rude", "boring", "mess", "hated", "hate", "ruined", "worst"} <= BAD


def test_only_negators_precede_the_deciding_word() -> None:
    for row in ROWS:
        *negator, _ = deciding(row)
        assert not negator or " ".join(negator) in NEGATORS, row


@pytest.mark.parametrize("split", DemoSource.splits)
def test_accuracy_of_counting_opinion_words(split: str) -> None:
    right = 0.0
    for row in SPLITS[split]:
        balance = sum((token in GOOD) - (token in BAD) for token in tokens(row.text))
        right += 0.5 if balance == 0 else (balance > 0) == bool(row.label)
    assert 0.65 <= right / len(SPLITS[split]) <= 0.85
