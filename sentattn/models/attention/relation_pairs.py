"""A weighted sum over all pairs of tokens that never holds all pairs at once.

A dense layer on the pair [x_t; x_s] is the sum of two layers on single tokens, so no pair is ever concatenated. What
follows that sum is computed for a slice of the pairs at a time, and once more in the backward pass: memory grows with
the length, not with its square. The backward pass is written out so that one slice after another can use the same
memory; automatic differentiation of recomputed slices takes a quarter more time.

Letters of shapes: T first tokens of a slice, L second tokens, A width of the scores' layer, F of the features'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Weigh = Callable[[Tensor, Tensor, slice], Tensor]
"""scores_BTL, mask_BL, which first tokens those are -> weights_BTL, exactly 0 where a pair does not count."""

BUDGET = {"cpu": 2**20, "cuda": 2**26}
"""Numbers in a tensor of one slice: few enough for a CPU's cache, enough to keep a GPU busy."""


class PairLinear(nn.Linear):
    """A dense layer on the pair [x_t; x_s] of two tokens, in two halves that add up to it."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__(2 * dim, width)

    def halves(self, states_BLD: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what each token adds as the first of a pair, with the bias, and as the second."""
        first, second = self.weight.chunk(2, dim=1)
        return nn.functional.linear(states_BLD, first, self.bias), nn.functional.linear(states_BLD, second)


