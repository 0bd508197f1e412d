"""Subword tokenizers of a `tokenizer.json`: texts to pieces, with special tokens around them."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from sentattn.data.hub import TOKENIZER_FILE, find_folder
from sentattn.data.tokenizer import SPECIALS, Clip, Encoded, Span, Tokenizer
from sentattn.errors import DataError, Fault

PADS, UNKNOWNS, MASKS = ("[PAD]", "<pad>"), ("[UNK]", "<unk>"), ("[MASK]", "<mask>")
"""Special tokens of the families of BERT, RoBERTa, XLM-R, T5 and ModernBERT."""


class PieceTokenizer(Tokenizer):
    """A subword tokenizer, whose tokens are numbered anew: `<pad>`, `<unk>`, other special tokens, pieces.

    So the ids of padding and of unknown tokens are those of every tokenizer here. Special tokens that a text happens to
    contain are read as text.

    Args:
        content: The content of a `tokenizer.json`.
        max_length: Most tokens per text, special ones included; None keeps all.
        clip: Which pieces of a longer text are kept, between the special tokens.

    Attributes:
        prefix: Ids of the special tokens before the pieces of a text, such as `[CLS]`.
        suffix: Ids of those after them, such as `[SEP]`.
        num_special: Number of special tokens; their ids are the first.
        mask_id: Id of the token that stands for a hidden piece; that of `<unk>` if there is none.
        library_ids_V: The library's id of each id.
        ids_V: The id of each of the library's ids; 0 where it has none.
        fingerprint: SHA-256 of the content, 16 hexadecimal digits.

    Raises:
        ValueError: If it is no tokenizer of this kind, or has no token for padding or for unknown pieces.
        DataError: If `max_length` has no room for pieces.
    """

    def __init__(self, content: str, *, max_length: int | None = None, clip: Clip = "both") -> None:
        try:
            library = tokenizers.Tokenizer.from_str(content)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"it is no tokenizer ({error})") from error
        library.no_truncation()
        library.no_padding()
        self._content = content
        self.fingerprint = hashlib.sha256(content.encode()).hexdigest()[:16]
        number_of = library.get_vocab()
        special = {token.content for token in library.get_added_tokens_decoder().values() if token.special}
        roles = {role: _first(names, number_of) for role, names in (("[PAD]", PADS), ("[UNK]", UNKNOWNS))}
        if missing := [role for role, token in roles.items() if token is None]:
            raise ValueError(f"it has no token {' and no token '.join(missing)}, which a model needs")
        first = [token for token in roles.values() if token is not None]
        others = sorted(special.difference(first), key=number_of.__getitem__)
        pieces = sorted(number_of.keys() - special - {*first}, key=number_of.__getitem__)
        self.num_special = len(first) + len(others)
        in_order = [*first, *others, *pieces]
        self.library_ids_V: NDArray[np.int64] = np.array([number_of[token] for token in in_order], dtype=np.int64)
        self.ids_V: NDArray[np.int32] = np.zeros(int(self.library_ids_V.max()) + 1, dtype=np.int32)
        self.ids_V[self.library_ids_V] = np.arange(len(in_order))
        self._names = in_order
        self.mask_id = in_order.index(mask) if (mask := _first(MASKS, number_of)) else 1
        whole = library.encode("a")
        is_special = np.array(whole.special_tokens_mask, dtype=bool)
        ids, inside = self.ids_V[whole.ids], np.flatnonzero(~is_special)
        self.prefix, self.suffix = ids[: inside[0]], ids[inside[-1] + 1 :]
        library.encode_special_tokens = True
        if max_length is not None and max_length <= (around := len(self.prefix) + len(self.suffix)):
            message = f"data.max_length must be more than {around}, the special tokens of a text, got {max_length}."
            raise DataError(Fault("data.max_length", "range", message))
        self._set(library, max_length, clip, "words")
        self.words = in_order[len(SPECIALS) :]

    @property
    def pieces(self) -> list[str]:
        """The token of each id."""
        return self._names

    def save(self, path: Path) -> None:
        """Writes the `tokenizer.json` as it was read."""
        path.write_text(self._content, encoding="utf-8")

    def read(self, text: str) -> array[int]:
        """Returns the ids of the pieces of a text, without special tokens."""
        ids: NDArray[np.int32] = self.ids_V[self._backend.encode(text, add_special_tokens=False).ids]
        return array("i", ids.tobytes())

    def _encode_chunk(self, texts: Sequence[str]) -> list[Encoded]:
        encodings = self._backend.encode_batch(texts, add_special_tokens=False)
        return [self._encoded(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]

    def _encoded(self, text: str, encoding: tokenizers.Encoding) -> Encoded:
        ids, spans = self._clipped(
            self.ids_V[encoding.ids], encoding.offsets, around=len(self.prefix) + len(self.suffix)
        )
        if not len(ids):
            return Encoded(ids, [], [])
        before: list[Span] = [(0, 0)] * len(self.prefix)
        after: list[Span] = [(len(text), len(text))] * len(self.suffix)
        names = [[self._names[number] for number in special] for special in (self.prefix, self.suffix)]
        tokens = [*names[0], *(text[start:end] for start, end in spans), *names[1]]
        return Encoded(np.concatenate([self.prefix, ids, self.suffix]), tokens, [*before, *spans, *after])


def _first(names: Sequence[str], vocabulary: dict[str, int]) -> str | None:
    return next((name for name in names if name in vocabulary), None)


def read_tokenizer(
    name: str, *, key: str = "data.tokenizer", max_length: int | None = None, clip: Clip = "both"
) -> PieceTokenizer:
    """Reads the `tokenizer.json` of a folder, a file or a name on the Hugging Face Hub, which the setting `key` has.

    Raises:
        DataError: If there is none, or it cannot be used.
    """
    path = Path(name).expanduser()
    path = path if path.is_file() else find_folder(name, key=key) / TOKENIZER_FILE
    try:
        return PieceTokenizer(path.read_text(encoding="utf-8"), max_length=max_length, clip=clip)
    except FileNotFoundError as error:
        reason = f"there is no {TOKENIZER_FILE}, and other tokenizers do not say where a piece is in the text"
        raise DataError(Fault(key, "missing", f"{key}={name}: {reason}.")) from error
    except DataError:
        raise
    except ValueError as error:  # also of a text that is not UTF-8
        raise DataError(Fault(key, "unreadable", f"{key}={name}: {path} cannot be used: {error}.")) from error
