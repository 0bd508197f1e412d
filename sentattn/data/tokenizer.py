"""Text to tokens and ids, with the character span of each token."""

from __future__ import annotations

import functools
import os
import re
import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import Regex, models, normalizers, pre_tokenizers

from sentattn.errors import DataError, Fault, require_packages

if TYPE_CHECKING:
    from spacy.tokenizer import Tokenizer as SpacyTokenizer

# Set explicitly, so that `tokenizers` does not warn at every fork. A forked process would wait for the threads of its
# parent, which it does not have.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))

PAD, UNKNOWN = "<pad>", "<unk>"
PAD_ID, UNKNOWN_ID = 0, 1
SPECIALS = (PAD, UNKNOWN)
NAME_END = "\u2063"
"""An invisible sign after the name of a row of states, which is shown before its tokens and is none of them."""
CHUNK = 1000
MAX_PIECES, MAX_PIECE_LENGTH = 1 << 17, 64
"""Number (25 MB) and length of the pieces between spaces whose tokens `WordTypes` caches."""

LINE_BREAK_TAG = r"(?i)<br\s*/?>"
# Python's \s includes four control characters that are no white space in Oniguruma.
_LINE_BREAK = re.compile(LINE_BREAK_TAG.replace(r"\s", r"[^\S\x1c-\x1f]"))
_MARK = "\\p{M}\u200c\u200d"  # accents, variation selectors, and the joiners of Indic scripts, Persian and emoji
_MODIFIER = f"{_MARK}\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # skin tones, and the letters in a flag
_WORD = rf"[^\W_\p{{M}}][[^\W_]{_MARK}]*"
TOKEN = "|".join(
    (
        rf"\d+(?:[./,]\d+)*[{_MARK}]*(?!['\u2019]?[^\W_])",  # 8/10, 3.5, 1,000; not the 5 of 5th
        rf"{_WORD}(?:['\u2019][{_MARK}]*{_WORD})*",  # words, don't, 1990's
        rf"\.{{2,}}[{_MARK}]*",
        rf"[!?]+[{_MARK}]*",
        # Other signs; a mark after nothing; emoji, joined by joiners.
        rf"(?:[^\w\s]|_|\p{{M}})[{_MODIFIER}]*(?:(?<=\u200d)\p{{So}}[{_MODIFIER}]*)*",
    )
)
"""A token with the marks after it, in the syntax of Oniguruma."""
_ASCII_TOKEN = re.compile(r"\d+(?:[./,]\d+)*(?!'?[^\W_])|[^\W_]+(?:'[^\W_]+)*|\.{2,}|[!?]+|[^\w\s]|_", re.ASCII)
"""`TOKEN` on ASCII text."""

BASIC_ENGLISH = r"['.,()!?]|[^\s\x1c-\x1f'.,()!?]+"
BASIC_ENGLISH_REPLACED = (('"', ""), (Regex(r"(?i)<br />"), " "), (Regex("[;:]"), " "))
"""Tokens of torchtext's `basic_english`, and its replacements before; it lowercases all texts."""

Span: TypeAlias = tuple[int, int]
Clip: TypeAlias = Literal["head", "tail", "both"]
"""Which tokens of a long text are kept: its first, its last, or half of each."""
Rules: TypeAlias = Literal["words", "basic_english", "spacy"]
"""Tokenization rules of words: the pattern `TOKEN`, torchtext's `basic_english`, or spaCy's English rules."""
RULES: tuple[Rules, ...] = get_args(Rules)
Normalize: TypeAlias = Literal["nfc"] | None
"""Unicode normalization of words, so that both encodings of an accented letter are the same word."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The tokens of a text, clipped.

    Attributes:
        ids: Id of each token, int32; empty for a text without a token.
        tokens: The tokens as written in the text.
        spans: Start and end of each token in the text, in characters.
    """

    ids: NDArray[np.int32]
    tokens: list[str]
    spans: list[Span]