class Halves(NamedTuple):
    """The tensors from which all pairs are computed, and also their gradients.

    The score of a pair is v . tanh(first + second), or first + second without v. Its features are
    relu(weight relu(first + second) + bias).
    """

    score_first_BLA: Tensor
    score_second_BLA: Tensor
    v_A: Tensor | None
    feature_first_BLF: Tensor
    feature_second_BLF: Tensor
    weight_FF: Tensor
    bias_F: Tensor

    def slices(self) -> Iterator[tuple[slice, slice]]:
        """Yields slices of texts, and of first tokens in them, that are computed at once."""
        batch, length, features = self.feature_first_BLF.shape
        numbers = BUDGET.get(self.weight_FF.device.type, BUDGET["cuda"])
        most = max(1, numbers // (length * max(features, self.score_first_BLA.shape[2])))
        texts = max(1, most // length)
        rows = math.ceil(length / math.ceil(length / most))  # of about the same size
        for text in range(0, batch, texts):
            for first in range(0, length, rows):
                yield slice(text, text + texts), slice(first, first + rows)

    def cut(self, texts: slice, firsts: slice) -> Halves:
        """Returns a view of one slice."""
        return self._replace(
            score_first_BLA=self.score_first_BLA[texts, firsts],
            score_second_BLA=self.score_second_BLA[texts],
            feature_first_BLF=self.feature_first_BLF[texts, firsts],
            feature_second_BLF=self.feature_second_BLF[texts],
        )


class Workspace(NamedTuple):
    """Buffers that all slices share; None allocates new memory for each."""

    layer: Tensor | None = None
    hidden: Tensor | None = None
    features: Tensor | None = None
    below: Tensor | None = None

    @classmethod
    def like(cls, tensor: Tensor) -> Workspace:
        """Returns buffers of a tensor's type and device; the first slice sets their size."""
        return cls(*(tensor.new_empty(0) for _ in cls._fields))


class PairSum(torch.autograd.Function):
    """Sums the features of all pairs by their weights, slice by slice."""

    @staticmethod
    def forward(ctx: Any, weigh: Weigh, mask_BL: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        ctx.weigh = weigh
        ctx.save_for_backward(mask_BL, *tensors)
        halves = Halves(*tensors)
        values_BF = torch.zeros_like(halves.feature_first_BLF[:, 0])
        reads_BL = torch.zeros_like(halves.score_first_BLA[..., 0])
        workspace = Workspace.like(values_BF)
        with torch.autocast(mask_BL.device.type, enabled=False):
            for texts, firsts in halves.slices():
                values, reads = _read(weigh, mask_BL[texts], firsts, halves.cut(texts, firsts), workspace)
                values_BF[texts].add_(values)
                reads_BL[texts].add_(reads)
        return values_BF, reads_BL

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dvalues_BF: Tensor, dreads_BL: Tensor) -> tuple[Tensor | None, ...]:
        mask_BL, *tensors = ctx.saved_tensors
        halves = Halves(*tensors)
        gradients = Halves._make(None if tensor is None else torch.zeros_like(tensor) for tensor in tensors)
        workspace = Workspace.like(dvalues_BF)
        with torch.autocast(mask_BL.device.type, enabled=False):
            for texts, firsts in halves.slices():
                chunk, grads = halves.cut(texts, firsts), gradients.cut(texts, firsts)
                layer_BTLA, scores_BTL = score(chunk, workspace)
                with torch.enable_grad():
                    weights_BTL = ctx.weigh(scores_BTL.requires_grad_(), mask_BL[texts], firsts)
                dweights_BTL = _feature_gradients(chunk, grads, weights_BTL.detach(), dvalues_BF[texts], workspace)
                dweights_BTL += dreads_BL[texts, None]
                (dscores_BTL,) = torch.autograd.grad(weights_BTL, scores_BTL, dweights_BTL)
                _score_gradients(chunk, grads, layer_BTLA, dscores_BTL)
        return None, None, *gradients


def sum_pairs(weigh: Weigh, mask_BL: Tensor, halves: Halves) -> tuple[Tensor, Tensor]:
    """Returns the sum of all pairs' weights x features, values_BF, and each token's weights as the second, reads_BL."""
    if torch.compiler.is_exporting():  # the number of slices would fix the length in an exported graph
        return _read(weigh, mask_BL, slice(None), halves, Workspace())
    apply: Callable[..., tuple[Tensor, Tensor]] = PairSum.apply
    if torch.compiler.is_compiling():  # each slice would be a graph of its own
        apply = torch.compiler.disable(apply)  # type: ignore[no-untyped-call]
    return apply(weigh, mask_BL, *halves)


def score(chunk: Halves, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """Returns half the scores' layer of a slice, (B, T, L, A), the whole one without v, and scores_BTL.

    A tanh is taken from the sigmoid, tanh(x) / 2 = sigmoid(2 x) - 1/2, which a CPU computes several times as fast.
    """
    if chunk.v_A is None:
        layer_BTLA = _add(chunk.score_first_BLA, chunk.score_second_BLA, workspace.layer)
        return layer_BTLA, layer_BTLA.squeeze(3)
    sigmoid_BTLA = _add(2 * chunk.score_first_BLA, 2 * chunk.score_second_BLA, workspace.layer).sigmoid_()
    layer_BTLA = torch.sub(sigmoid_BTLA, 0.5, out=workspace.layer)  # the gradient needs the sigmoid without a workspace
    return layer_BTLA, layer_BTLA @ (2 * chunk.v_A)


def _read(weigh: Weigh, mask_BL: Tensor, firsts: slice, chunk: Halves, workspace: Workspace) -> tuple[Tensor, Tensor]:
    weights_BTL = weigh(score(chunk, workspace)[1], mask_BL, firsts)
    _, features_BTLF = _features(chunk, workspace)
    values_B1F = weights_BTL.flatten(1)[:, None] @ features_BTLF.flatten(1, 2)
    return values_B1F[:, 0], weights_BTL.sum(1)


def _features(chunk: Halves, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """Returns the hidden layer of the features and the features, (B, T, L, F) both."""
    hidden_BTLF = _add(chunk.feature_first_BLF, chunk.feature_second_BLF, workspace.hidden).relu_()
    return hidden_BTLF, _dense(hidden_BTLF, chunk.weight_FF.t(), workspace.features, chunk.bias_F).relu_()


def _feature_gradients(
    chunk: Halves, grads: Halves, weights_BTL: Tensor, dvalues_BF: Tensor, workspace: Workspace
) -> Tensor:
    """Adds the gradients through the features; returns the gradient of the weights."""
    hidden_BTLF, features_BTLF = _features(chunk, workspace)
    dweights_BTL = (features_BTLF.flatten(1, 2) @ dvalues_BF[..., None]).view_as(weights_BTL)
    slopes_BTLF = features_BTLF.gt_(0).mul_(dvalues_BF[:, None, None]).mul_(weights_BTL[..., None])
    grads.weight_FF.addmm_(slopes_BTLF.flatten(0, 2).t(), hidden_BTLF.flatten(0, 2))
    grads.bias_F.add_(slopes_BTLF.sum(dim=(0, 1, 2)))
    below_BTLF = _dense(slopes_BTLF, chunk.weight_FF, workspace.below).mul_(hidden_BTLF.gt_(0))
    grads.feature_first_BLF.add_(below_BTLF.sum(2))
    grads.feature_second_BLF.add_(below_BTLF.sum(1))
    return dweights_BTL


def _score_gradients(chunk: Halves, grads: Halves, layer_BTLA: Tensor, dscores_BTL: Tensor) -> None:
    """Adds the gradients through the scores."""
    first_BT1, second_BL1 = dscores_BTL.sum(2)[..., None], dscores_BTL.sum(1)[..., None]
    if chunk.v_A is None or grads.v_A is None:
        grads.score_first_BLA.add_(first_BT1)
        grads.score_second_BLA.add_(second_BL1)
        return
    grads.v_A.addmv_(layer_BTLA.flatten(0, 2).t(), dscores_BTL.flatten(), alpha=2)
    slopes_BTLA = layer_BTLA.square_().mul_(dscores_BTL[..., None])  # tanh' = 1 - tanh^2 = 1 - 4 (tanh / 2)^2
    grads.score_first_BLA.addcmul_(first_BT1 - 4 * slopes_BTLA.sum(2), chunk.v_A)
    grads.score_second_BLA.addcmul_(second_BL1 - 4 * slopes_BTLA.sum(1), chunk.v_A)


def _add(first_BTF: Tensor, second_BLF: Tensor, buffer: Tensor | None) -> Tensor:
    """Returns the sums of all pairs, (B, T, L, F)."""
    out = None if buffer is None else buffer.resize_(*first_BTF.shape[:2], *second_BLF.shape[1:])
    return torch.add(first_BTF[:, :, None], second_BLF[:, None], out=out)


def _dense(pairs_BTLF: Tensor, weight_FF: Tensor, buffer: Tensor | None, bias_F: Tensor | None = None) -> Tensor:
    out, rows = None if buffer is None else buffer.resize_(pairs_BTLF.shape).flatten(0, 2), pairs_BTLF.flatten(0, 2)
    if bias_F is None:
        return torch.mm(rows, weight_FF, out=out).view_as(pairs_BTLF)
    return torch.addmm(bias_F, rows, weight_FF, out=out).view_as(pairs_BTLF)
