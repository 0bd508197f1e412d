"""Base class of the data modules: a corpus, split and batched, with the vocabulary of the training rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from pytorch_lightning import LightningDataModule

from sentattn.config.schema import TRAIN
from sentattn.config.types import Count, Whole, checked, name_fault
from sentattn.data.batching import BatchLoader, FixedBuckets, ShuffledBatches, TrainingOrder, length_batches
from sentattn.data.cache import Progress, cache_folder, no_progress
from sentattn.data.corpus import Corpus, Source, Split, Types, cut_texts, open_corpus
from sentattn.data.pieces import PieceTokenizer, read_tokenizer
from sentattn.data.splits import MAX_SHOWN, Division, few_rows, odd_labels, select
from sentattn.data.states import StateTable, StateTokenizer
from sentattn.data.tokenizer import RULES, Tokenizer, WordTypes
from sentattn.data.vocabulary import count_types, coverage, frequent_types, lookup_table, unspaced
from sentattn.errors import DataError, Fault, SettingError

if TYPE_CHECKING:
    from sentattn.data.word_vectors import WordVectors


class TextData(Division, LightningDataModule, ABC):
    """Labelled texts as batches. A subclass defines their source.

    Args:
        name: Name of the data set in paths and tables.
        limit: Maximal number of rows of each split of the source, for a quick look; null for all.
        train_size: Number of training rows, stratified by class; null for all. Validation and test rows stay. With one
            seed, most rows of a smaller number are among those of a larger one.
        train_seed: Seed of the selection of training rows, to draw others; null for `split_seed`.
        drop_duplicates: Whether to drop training rows whose text is repeated or occurs in a later split.
        vocab_size: Maximal size of the vocabulary, without `<pad>` and `<unk>`.
        min_count: Minimal number of occurrences of a word in the training rows.
        tokenizer: Tokenization rules of words: built in (`words`), torchtext's `basic_english`, which lowercases all
            words, or spaCy's for English (`spacy`, an extra). Or a subword tokenizer: a folder with a `tokenizer.json`,
            such a file, or a name on the Hugging Face Hub.
        lowercase: Whether words are lowercased.
        normalize: Unicode normalization of words: `nfc` makes both encodings of an accented letter the same word; null
            for none.
        max_length: Maximal number of tokens per text; None keeps all. The setting null stands for 600 words, or 256
            pieces of a subword tokenizer.
        clip: Which tokens of a longer text are kept: its head, its tail or half of each.
        batch_size: Texts per batch, over all devices.
        batching: Which texts share a training batch: texts of similar length (`sorted`), of the same bucket of lengths,
            with larger batches of short texts (`fixed`), or any texts (`random`).
        num_buckets: Maximal number of buckets with `fixed`.
        bucket_ratio: Growth of batches of short texts with `fixed`; with 1 all batches have about as many tokens.
        vectors: Pretrained word vectors: a name such as `glove.6B.300d`, a file, also a `.pt` file of torchtext's
            cache, or `train` to compute them from the training rows; null for none.
        cache_dir: Folder of tokenized corpora and downloads; null for `$SENTATTN_CACHE` or `~/.cache/sentattn`.
        mirror: Address of a server, or a folder, with copies of the downloads; null for their official addresses.
        num_workers: Processes that build batches; 0 builds them in the training process, which is fast enough.
        seed: Seed of the order of the training rows, and with `folds` of their drawing.
        vector_size: Width of trained vectors.
        rank: Rank of this process.
        world_size: Number of processes of the training.

    A subclass may set the attributes of `Division`; `prepare` sets those below.

    Attributes:
        labels: Names of the classes, by index.
        ordered: Whether the classes are steps of a scale.
        tokenizer: The tokenizer with the vocabulary of the training rows.
        fingerprint: Hash over texts and labels of all splits.
        word_vectors: The pretrained vectors, or None.
        states: The states of the tokens, of `data=states`.
        report: Messages about the data for the user.
    """

    labels: tuple[str, ...]
    ordered: bool
    tokenizer: Tokenizer
    fingerprint: str
    word_vectors: WordVectors | None = None
    states: StateTable | None = None
    report: list[str]

    @checked
    def __init__(
        self,
        *,
        name: str,
        limit: Count | None = None,
        train_size: Count | None = None,
        train_seed: Whole | None = None,
        drop_duplicates: bool = False,
        vocab_size: Count = 30000,
        min_count: Count = 2,
        tokenizer: str = "words",
        lowercase: bool = True,
        normalize: Literal["nfc"] | None = None,
        max_length: Count | None = 600,
        clip: Literal["head", "tail", "both"] = "both",
        batch_size: Count = 64,
        batching: Literal["sorted", "fixed", "random"] = "sorted",
        num_buckets: Count = 10,
        bucket_ratio: Annotated[float, Ge(0), Le(1000)] = 0.5,
        vectors: str | None = None,
        cache_dir: str | None = None,
        mirror: str | None = None,
        num_workers: Whole = 0,
        seed: int = 0,
        vector_size: int = 100,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if wrong := name_fault("data.name", name):
            raise SettingError(wrong)
        super().__init__()
        self.name: str = name
        self.train_size, self.train_seed = train_size, train_seed
        self.limit, self.drop_duplicates = limit, drop_duplicates
        self.vocab_size, self.min_count = vocab_size, min_count
        self.rules, self.lowercase, self.normalize = tokenizer, lowercase, normalize
        self.max_length, self.clip = max_length, clip
        self.batch_size, self.batching = batch_size, batching
        self.num_buckets, self.bucket_ratio = num_buckets, bucket_ratio
        self.vectors, self.vector_size = vectors, vector_size
        self.cache_dir, self.mirror = cache_dir, mirror
        self.num_workers, self.seed = num_workers, seed
        self.rank, self.world_size = rank, world_size
        self._splits: dict[str, Split] = {}

    @abstractmethod
    def source(self, progress: Progress) -> Source:
        """Returns the source of the texts; downloads it if needed.

        Raises:
            DataError: If it is missing and cannot be downloaded.
        """

    def test_only(self, split: str, labels: Sequence[str], *, ordered: bool) -> None:
        """Restricts `prepare` to a split, on which a model with these classes is evaluated."""

    def prepare(self, progress: Progress = no_progress, *, words: Sequence[str] | None = None) -> None:
        """Reads and tokenizes data that is not cached, and selects splits and vocabulary. A second call does nothing.

        Args:
            progress: Called with the progress of the work.
            words: Vocabulary of a trained model, by id; None takes the vocabulary of the training rows.

        Raises:
            DataError: If the data is missing, damaged or has too few rows for the settings.
        """
        if self._splits:
            return
        cache, source, types = cache_folder(self.cache_dir), self.source(progress), self._types()
        corpus, notes = open_corpus(source, cache, name=self.name, types=types, limit=self.limit, progress=progress)
        self.labels, self.ordered = corpus.classes, corpus.ordered
        selection = select(corpus, self)
        warnings: list[str] = []
        ids: NDArray[np.int64] | None = None
        if isinstance(types, StateTokenizer):
            words, self.tokenizer, types.find = [], types, corpus.find_states
        elif isinstance(types, PieceTokenizer):
            words, ids, self.tokenizer = types.words, np.arange(len(types)), types
        else:
            if words is None:
                counts = count_types(corpus, selection.rows["train"])
                frequent = frequent_types(counts, min_count=self.min_count, vocab_size=self.vocab_size)
                words = [corpus.words[word_type] for word_type in frequent]
                warnings = unspaced(corpus.words, counts)
                self.word_vectors = self._find_vectors(words, corpus, selection.rows["train"], cache, progress)
            ids = lookup_table(corpus.words, words)
            self.tokenizer = Tokenizer(
                words,
                rules=types.rules,
                lowercase=self.lowercase,
                normalize=self.normalize,
                max_length=self.max_length,
                clip=self.clip,
            )
        self.fingerprint = selection.fingerprint(corpus)
        self._splits = {
            split: Split(corpus, rows, ids=ids, tokenizer=self.tokenizer, states=self.states)
            for split, rows in selection.rows.items()
        }
        sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in selection.rows.items())
        more = f" and {len(self.labels) - MAX_SHOWN:,} more" if len(self.labels) > MAX_SHOWN else ""
        self.report = [
            *notes,
            f"{self.name}: {sizes} rows; classes: {', '.join(self.labels[:MAX_SHOWN])}{more}.",
            *odd_labels(self.labels),
            *selection.notes,
            *few_rows(corpus, selection.rows, self.labels),
            *cut_texts([*self._splits.values()], self.max_length),
            *warnings,
        ]
        if "train" in selection.rows:
            if (val_rows := len(selection.rows["val"])) < self.world_size:
                message = f"trainer.devices must be at most {val_rows}, the validation rows, got {self.world_size}."
                raise DataError(Fault("trainer.devices", "conflict", message))
            if ids is not None:
                self.report += coverage(words, self.word_vectors, corpus, selection.rows, ids)
            if isinstance(order := self._training_order(), FixedBuckets):
                self.report.append(order.statistics())

    def _types(self) -> Types:
        """Returns what splits texts into tokens."""
        if self.rules in RULES:
            return WordTypes(rules=self.rules, lowercase=self.lowercase, normalize=self.normalize)
        return read_tokenizer(self.rules, max_length=self.max_length, clip=self.clip)

    def _find_vectors(
        self, words: Sequence[str], corpus: Corpus, rows: NDArray[np.int64], cache: Path, progress: Progress
    ) -> WordVectors | None:
        """Reads or trains the vectors of the setting `vectors`."""
        if self.vectors is None:
            return None
        from sentattn.data.word_vectors import read_vectors, train_vectors

        if self.vectors == TRAIN:
            return train_vectors(words, corpus, rows, size=self.vector_size, cache=cache, progress=progress)
        return read_vectors(self.vectors, words, cache=cache, mirror=self.mirror, progress=progress)

    def setup(self, stage: str) -> None:
        """Lightning's hook."""
        self.prepare()

    def split(self, name: str) -> Split:
        """Returns the rows of `train`, `val` or `test`.

        Raises:
            DataError: If the data has no such split.
        """
        self.prepare()
        if name not in self._splits:
            message = f"{self.name} has no split {name!r}; it has {', '.join(self._splits)}."
            raise DataError(Fault(name, "missing", message))
        return self._splits[name]

    def stars(self, split: str) -> NDArray[np.int64] | None:
        """Returns the stars of each row of a split if they are finer than its classes, else None."""
        return None

    @property
    def class_counts(self) -> dict[str, int]:
        """Number of training rows of each class, by its name."""
        counts = np.bincount(self.split("train").labels, minlength=len(self.labels))
        return dict(zip(self.labels, counts.tolist(), strict=True))

    def batches(self, split: str) -> BatchLoader:
        """Returns the batches of a split, each row once, longest rows first."""
        rows = self.split(split)
        return BatchLoader(rows, length_batches(rows.lengths, batch_size=self.batch_size), self.num_workers)

    def train_dataloader(self) -> BatchLoader:
        """Returns this rank's rows of the training batches, in an order that depends on `seed` and epoch."""
        rows, order = self.split("train"), self._training_order()
        return BatchLoader(rows, order, self.num_workers, rank=self.rank, world_size=self.world_size)

    def val_dataloader(self) -> BatchLoader:
        """Returns this rank's validation batches, which are smaller if there are fewer batches than ranks."""
        rows = self.split("val")
        batch_size = max(1, min(self.batch_size, len(rows) // self.world_size))
        order = length_batches(rows.lengths, batch_size=batch_size)
        return BatchLoader(rows, order, self.num_workers, rank=self.rank, world_size=self.world_size)

    def test_dataloader(self) -> BatchLoader:
        """Returns the test batches."""
        return self.batches("test")

    def _training_order(self) -> TrainingOrder:
        lengths = self.split("train").lengths
        if self.batching != "fixed":
            by_length = self.batching == "sorted"
            return ShuffledBatches(lengths, batch_size=self.batch_size, seed=self.seed, by_length=by_length)
        return FixedBuckets(
            lengths,
            batch_size=self.batch_size,
            num_buckets=self.num_buckets,
            bucket_ratio=self.bucket_ratio,
            seed=self.seed,
        )
