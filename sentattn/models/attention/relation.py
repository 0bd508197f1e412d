"""Attention over pairs of tokens (Kim 2018, after the relation networks of Santoro et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention
from sentattn.models.attention.relation_pairs import Halves, PairLinear, Workspace, score, sum_pairs


class Relation(Attention):
    """Reads features of pairs of tokens; each token t weighs the tokens s it is paired with.

    z_ts = v . tanh(W1 x_t + W2 x_s + c) with a hidden layer of width A, a_t. = softmax of z_t. over the real tokens s,
    f(x_t, x_s) = relu(G2 relu(G1 [x_t; x_s] + c1) + c2) of width F, and the value is the mean over the real t of
    sum_s a_ts f(x_t, x_s), R = 1. A token weighs the mean over the real t of a_ts: how much it is read as the second
    of a pair. Parameters: (2 D A + A + A) + (2 D F + F) + (F F + F).

    The post scores a pair by one linear layer, z_ts = u . [x_t; x_s] + c, 2 D + 1 parameters. A softmax over s cannot
    see its half for t, but the post's gate can: f is multiplied by g_ts = sigmoid(tanh(z_ts)), summed over all pairs
    and divided by their number. The weight of a token is then its share of all gates, sum_t g_ts / sum_ts g_ts, and
    `pairs` shows each row of gates divided by its sum.

    Args:
        hidden: Width A of the hidden layer of `score=pairwise`.
        width: Width F of both layers of f, and so of the value.
        score: How a pair is scored: `pairwise` as above, `linear` as in the post, or `none` for the
            same weight for all (a_ts = 1/n), which is a relation network without attention.
        gate: What makes weights of scores: `softmax` or the post's `sigmoid`.
        self_pairs: Whether a token is paired with itself. Without, n (n - 1) pairs count instead of
            n^2; a text of one token keeps its pair.
        window: Number of tokens of a window. Only tokens of the same window are paired, as in the local attention of
            Liu et al. (2018, Generating Wikipedia by Summarizing Long Sequences), so that time grows with the length
            and not with its square, except in an exported graph. None pairs all tokens of a text.
    """

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        hidden: Count = 32,
        width: Count = 32,
        score: Literal["pairwise", "linear", "none"] = "pairwise",
        gate: Literal["softmax", "sigmoid"] = "softmax",
        self_pairs: bool = True,
        window: Count | None = None,
    ) -> None:
        super().__init__()
        if (score, gate) in (("linear", "softmax"), ("none", "sigmoid")):
            raise ValueError(
                f"score={score} cannot go with gate={gate}: score=pairwise goes with both gates, linear with"
                " sigmoid (a softmax cancels the first token's half), none with softmax"
            )
        self.out_dim, self.hops = width, 1
        self.gate = gate
        self.self_pairs = self_pairs
        self.window = window
        self.score_pair = None if score == "none" else PairLinear(dim, 1 if score == "linear" else hidden)
        self.score_out = nn.Linear(hidden, 1, bias=False) if score == "pairwise" else None
        self.feature_pair = PairLinear(dim, width)
        self.feature_out = nn.Linear(width, width)
        for name, parameter in self.named_parameters():  # Glorot for the scores, He for the relu layers, no bias
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif name.startswith("score"):
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.kaiming_uniform_(parameter, nonlinearity="relu")

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns values_BRD of the features' width, with R = 1."""
        (texts, length), mask_NW = mask_BL.shape, self._windows(mask_BL)
        sums_NF, reads_NW = sum_pairs(self._weigh, mask_NW, self._halves(self._windows(states_BLD)))
        sums_BF, counts_B1 = (x.reshape(texts, -1, x.shape[1]).sum(1) for x in (sums_NF, self._counts(mask_NW)))
        reads_BL = reads_NW.reshape(texts, -1)[:, :length]
        weights_BL = reads_BL / reads_BL.sum(dim=1, keepdim=True)
        return Attended((sums_BF / counts_B1)[:, None].to(states_BLD.dtype), weights_BL[:, None])

    def scoring_parameters(self) -> Iterator[nn.Parameter]:
        """Yields those of the score of a pair; the features are values."""
        return (parameter for name, parameter in self.named_parameters() if name.startswith("score"))

    @torch.no_grad()
    def pairs(self, states_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the weights a_ts of each t, or its gates divided by their sum, (B, 1, L, L)."""
        halves = self._halves(states_BLD)
        pairs_BLL = halves.score_first_BLA.new_zeros(*mask_BL.shape, mask_BL.shape[1])
        workspace = Workspace.like(pairs_BLL)
        for texts, firsts in halves.slices():
            _, scores_BTL = score(halves.cut(texts, firsts), workspace)
            pairs_BLL[texts, firsts] = self._weigh(scores_BTL, mask_BL[texts], firsts)
        sums_BL1 = pairs_BLL.sum(dim=2, keepdim=True)
        return (pairs_BLL / sums_BL1.masked_fill(sums_BL1 == 0, 1.0))[:, None]

    def _windows(self, tensor_BL: Tensor) -> Tensor:
        """Returns the windows of all texts, (N, W) for (B, L), the last one padded.

        An exported graph keeps whole texts, since its number of windows would fix their length.
        """
        if self.window is None or torch.compiler.is_exporting():
            return tensor_BL
        padded_BL = nn.functional.pad(tensor_BL, (0, 0) * (tensor_BL.dim() - 2) + (0, self.window - 1))
        return padded_BL.unfold(1, self.window, self.window).movedim(-1, 2).flatten(0, 1)

    def _halves(self, states_BLD: Tensor) -> Halves:
        """What each token adds to its pairs, in single precision or better: thousands of pairs are summed."""
        feature_first, feature_second = self.feature_pair.halves(states_BLD)
        if self.score_pair is None:
            score_first = score_second = torch.zeros_like(feature_first[..., :1])
        else:
            score_first, score_second = self.score_pair.halves(states_BLD)
        v_A = None if self.score_out is None else self.score_out.weight[0]
        features = (feature_first, feature_second, self.feature_out.weight, self.feature_out.bias)
        halves = (score_first, score_second, v_A, *features)
        return Halves._make(x if x is None or x.dtype == torch.float64 else x.float() for x in halves)

    def _weigh(self, scores_BTL: Tensor, mask_BL: Tensor, firsts: slice) -> Tensor:
        """Weights of the pairs of some first tokens; exactly 0 where a pair does not count."""
        excluded_BTL = ~self._counted(mask_BL, firsts)
        if self.gate == "sigmoid":
            return scores_BTL.tanh().sigmoid().masked_fill(excluded_BTL, 0.0)
        # Every real token keeps a pair, so that a softmax makes exactly 0 of the smallest number.
        scores_BTL = scores_BTL.masked_fill(excluded_BTL, torch.finfo(scores_BTL.dtype).min)
        return scores_BTL.softmax(dim=2).masked_fill(excluded_BTL, 0.0)

    def _counted(self, mask_BL: Tensor, firsts: slice) -> Tensor:
        """Which pairs of some first tokens count, (B, T, L)."""
        counted_BTL = mask_BL[:, firsts, None] & mask_BL[:, None]
        positions_L = torch.arange(mask_BL.shape[1], device=mask_BL.device)
        if self.window is not None:
            counted_BTL = counted_BTL & (positions_L[firsts, None] // self.window == positions_L // self.window)
        if not self.self_pairs:
            alone_BT1 = counted_BTL.sum(dim=2, keepdim=True) == 1
            counted_BTL = counted_BTL & (alone_BT1 | (positions_L[firsts, None] != positions_L))
        return counted_BTL

    def _counts(self, mask_BL: Tensor) -> Tensor:
        """What the sum over pairs is divided by, (B, 1): first tokens, or with a gate pairs."""
        if self.gate == "softmax":
            return mask_BL.sum(dim=1, keepdim=True)
        return self._counted(mask_BL, slice(None)).sum(dim=(1, 2))[:, None]
