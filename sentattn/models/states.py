"""States from files as an embedding: the place of a token's state to the state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, checked
from sentattn.data.states import StateTable
from sentattn.errors import DataError, Fault
from sentattn.models.dropout import Dropout
from sentattn.models.embedding import Embedding


class States(Embedding):
    """The states of `data=states`, of a frozen model that is not known here.

    Args:
        size: Width E of a state, which the files of the data say.
        norm: LayerNorm on the states.
        dropout: Share of the states' components set to 0 while training.
        word_dropout: It changes nothing; settings of data sets have it for other embeddings.

    Attributes:
        table: The states, where data are opened.
    """

    table: StateTable | None = None
    one: Tensor

    @checked
    def __init__(
        self, *, size: Count, norm: bool = True, dropout: Fraction = 0.0, word_dropout: Fraction = 0.0
    ) -> None:
        super().__init__()
        self.out_dim = size
        self.norm = nn.LayerNorm(size) if norm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.register_buffer("one", torch.ones(()), persistent=False)  # of the type that the model computes with

    def open(self, table: StateTable | None) -> None:
        """Takes the states of opened data.

        Raises:
            DataError: If the data have none, or states of another width.
        """
        if table is None:
            raise DataError(Fault("data", "conflict", "The model reads states: type data=states data.test=FILE."))
        if table.width != self.out_dim:
            file = table.files[0]
            message = f"{file.key}={file.path} has states of width {table.width}, and the model reads {self.out_dim}."
            raise DataError(Fault(file.key, "conflict", message))
        self.table = table

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor, states_BLE: Tensor | None = None) -> Tensor:
        """Returns states_BLE; padding is all zeros.

        Args:
            tokens_BL: Places of the states.
            mask_BL: True at real tokens.
            states_BLE: The states, where they are looked up already.
        """
        if states_BLE is None:
            assert self.table is not None, "data are opened before a model of states reads them"
            states_BLE = self.table.look_up(tokens_BL.cpu().numpy()).to(tokens_BL.device)
        finished_BLE: Tensor = self.dropout(self.norm(states_BLE.to(self.one.dtype))) * mask_BL[..., None]
        return finished_BLE
