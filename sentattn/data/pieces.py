"""Subword tokenizers of a `tokenizer.json`: texts to pieces, with special tokens around them."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import Regex, normalizers

from sentattn.data.hub import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, find_folder
from sentattn.data.tokenizer import SPECIALS, UNKNOWN_ID, Clip, Encoded, Tokenizer
from sentattn.errors import DataError, Fault

PADS, UNKNOWNS, MASKS = ("[PAD]", "<pad>"), ("[UNK]", "<unk>"), ("[MASK]", "<mask>")
"""Special tokens of the families of BERT, RoBERTa, XLM-R, T5 and ModernBERT; many decoders have none of them."""
LINE_BREAK_TAGS = r"(?i)\s?(?:<br\s*/?>\s*)+"
"""HTML line breaks with the white space around them, which are read as one space."""


class PieceTokenizer(Tokenizer):
    """A subword tokenizer, whose tokens are numbered anew: `<pad>`, `<unk>`, other special tokens, pieces.

    So the ids of padding and of unknown tokens are those of every tokenizer here. Special tokens that a text happens to
    contain are read as text, HTML line breaks as a space. A tokenizer of a decoder may put no token around a text, and
    have none for padding: its first special token, such as `<|endoftext|>`, is then put before each text.

    Args:
        content: The content of a `tokenizer.json`.
        max_length: Most tokens per text, special ones included; None keeps all.
        clip: Which pieces of a longer text are kept, between the special tokens.

    Attributes:
        pieces: The token of each id.
        prefix: Ids of the special tokens before the pieces of a text, such as `[CLS]`.
        suffix: Ids of those after them, such as `[SEP]`.
        num_special: Number of special tokens; their ids are the first.
        mask_id: Id of the token that stands for a hidden piece; that of `<unk>` if there is none.
        library_ids_V: The library's id of each id.
        ids_V: The id of each of the library's ids; 0 where it has none.
        fingerprint: SHA-256 of the content, 16 hexadecimal digits.
        identity: What the pieces of a text depend on, as `WordTypes` has it.

    Raises:
        ValueError: If it is no tokenizer of this kind.
        DataError: If `max_length` has no room for pieces.
    """

    def __init__(self, content: str, *, max_length: int | None = None, clip: Clip = "both") -> None:
        try:
            library = tokenizers.Tokenizer.from_str(content)
            library.encode("\ue000")  # a character without a piece: its unknown token may be missing
        except BaseException as error:  # the library raises nothing narrower, and its panics are no `Exception`
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ValueError(f"it is no tokenizer ({error})") from error
        library.no_truncation()
        library.no_padding()
        self._content = content
        self.fingerprint = hashlib.sha256(content.encode()).hexdigest()[:16]
        self.identity = [f"pieces {LINE_BREAK_TAGS} {self.fingerprint}", False, None]
        number_of = library.get_vocab()
        added = sorted(library.get_added_tokens_decoder().items())
        special = {token.content: number for number, token in added if token.special}
        pad, unknown, mask = (next(filter(number_of.__contains__, names), None) for names in (PADS, UNKNOWNS, MASKS))
        self.pieces = [pad or PADS[1], unknown or UNKNOWNS[1]]
        self.num_special = len({*special, *self.pieces})
        rest = number_of.keys() - {*self.pieces}
        self.pieces += sorted(rest, key=lambda token: (token not in special, number_of[token]))
        # Padding and unknown tokens that a decoder's tokenizer lacks have an id of the library's that says nothing.
        start = next(iter(special.values()), 0)
        self.library_ids_V: NDArray[np.int64] = np.array([number_of.get(token, start) for token in self.pieces])
        self.ids_V: NDArray[np.int32] = np.zeros(int(self.library_ids_V.max()) + 1, dtype=np.int32)
        self.ids_V[self.library_ids_V] = np.arange(len(self.pieces))  # of two with one id the later, which is its token
        self.mask_id = UNKNOWN_ID if mask is None else self.pieces.index(mask)
        inner = (library.encode(piece, add_special_tokens=False) for piece in self.pieces[self.num_special :])
        if (text := next((encoding for encoding in inner if encoding.ids), None)) is None:
            raise ValueError("none of its pieces is read as a piece")
        ids = library.post_process(text).ids
        if ids == text.ids and special and pad is None:  # a decoder reads its first token unlike all others
            ids = [start, *ids]
        before = next(i for i in range(len(ids)) if ids[i : i + len(text.ids)] == text.ids)
        self.prefix, self.suffix = self.ids_V[ids[:before]], self.ids_V[ids[before + len(text.ids) :]]
        library.encode_special_tokens = True
        own = [] if library.normalizer is None else [library.normalizer]
        library.normalizer = normalizers.Sequence([normalizers.Replace(Regex(LINE_BREAK_TAGS), " "), *own])
        if max_length is not None and max_length <= (around := len(self.prefix) + len(self.suffix)):
            message = f"data.max_length must be more than {around}, the special tokens of a text, got {max_length}."
            raise DataError(Fault("data.max_length", "range", message))
        self._set(library, max_length, clip, "words")
        self.words = self.pieces[len(SPECIALS) :]

    def save(self, path: Path) -> None:
        """Writes the `tokenizer.json` as it was read."""
        path.write_text(self._content, encoding="utf-8")

    def read(self, text: str) -> array[int]:
        """Returns the ids of the pieces of a text, without special tokens."""
        ids: NDArray[np.int32] = self.ids_V[self._backend.encode(text, add_special_tokens=False).ids]
        return array("i", ids.tobytes())

    def _encode_chunk(self, texts: Sequence[str]) -> list[Encoded]:
        before, after = ([self.pieces[number] for number in special] for special in (self.prefix, self.suffix))
        chunk = []
        for text, encoding in zip(texts, self._backend.encode_batch(texts, add_special_tokens=False), strict=True):
            around = len(before) + len(after)
            ids, spans = self._clipped(self.ids_V[encoding.ids], encoding.offsets, around=around)
            if len(ids):
                ids = np.concatenate([self.prefix, ids, self.suffix])
                tokens = [*before, *(text[start:end] for start, end in spans), *after]
                spans = [*[(0, 0)] * len(before), *spans, *[(len(text), len(text))] * len(after)]
                chunk.append(Encoded(ids, tokens, spans))
            else:
                chunk.append(Encoded(ids, [], []))
        return chunk


def read_tokenizer(
    name: str, *, key: str = "data.tokenizer", max_length: int | None = None, clip: Clip = "both"
) -> PieceTokenizer:
    """Reads the `tokenizer.json` of a folder, a file or a name on the Hugging Face Hub, which the setting `key` has.

    Raises:
        DataError: If there is none, or it cannot be used.
    """
    path = Path(name).expanduser()
    files = [TOKENIZER_FILE, TOKENIZER_CONFIG_FILE]
    path = path if path.is_file() else find_folder(name, key=key, files=files) / TOKENIZER_FILE
    try:
        content = path.read_text(encoding="utf-8")
        tokenizer = PieceTokenizer(content, max_length=max_length, clip=clip)
        _require_one_case(content, path.with_name(TOKENIZER_CONFIG_FILE))
        return tokenizer
    except FileNotFoundError as error:
        reason = f"there is no {TOKENIZER_FILE}, and other tokenizers do not say where a piece is in the text"
        raise DataError(Fault(key, "missing", f"{key}={name}: {reason}.")) from error
    except DataError:
        raise
    except (ValueError, RecursionError) as error:  # also of a text that is not UTF-8
        raise DataError(Fault(key, "unreadable", f"{key}={name}: {path} cannot be used: {error}.")) from error


def _require_one_case(content: str, config: Path) -> None:
    """Refuses a `tokenizer.json` that lower-cases where its configuration does not, or the reverse.

    Raises:
        ValueError: With both files; transformers follows the configuration.
    """
    if not config.is_file():
        return
    settings = json.loads(config.read_text(encoding="utf-8"))
    wanted = settings.get("do_lower_case") if isinstance(settings, dict) else None
    normalizer = json.loads(content).get("normalizer")
    is_bert = isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer"
    found = normalizer.get("lowercase") if is_bert else None
    if isinstance(wanted, bool) and isinstance(found, bool) and wanted != found:
        does = "lower-cases" if found else "keeps upper case"
        raise ValueError(f"it {does}, and do_lower_case is {json.dumps(wanted)} in {config.name}; make them agree")