class Tokenizer:
    """Splits texts into words, numbers and signs, and looks up their ids.

    Args:
        words: The vocabulary; the first word has the id 2, after `<pad>` and `<unk>`.
        lowercase: Whether words are looked up in lower case.
        max_length: Most tokens per text; None keeps all.
        clip: Which tokens of a longer text are kept.
        rules: Tokenization rules.
        normalize: Normalization of words before they are looked up; None for no normalization.

    Attributes:
        words: The vocabulary.
        max_length: Most tokens per text.
        clip: Which tokens of a longer text are kept.
        num_special: Number of special tokens, whose ids are the first.
        prefix: Ids of special tokens before the tokens of a text.
        suffix: Ids of those after them.
        fingerprint: Hash of the file that it was read from, for a subword tokenizer.
    """

    words: list[str]
    fingerprint: str | None = None
    num_special = len(SPECIALS)
    prefix: NDArray[np.int32] = np.empty(0, np.int32)
    suffix: NDArray[np.int32] = np.empty(0, np.int32)

    def __init__(
        self,
        words: Sequence[str],
        *,
        lowercase: bool = True,
        normalize: Normalize = None,
        max_length: int | None = None,
        clip: Clip = "both",
        rules: Rules = "words",
    ) -> None:
        ids = {word: number for number, word in enumerate([*SPECIALS, *words])}
        library_tokenizer = backend(ids, lowercase=lowercase, normalize=normalize, rules=rules)
        self._set(library_tokenizer, max_length, clip, rules)

    @classmethod
    def load(
        cls, path: Path, *, max_length: int | None = None, clip: Clip = "both", rules: Rules = "words"
    ) -> Tokenizer:
        """Reads a file that `save` wrote; clipping and rules are not in the file.

        Raises:
            DataError: If the file is missing or holds something else.
        """
        try:
            library_tokenizer = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
            if any(library_tokenizer.id_to_token(number) != word for number, word in enumerate(SPECIALS)):
                raise ValueError(f"ids 0 and 1 are not {PAD} and {UNKNOWN}")
        except Exception as error:  # the library raises nothing narrower
            message = f"{path} is not a readable tokenizer of sentattn: {error}."
            raise DataError(Fault(str(path), "unreadable", message)) from error
        tokenizer = cls.__new__(cls)
        tokenizer._set(library_tokenizer, max_length, clip, rules)
        return tokenizer

    def _set(self, backend: tokenizers.Tokenizer, max_length: int | None, clip: Clip, rules: Rules) -> None:
        self._backend = backend
        self._rules = rules
        self.max_length, self.clip = max_length, clip
        vocabulary = backend.get_vocab()
        self.words = sorted(vocabulary.keys() - set(SPECIALS), key=vocabulary.__getitem__)

    def __len__(self) -> int:
        """Number of ids, `<pad>` and `<unk>` included."""
        return len(self.words) + len(SPECIALS)

    def save(self, path: Path) -> None:
        """Writes a file that `tokenizers.Tokenizer.from_file` reads too, but without clipping.

        With spaCy's rules, that tokenizer expects one word per line.
        """
        self._backend.save(str(path))

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Encodes texts, clipped as in training.

        Raises:
            DataError: If a text is not valid Unicode.
        """
        encoded: list[Encoded] = []
        for first in range(0, len(texts), CHUNK):
            chunk = list(texts[first : first + CHUNK])
            for text in chunk:
                require_unicode(text)
            encoded += self._encode_chunk(chunk)
        return encoded

    def _encode_chunk(self, texts: Sequence[str]) -> list[Encoded]:
        lines = texts
        if self._rules == "spacy":
            spans = [spacy_spans(text) for text in texts]
            words = zip(texts, spans, strict=True)
            lines = ["\n".join(text[start:end] for start, end in its_spans) for text, its_spans in words]
        encodings = self._backend.encode_batch(lines, add_special_tokens=False)
        if self._rules != "spacy":
            spans = [_with_marks(text, encoding.offsets) for text, encoding in zip(texts, encodings, strict=True)]
        encoded = []
        for text, encoding, all_spans in zip(texts, encodings, spans, strict=True):
            ids, kept = self._clipped(np.asarray(encoding.ids, dtype=np.int32), all_spans)
            encoded.append(Encoded(ids, [text[start:end] for start, end in kept], kept))
        return encoded

    def _clipped(
        self, ids: NDArray[np.int32], spans: list[Span], *, around: int = 0
    ) -> tuple[NDArray[np.int32], list[Span]]:
        """Returns the ids and spans that are kept, where `around` of the maximal length are special tokens."""
        if self.max_length is None or len(ids) + around <= self.max_length:
            return ids, spans
        [positions], _ = kept_positions(np.array([len(ids)]), self.max_length - around, self.clip)
        return ids[positions], [spans[i] for i in positions]


def _with_marks(text: str, spans: list[Span]) -> list[Span]:
    """Extends spans by the marks that normalization has composed with the last character of a token.

    The library leaves them out. Between two tokens there is otherwise only white space or a line break.
    """
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return spans
    whole = []
    for (start, end), (following, _) in zip(spans, [*spans[1:], (len(text), 0)], strict=True):
        while end < following and not text[end].isspace() and text[end] != "<":
            end += 1
        whole.append((start, end))
    return whole


def require_unicode(text: str) -> None:
    """Refuses a lone surrogate, by which Python represents bytes of a command line that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"{text!r} is not valid Unicode at character {error.start + 1}; encode it as UTF-8."
        raise DataError(Fault("text", "unreadable", message)) from error


def spacy_spans(text: str) -> list[Span]:
    """Returns the spans of the words of a text by spaCy's rules.

    HTML line breaks count as white space, and spaCy's white space tokens are dropped.

    Raises:
        SettingError: If spaCy is not installed.
    """
    blanked = re.sub(LINE_BREAK_TAG, lambda match: " " * len(match[0]), text)
    return [(token.idx, token.idx + len(token)) for token in _english()(blanked) if not token.is_space]


