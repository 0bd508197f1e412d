"""Poolings: the matrix of hops to one vector."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked


class Pooling(nn.Module, ABC):
    """Turns values_BRD into vector_BP.

    Attributes:
        out_dim: Width P of the vector.
    """

    out_dim: int

    @abstractmethod
    def forward(self, values_BRD: Tensor) -> Tensor:
        """Returns vector_BP."""


class Flatten(Pooling):
    """All hops side by side, P = R D (Lin et al. 2017)."""

    @checked
    def __init__(self, *, dim: Count, hops: Count) -> None:
        super().__init__()
        self.out_dim = hops * dim

    def forward(self, values_BRD: Tensor) -> Tensor:
        """Returns the rows one after another."""
        return values_BRD.flatten(1)


class Mean(Pooling):
    """The mean over the hops, P = D."""

    @checked
    def __init__(self, *, dim: Count, hops: Count) -> None:
        super().__init__()
        self.out_dim = dim

    def forward(self, values_BRD: Tensor) -> Tensor:
        """Returns the mean of the rows."""
        return values_BRD.mean(dim=1)


class Prune(Pooling):
    """A small layer on each hop and one on each channel, P = R p + D q (Lin et al. 2017, appendix A).

    P = tanh(M Wp + bp), shared by all rows of M, and Q = tanh(M^T Wq + bq), shared by all columns. The tanh and the
    biases are the Gluon tutorial's.

    Args:
        p: Units for each hop.
        q: Units for each channel.
    """

    @checked
    def __init__(self, *, dim: Count, hops: Count, p: Count, q: Count) -> None:
        super().__init__()
        self.out_dim = hops * p + dim * q
        self.rows = nn.Linear(dim, p)
        self.columns = nn.Linear(hops, q)

    def forward(self, values_BRD: Tensor) -> Tensor:
        """Returns both results side by side."""
        rows_BRp = torch.tanh(self.rows(values_BRD))
        columns_BDq = torch.tanh(self.columns(values_BRD.transpose(1, 2)))
        return torch.cat([rows_BRp.flatten(1), columns_BDq.flatten(1)], dim=1)
