"""What the data of every training has: rows of a corpus, split and batched, with the training rows' vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pytorch_lightning import LightningDataModule

from sentattn.config.types import Count, NonNegative, Whole, checked
from sentattn.data import report
from sentattn.data.batching import BatchLoader, TokenRows
from sentattn.data.building import Progress
from sentattn.data.cache import cache_folder, open_corpus
from sentattn.data.choosing import choose
from sentattn.data.datasets.base import Source
from sentattn.data.ordering import LengthBatches, TrainingOrder, training_order
from sentattn.data.sharing import measuring_share, require_enough, training_share
from sentattn.data.split import Split
from sentattn.data.text import Rules, Tokenizer
from sentattn.data.vectors.reading import WordVectors, read_vectors
from sentattn.data.vocabulary import frequent_words, lookup_table
from sentattn.errors import DataError

Thing = TypeVar("Thing")


class TextData(LightningDataModule, ABC):
    """Labelled texts as batches. A subclass says where they come from.

    Args:
        name: Name of the data set, in paths and tables.
        limit: Most rows of each of the source's splits, for a quick look; null reads all.
        drop_duplicates: Whether training rows that repeat a text, or stand in a later split, are left out.
        vocab_size: Most words that the model knows, beside `<pad>` and `<unk>`.
        min_count: How often a word must stand in the training rows to be known.
        tokenizer: Whose rules say what a word is: our own (`words`), or spaCy's for English (`spacy`, an extra).
        lowercase: Whether words are looked up in lower case.
        max_length: Most tokens of a text that are read; null reads all.
        clip: What is kept of a longer text: its head, its tail or half of each.
        batch_size: Texts a batch, over all devices.
        batching: Which texts share a training batch: those of like length (`sorted`), those of a bucket of lengths,
            short ones in larger batches (`fixed`), or any (`random`).
        num_buckets: Most buckets of `fixed`.
        bucket_ratio: How far batches of short texts grow with `fixed`; at 1 all hold about as many tokens.
        vectors: Pretrained vectors that the words start from: a name such as `glove.6B.300d`, or a file; null for none.
        cache_dir: Where tokenized corpora and downloads are kept; null is `$SENTATTN_CACHE` or `~/.cache/sentattn`.
        mirror: A server's address or a folder with the files that would be downloaded; null is their official address.
        num_workers: Processes that make batches; 0 makes them in the training process, which is fast enough.

    Attributes:
        classes: Number of classes, where it is known before anything is read.
        labels: Names of the classes, by index.
        ordered: Whether the classes are steps of a scale.
        seed: Seed of the order of the training rows.
        train_size: Number of training rows; None takes all.
        val_size: Number or share of training rows set aside for validation; a source with validation rows has none.
        split_seed: Seed of which rows train and which validate.
        test_size: Number or share of rows to test on; None takes the source's test rows, or a tenth of all.
        test_seed: Seed of which rows these are; None takes the last.
        tokenizer: Texts to ids, with the vocabulary of the training rows. From `prepare` on, like all below.
        fingerprint: Hash over texts and labels of all splits.
        word_vectors: The vectors that the words start from, or None.
        report: What the user should know of the data, in sentences.
    """

    classes: ClassVar[int | None] = None
    idle: ClassVar[dict[str, tuple[str, tuple[str, ...]]]] = {
        "num_buckets": ("batching", ("sorted", "random")),
        "bucket_ratio": ("batching", ("sorted", "random")),
    }
    labels: tuple[str, ...]
    ordered: bool
    tokenizer: Tokenizer
    fingerprint: str
    word_vectors: WordVectors | None = None
    report: list[str]
    seed: int = 0
    train_size: int | None = None
    val_size: float | None = None
    split_seed: int = 0
    test_size: float | None = None
    test_seed: int | None = None

    @checked
    def __init__(
        self,
        *,
        name: str,
        limit: Count | None = None,
        drop_duplicates: bool = False,
        vocab_size: Count = 30000,
        min_count: Count = 2,
        tokenizer: Literal["words", "spacy"] = "words",
        lowercase: bool = True,
        max_length: Count | None = 600,
        clip: Literal["head", "tail", "both"] = "both",
        batch_size: Count = 64,
        batching: Literal["sorted", "fixed", "random"] = "sorted",
        num_buckets: Count = 10,
        bucket_ratio: NonNegative = 0.5,
        vectors: str | None = None,
        cache_dir: str | None = None,
        mirror: str | None = None,
        num_workers: Whole = 0,
    ) -> None:
        super().__init__()
        self.name: str = name
        self.limit = limit
        self.drop_duplicates = drop_duplicates
        self.vocab_size = vocab_size
        self.min_count = min_count
        self.rules: Rules = tokenizer
        self.lowercase = lowercase
        self.max_length = max_length
        self.clip = clip
        self.batch_size = batch_size
        self.batching = batching
        self.num_buckets = num_buckets
        self.bucket_ratio = bucket_ratio
        self.vectors = vectors
        self.cache_dir = cache_dir
        self.mirror = mirror
        self.num_workers = num_workers
        self._splits: dict[str, Split] = {}
        self._rows: dict[str, TokenRows] = {}

    @abstractmethod
    def source(self, progress: Progress) -> Source:
        """Returns where the texts come from, once they are on this machine.

        Args:
            progress: Is told how far a download is.

        Raises:
            DataError: If they are missing and cannot be downloaded.
        """

    def test_only(self, split: str, labels: Sequence[str], *, ordered: bool) -> None:
        """Says before `prepare` that a model with these classes is tested on a split: other rows may stay unread."""

    def prepare(self, progress: Progress | None = None, *, words: Sequence[str] | None = None) -> None:
        """Reads, tokenizes and stores what the cache does not hold; chooses splits and vocabulary. Once is enough.

        Args:
            progress: Is told how far the work is.
            words: Vocabulary of a trained model, by id, instead of that of the training rows.

        Raises:
            DataError: If the data is missing, damaged or too little for the settings.
        """
        if self._splits:
            return
        progress, cache = progress or (lambda stage, done, total: None), cache_folder(self.cache_dir)
        source = self.source(progress)
        corpus, notes = open_corpus(
            source,
            cache,
            name=self.name,
            rules=self.rules,
            lowercase=self.lowercase,
            limit=self.limit,
            progress=progress,
        )
        self.labels, self.ordered = corpus.classes, corpus.ordered
        chosen = choose(
            corpus,
            drop_duplicates=self.drop_duplicates,
            train_size=self.train_size,
            val_size=self.val_size,
            split_seed=self.split_seed,
            test_size=self.test_size,
            test_seed=self.test_seed,
        )
        if words is None:
            words = frequent_words(corpus, chosen.rows["train"], min_count=self.min_count, vocab_size=self.vocab_size)
            self.word_vectors = read_vectors(self.vectors, words, cache=cache, mirror=self.mirror, progress=progress)
        ids = lookup_table(corpus.words, words)
        self.tokenizer = Tokenizer(
            words, rules=self.rules, lowercase=self.lowercase, max_length=self.max_length, clip=self.clip
        )
        self.fingerprint = chosen.fingerprint(corpus)
        for split, rows in chosen.rows.items():
            self._rows[split] = TokenRows(corpus, rows, ids=ids, max_length=self.max_length, clip=self.clip)
            self._splits[split] = Split(corpus, rows, self.max_length)
        self.report = [*notes, report.sizes(self.name, chosen.rows, self.labels), *chosen.notes]
        if "train" in chosen.rows:
            require_enough(len(chosen.rows["val"]))
            self.report += report.words(words, self.word_vectors, corpus, chosen.rows, ids)
            self.report += report.buckets(self._training_order())

    def setup(self, stage: str) -> None:
        """Lightning's hook."""
        self.prepare()

    def split(self, name: str) -> Split:
        """Returns the rows of `train`, `val` or `test`.

        Raises:
            DataError: If the data has no such split.
        """
        return self._of(self._splits, name)

    @property
    def class_counts(self) -> dict[str, int]:
        """Number of training rows of each class, by its name."""
        counts = np.bincount(self.split("train").labels, minlength=len(self.labels))
        return dict(zip(self.labels, counts.tolist(), strict=True))

    def batches(self, split: str) -> BatchLoader:
        """Returns the batches of a split, each row once, the longest rows first."""
        rows = self._of(self._rows, split)
        return BatchLoader(rows, LengthBatches(rows.lengths, batch_size=self.batch_size), self.num_workers)

    def train_dataloader(self) -> BatchLoader:
        """Returns this rank's rows of the training batches, in another order each epoch, which `seed` alone decides."""
        rows = self._of(self._rows, "train")
        return BatchLoader(rows, training_share(self._training_order()), self.num_workers)

    def val_dataloader(self) -> BatchLoader:
        """Returns this rank's validation batches."""
        rows = self._of(self._rows, "val")
        return BatchLoader(rows, measuring_share(rows.lengths, batch_size=self.batch_size), self.num_workers)

    def test_dataloader(self) -> BatchLoader:
        """Returns the test batches."""
        return self.batches("test")

    def token_ids(self, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids of a split's rows one after another, and where each row starts, with the end of the last."""
        return self._of(self._rows, split).flat()

    def _of(self, things: dict[str, Thing], split: str) -> Thing:
        self.prepare()
        if split not in things:
            raise DataError(f"{self.name} has no split {split!r}; it has {', '.join(things)}.")
        return things[split]

    def _training_order(self) -> TrainingOrder:
        return training_order(
            self.batching,
            self._rows["train"].lengths,
            batch_size=self.batch_size,
            num_buckets=self.num_buckets,
            bucket_ratio=self.bucket_ratio,
            seed=self.seed,
        )
