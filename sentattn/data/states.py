"""Rows of states: a token's id is the place of its state, so that all that reads tokens reads states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentattn.data.readers.states import StateFile
from sentattn.data.tokenizer import SPECIALS, Clip, Encoded, Span, Tokenizer
from sentattn.errors import DataError, Fault

Ids: TypeAlias = NDArray[np.int32]
FindRow: TypeAlias = Callable[[str], tuple[Ids, list[Span]] | None]
"""Returns the ids and spans of the tokens of a row by its text."""


class StateTable:
    """The states of files, one after another; `<pad>` and `<unk>` are zeros.

    Args:
        files: The files, of one width.

    Attributes:
        width: The width D.
        fingerprint: Hash of the files.

    Raises:
        DataError: If their widths differ.
    """

    def __init__(self, files: Sequence[StateFile]) -> None:
        self.files = files
        self.width = files[0].states_MD.shape[1]
        for file in files:
            if (other := file.states_MD.shape[1]) != self.width:
                message = f"{file.key}={file.path} has states of width {other}, and {files[0].path} of {self.width}."
                raise DataError(Fault(file.key, "conflict", message))
        self.starts = np.cumsum([len(SPECIALS), *(len(file.states_MD) for file in files)])
        self._dtype = files[0].states_MD.dtype
        for file in files:
            self._dtype = torch.promote_types(self._dtype, file.states_MD.dtype)
        self.fingerprint = "-".join(file.digest() for file in files)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # it reads files
    def look_up(self, ids_BL: NDArray[np.int64]) -> Tensor:
        """Returns the states of tokens, (B, L, D)."""
        ids = ids_BL.ravel()
        states_ND = torch.zeros(len(ids), self.width, dtype=self._dtype)
        places = np.flatnonzero(ids >= len(SPECIALS))
        of_file = np.searchsorted(self.starts, ids[places], side="right") - 1
        # A row is one stretch of a file nearly always: copying it is four times as fast as gathering its tokens.
        is_next = (np.diff(ids[places], prepend=-1) == 1) & (np.diff(places, prepend=-2) == 1)
        begins = np.flatnonzero(~is_next | (np.diff(of_file, prepend=-1) != 0))
        lengths = np.diff(begins, append=len(places)).tolist()
        for place, number, length in zip(places[begins].tolist(), of_file[begins].tolist(), lengths, strict=True):
            first = ids[place] - self.starts[number]
            states_ND[place : place + length] = self.files[number].states_MD[first : first + length]
        return states_ND.view(*ids_BL.shape, self.width)


class StateTokenizer(Tokenizer):
    """Finds the tokens of rows by their texts; other texts would need the model that the states are of.

    Args:
        max_length: Most tokens of a row; None keeps all.
        clip: Which tokens of a longer row are kept.

    Attributes:
        find: Returns the tokens of a row; at first there is none.
        pieces: Tokens have no types.
        identity: What the tokens of a row depend on, as `WordTypes` has it.
    """

    pieces: tuple[str, ...] = ()
    identity = ("states",)

    def __init__(self, *, max_length: int | None = None, clip: Clip = "both") -> None:
        super().__init__([], max_length=max_length, clip=clip)
        self.find: FindRow = lambda text: None

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Returns the tokens of rows, clipped as in training.

        Raises:
            DataError: If a text is not that of a row.
        """
        encoded = []
        for text in texts:
            if (found := self.find(text)) is None:
                message = (
                    f"model=states has no encoder that reads texts, such as {text[:60]!r}: predict states with "
                    "python -m sentattn.predict run=DIR input=FILE, or evaluate on data=states."
                )
                raise DataError(Fault("text", "unsupported", message))
            ids, spans = self._clipped(*found)
            encoded.append(Encoded(ids, [text[start:end] for start, end in spans], spans))
        return encoded