def spacy_version() -> str:
    """Returns the version of spaCy, whose rules change with it.

    Raises:
        SettingError: If spaCy is not installed.
    """
    require_packages("data.tokenizer", "data.tokenizer=spacy", ["spacy"], "sentattn[spacy]")
    return metadata.version("spacy")


@functools.cache
def _english() -> SpacyTokenizer:
    """Returns spaCy's rules for English; they need no trained model."""
    spacy_version()
    import spacy

    return spacy.blank("en").tokenizer


def backend(
    ids: Mapping[str, int], *, lowercase: bool, normalize: Normalize = None, rules: Rules = "words"
) -> tokenizers.Tokenizer:
    """Returns the library's tokenizer over a vocabulary; with spaCy's rules, it expects one word per line.

    The special tokens are ordinary words, not the library's "added tokens", which would match the text `<pad>` in a
    review.
    """
    built = tokenizers.Tokenizer(models.WordLevel(dict(ids), unk_token=UNKNOWN))
    replaced = {"words": ((Regex(LINE_BREAK_TAG), " "),), "basic_english": BASIC_ENGLISH_REPLACED, "spacy": ()}[rules]
    steps: list[normalizers.Normalizer] = [normalizers.Replace(*pair) for pair in replaced]
    if normalize:
        steps.append(normalizers.NFC())
    if lowercase or rules == "basic_english":
        steps.append(normalizers.Lowercase())
    built.normalizer = normalizers.Sequence(steps)
    pattern = {"words": TOKEN, "basic_english": BASIC_ENGLISH, "spacy": r"\n"}[rules]
    built.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=rules != "spacy")
    return built


class WordTypes(dict[str, tuple[int, ...]]):
    """Splits texts into tokens and numbers their word types in order of first occurrence.

    A cache of the tokens of each piece between spaces, which no token crosses: nearly all pieces repeat. Long pieces,
    as in languages without spaces, are not cached.

    Attributes:
        rules: Tokenization rules.
        numbers: The number of each word type.
        identity: What the tokens of a text depend on, as JSON data.
    """

    def __init__(self, *, lowercase: bool = True, normalize: Normalize = None, rules: Rules = "words") -> None:
        super().__init__()
        library = backend({}, lowercase=lowercase, normalize=normalize, rules=rules)
        self._normalize, self._split = library.normalizer.normalize_str, library.pre_tokenizer.pre_tokenize_str
        self.rules, self._lowercase = rules, lowercase
        self.numbers: dict[str, int] = {}
        tokens = f"spaCy {spacy_version()}" if rules == "spacy" else {"words": TOKEN}.get(rules, BASIC_ENGLISH)
        self.identity = [tokens, lowercase, normalize]

    def read(self, text: str) -> array[int]:
        """Returns the word types of the tokens of a text."""
        if self.rules == "words":
            pieces = (_LINE_BREAK.sub(" ", text) if "<" in text else text).split(" ")
        elif self.rules == "basic_english":
            pieces = [text]
        else:
            pieces = [text[start:end] for start, end in spacy_spans(text)]
        return array("i", chain.from_iterable(map(self.__getitem__, pieces)))

    def __missing__(self, piece: str) -> tuple[int, ...]:
        if self.rules == "words" and piece.isascii():  # faster than a call of the library
            tokens = _ASCII_TOKEN.findall(piece.lower() if self._lowercase else piece)
        else:
            tokens = [token for token, _ in self._split(self._normalize(piece))]
        types = tuple([self.numbers.setdefault(token, len(self.numbers)) for token in tokens])
        if len(self) < MAX_PIECES and len(piece) <= MAX_PIECE_LENGTH:
            self[piece] = types
        return types


def clipped(lengths: NDArray[np.int64], max_length: int | None) -> NDArray[np.int64]:
    """Returns the number of tokens of each text after clipping."""
    return lengths if max_length is None else np.minimum(lengths, max_length)


def kept_positions(
    lengths_B: NDArray[np.int64], max_length: int | None, clip: Clip
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the positions of the tokens that are kept, (B, L), 0 for padding, and the mask of the real ones.

    `lengths_B` are the lengths of the whole texts. `both` keeps the first half of `max_length`, rounded up, and the
    last half.
    """
    kept_B = clipped(lengths_B, max_length)
    position_L = np.arange(kept_B.max(initial=0))
    mask_BL = position_L < kept_B[:, None]
    skipped_B = lengths_B - kept_B
    if clip == "head" or not skipped_B.any():
        return np.where(mask_BL, position_L, 0), mask_BL
    head = 0 if clip == "tail" else ((max_length or 0) + 1) // 2
    position_BL = position_L + skipped_B[:, None] * (position_L >= head)
    return np.where(mask_BL, position_BL, 0), mask_BL
