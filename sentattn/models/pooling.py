"""Poolings: the matrix of hops to one vector."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from sentattn.kinds import Count, checked


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
    """All hops side by side, P = R D (Lin et al. 2017).

    Args:
        dim: Width D of the values.
        hops: Number of hops R.

    Raises:
        SettingError: If an argument is out of range.
    """

    @checked
    def __init__(self, *, dim: Count, hops: Count) -> None:
        super().__init__()
        self.out_dim = hops * dim

    def forward(self, values_BRD: Tensor) -> Tensor:
        """Returns the rows one after another."""
        return values_BRD.flatten(1)


class Mean(Pooling):
    """The mean over the hops, P = D.

    Args:
        dim: Width D of the values.
        hops: Number of hops R.

    Raises:
        SettingError: If an argument is out of range.
    """

    @checked
    def __init__(self, *, dim: Count, hops: Count) -> None:
        super().__init__()
        self.out_dim = dim

    def forward(self, values_BRD: Tensor) -> Tensor:
        """Returns the mean of the rows."""
        return values_BRD.mean(dim=1)
