"""Queries with several heads: pooling by multihead attention (Lee et al. 2019, Set Transformer)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention, Normalizer, masked_softmax, weighted_sum


class Query(Attention):
    """R queries read the states x_t, each by H heads of d = D / H channels.

    Head i of query r weighs a_ri = softmax over the real tokens of q_ri . (K_i x_t) / sqrt(d), and the value is
    O [sum_t a_r1t V_1 x_t; ...; sum_t a_rHt V_H x_t] + o: the multihead attention (equations 3 and 4) of the learned
    queries in equation 11, without the residual and the networks around it, as in CoCa (Yu et al. 2022). A token weighs
    the mean of a_rit over the heads.

    Otherwise the only query is Q x + p of one vector x: the state of the first token, as that of [CLS] in the last
    layer of a transformer, the mean of the states (Psomas et al. 2023, SimPool), or the state of the last token, which
    in a decoder has read the text (as in AdaPool, arXiv 2506.09215). What changes nothing is left out: a projection of
    learned queries, and biases of keys and values. Parameters: R D + 3 D^2 + D with learned queries, else 4 D^2 + 2 D.

    Args:
        hops: Number R of learned queries, rows of the attention matrix.
        heads: Number H of heads; it divides the width D of the states.
        query_from: Whether queries are parameters (`learned`), or one is made of the state of the `first` or the `last`
            token, or of the `mean` of the states.
        normalizer: What makes weights of scores: `softmax`; `sparsemax` and `entmax15` give weights of exactly 0.

    Raises:
        ValueError: If the heads do not divide D.
    """

    queries_RD: nn.Parameter
    query: nn.Linear | None

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        hops: Count = 1,
        heads: Count = 4,
        query_from: Literal["learned", "first", "mean", "last"] = "learned",
        normalizer: Normalizer = "softmax",
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"heads must divide the width {dim} of the states, got {heads}")
        self.out_dim, self.hops, self.heads, self.query_from = dim, hops, heads, query_from
        self.normalizer = normalizer
        if query_from == "learned":
            self.query, self.queries_RD = None, nn.Parameter(torch.randn(hops, dim))
        else:
            self.hops, self.query = 1, nn.Linear(dim, dim)
        self.key, self.value = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.output = nn.Linear(dim, dim)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif name.endswith("weight"):
                nn.init.xavier_uniform_(parameter)

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns values_BRD, and the mean of the heads' weights.

        Keys and values of tokens are never computed: q . (K x_t) = (K^T q) . x_t and sum_t a_t V x_t = V sum_t a_t x_t,
        so that the time for each token grows with D and not with its square.
        """
        queries_BRD = self.queries_RD[None] if self.query is None else self.query(self._source(states_BLD, mask_BL))
        split = (self.heads, -1)
        queries_BHRd = torch.unflatten(queries_BRD, 2, split).transpose(1, 2)
        key_HdD, value_HdD = (torch.unflatten(layer.weight, 0, split) for layer in (self.key, self.value))
        scoring_BHRD = torch.einsum("bhrd,hdD->bhrD", queries_BHRd, key_HdD) / queries_BHRd.shape[3] ** 0.5
        scoring_BSD = scoring_BHRD.flatten(1, 2)  # S = H R rows
        weights_BSL = masked_softmax(scoring_BSD @ states_BLD.transpose(1, 2), mask_BL, self.normalizer)
        means_BHRD = torch.unflatten(weighted_sum(weights_BSL, states_BLD), 1, split)
        heads_BHRd = torch.einsum("bhrD,hdD->bhrd", means_BHRD, value_HdD)  # `@` would copy V for each text
        values_BRD = self.output(heads_BHRd.transpose(1, 2).flatten(2))
        return Attended(values_BRD, torch.unflatten(weights_BSL, 1, split).mean(dim=1))

    def _source(self, states_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the vector that the query is made of, (B, 1, D)."""
        if self.query_from == "first":
            return states_BLD[:, :1]
        lengths_B1 = mask_BL.sum(dim=1, keepdim=True)
        if self.query_from == "mean":
            return weighted_sum((mask_BL / lengths_B1.clamp_min(1))[:, None], states_BLD)
        return states_BLD.take_along_dim((lengths_B1 - 1).clamp_min(0)[..., None], dim=1)

    def scoring_parameters(self) -> Iterator[nn.Parameter]:
        """Yields those of queries and keys; values and the output layer do not score."""
        return (parameter for name, parameter in self.named_parameters() if name.startswith(("quer", "key")))
