"""Texts to tokens and ids, with the characters that each token stands for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from sentattn.data import spacy_words
from sentattn.data.clipping import Clip, kept_positions
from sentattn.data.spacy_words import Span
from sentattn.errors import DataError

# Said outright, so that `tokenizers` does not warn of every fork. A forked child has none of the
# parent's threads and would wait for them, so it works without.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))

PAD, UNKNOWN = "<pad>", "<unk>"
PAD_ID, UNKNOWN_ID = 0, 1
SPECIALS = (PAD, UNKNOWN)
CHUNK = 1000

LINE_BREAK = r"(?i)<br\s*/?>"
TOKEN = "|".join(
    (
        r"\d+(?:[./,]\d+)*(?!['\u2019]?[^\W_])",  # 8/10, 3.5, 1,000; not the 5 of 5th
        r"[^\W_]+(?:['\u2019][^\W_]+)*",  # words, don't, 1990's
        r"\.{2,}",
        r"[!?]+",
        r"[^\w\s]|_",
    )
)

Item = TypeVar("Item")
Rules: TypeAlias = Literal["words", "spacy"]
"""Whose rules say what a word is: those of `TOKEN`, or spaCy's for English."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as the model reads it.

    Attributes:
        ids: One id a token, int32; empty for a text without a token.
        tokens: The tokens as they are written in the text.
        spans: Where each token stands in the text: start and end, in characters.
    """

    ids: NDArray[np.int32]
    tokens: list[str]
    spans: list[tuple[int, int]]


class Tokenizer:
    """Splits texts into words, numbers and signs, and looks their ids up.

    Args:
        words: The vocabulary; the first word has the id 2, after `<pad>` and `<unk>`.
        lowercase: Whether words are looked up in lower case.
        max_length: Most tokens of a text that are read; None reads all.
        clip: What is kept of a longer text.
        rules: Whose rules say what a word is.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        lowercase: bool = True,
        max_length: int | None = None,
        clip: Clip = "both",
        rules: Rules = "words",
    ) -> None:
        ids = {word: number for number, word in enumerate([*SPECIALS, *words])}
        self._set(backend(ids, lowercase=lowercase, rules=rules), max_length, clip, rules)

    @classmethod
    def load(
        cls, path: Path, *, max_length: int | None = None, clip: Clip = "both", rules: Rules = "words"
    ) -> Tokenizer:
        """Reads what `save` wrote; clipping and rules are not in the file.

        Raises:
            DataError: If the file is missing or holds something else.
        """
        try:
            read = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise DataError(f"{path} cannot be read as a tokenizer: {error}.") from error
        if [read.id_to_token(number) for number in range(len(SPECIALS))] != list(SPECIALS):
            raise DataError(f"{path} is no tokenizer of sentattn: its first ids are not {PAD} and {UNKNOWN}.")
        tokenizer = cls.__new__(cls)
        tokenizer._set(read, max_length, clip, rules)
        return tokenizer

    def _set(self, read: tokenizers.Tokenizer, max_length: int | None, clip: Clip, rules: Rules) -> None:
        self._backend = read
        self._rules = rules
        self._max_length = max_length
        self._clip = clip
        vocabulary = read.get_vocab()
        self.words = sorted(vocabulary.keys() - set(SPECIALS), key=vocabulary.__getitem__)

    def __len__(self) -> int:
        """Number of ids, `<pad>` and `<unk>` included."""
        return len(self.words) + len(SPECIALS)

    def save(self, path: Path) -> None:
        """Writes a file that `tokenizers.Tokenizer.from_file` reads too; it does not clip.

        With spaCy's rules that tokenizer expects spaCy's words, one a line.
        """
        self._backend.save(str(path))

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Encodes texts, clipped as in training.

        Raises:
            DataError: If a text is not valid Unicode.
        """
        return [
            self._clipped(text, ids, spans)
            for chunk in chunks(texts, CHUNK)
            for text, (ids, spans) in zip(chunk, self._encode_chunk(chunk), strict=True)
        ]

    def _encode_chunk(self, texts: list[str]) -> list[tuple[list[int], list[Span]]]:
        try:
            if self._rules == "words":
                encodings = self._backend.encode_batch(texts, add_special_tokens=False)
                return [(encoding.ids, encoding.offsets) for encoding in encodings]
            spans = [spacy_words.spans(text) for text in texts]
            lines = [spacy_words.joined(text, own) for text, own in zip(texts, spans, strict=True)]
            encodings = self._backend.encode_batch(lines, add_special_tokens=False)
            return [(encoding.ids, own) for encoding, own in zip(encodings, spans, strict=True)]
        except (TypeError, UnicodeEncodeError):
            for text in texts:
                require_unicode(text)
            raise

    def _clipped(self, text: str, numbers: list[int], spans: list[Span]) -> Encoded:
        ids = np.asarray(numbers, dtype=np.int32)
        if self._max_length is not None and len(ids) > self._max_length:
            positions, _ = kept_positions(np.array([len(ids)]), self._max_length, self._clip)
            ids, spans = ids[positions[0]], [spans[i] for i in positions[0]]
        return Encoded(ids, [text[start:end] for start, end in spans], spans)


def require_unicode(text: str) -> None:
    """Refuses a text that holds half a character, as bytes that are not UTF-8 become on a command line.

    Raises:
        DataError: With the text.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{text!r} is not valid Unicode at character {error.start + 1}; give it in UTF-8.") from error


def backend(ids: Mapping[str, int], *, lowercase: bool, rules: Rules = "words") -> tokenizers.Tokenizer:
    """Returns the library's tokenizer over a vocabulary; with spaCy's rules it reads spaCy's words, one a line.

    The specials are words like others, not its "added tokens": those it would find in a review that
    holds the text `<pad>`.
    """
    built = tokenizers.Tokenizer(models.WordLevel(dict(ids), unk_token=UNKNOWN))
    own = rules == "words"
    steps: list[normalizers.Normalizer] = [normalizers.Replace(Regex(LINE_BREAK), " ")] if own else []
    if lowercase:
        steps.append(normalizers.Lowercase())
    built.normalizer = normalizers.Sequence(steps)
    built.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN) if own else "\n", "removed", invert=own)
    return built


def word_types(texts: Iterable[list[str]], *, lowercase: bool, rules: Rules = "words") -> list[str]:
    """Returns all different words of chunks of texts, sorted."""
    counter = backend({}, lowercase=lowercase, rules=rules)
    everything = trainers.WordLevelTrainer(vocab_size=2**31, min_frequency=0, show_progress=False, special_tokens=[])
    counter.train_from_iterator(texts, everything)
    return sorted(counter.get_vocab())


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yields lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
