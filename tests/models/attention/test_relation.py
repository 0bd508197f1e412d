"""Attention over pairs against NumPy in float64, written from the formula with a loop over every pair."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.export import Dim, export
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sentattn.models.attention.base import Attended
from sentattn.models.attention.relation import Relation
from sentattn.models.attention.relation_pairs import BUDGET, Halves, Workspace, score

DIM, LENGTHS = 4, (5, 1, 3, 2)
LEGAL = pytest.mark.parametrize(
    ("score", "gate"), [("pairwise", "softmax"), ("pairwise", "sigmoid"), ("linear", "sigmoid"), ("none", "softmax")]
)
SELF_PAIRS = pytest.mark.parametrize("self_pairs", [True, False])
SLICES = pytest.mark.parametrize("budget", [1, 60, 2**20], ids=["a token", "some", "all"])
"""One first token is worked out at a time, some of a text or of two, or all at once."""
WINDOWS = pytest.mark.parametrize("window", [None, 1, 2, 8])


def make(**settings: Any) -> Relation:
    torch.manual_seed(3)
    module = Relation(dim=DIM, hidden=3, width=5, **settings).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def ragged(*lengths: int) -> Tensor:
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


def states(mask_BL: Tensor) -> Tensor:
    return torch.randn(*mask_BL.shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def reference(module: Relation, score: str, states_LD: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, weights of tokens and weights of pairs of one text."""
    w = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    n = len(states_LD)
    weights, values = np.zeros((n, n)), np.zeros(module.out_dim)
    size = module.window or n
    windows = [range(start, min(start + size, n)) for start in range(0, n, size)]
    counted = [(t, s) for w in windows for t in w for s in w if module.self_pairs or t != s or len(w) == 1]
    for t, s in counted:
        pair = np.concatenate([states_LD[t], states_LD[s]])
        z = 0.0
        if score == "linear":
            z = (w["score_pair.weight"] @ pair + w["score_pair.bias"])[0]
        elif score == "pairwise":
            z = w["score_out.weight"][0] @ np.tanh(w["score_pair.weight"] @ pair + w["score_pair.bias"])
        weights[t, s] = math.exp(z) if module.gate == "softmax" else 1 / (1 + math.exp(-math.tanh(z)))
    rows = weights / weights.sum(axis=1, keepdims=True)
    weights = rows / n if module.gate == "softmax" else weights / len(counted)
    for t, s in counted:
        pair = np.concatenate([states_LD[t], states_LD[s]])
        hidden = np.maximum(w["feature_pair.weight"] @ pair + w["feature_pair.bias"], 0)
        values += weights[t, s] * np.maximum(w["feature_out.weight"] @ hidden + w["feature_out.bias"], 0)
    return values, weights.sum(axis=0) / weights.sum(), rows


def assert_equals_reference(module: Relation, score: str) -> None:
    mask_BL = ragged(*LENGTHS)
    states_BLD = states(mask_BL)
    attended, pairs_BHLL = module(states_BLD, mask_BL), module.pairs(states_BLD, mask_BL)
    for row, n in enumerate(LENGTHS):
        values, weights, pairs = reference(module, score, states_BLD[row, :n].numpy())
        np.testing.assert_allclose(attended.values_BRD[row, 0].detach(), values, atol=1e-12)
        np.testing.assert_allclose(attended.weights_BRL[row, 0, :n].detach(), weights, atol=1e-12)
        np.testing.assert_allclose(pairs_BHLL[row, 0, :n, :n], pairs, atol=1e-12)
        assert pairs_BHLL[row].count_nonzero() <= n * n


@LEGAL
@SELF_PAIRS
@WINDOWS
@SLICES
def test_equals_the_formula(
    score: str, gate: str, self_pairs: bool, window: int | None, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGET, "cpu", budget)
    assert_equals_reference(make(score=score, gate=gate, self_pairs=self_pairs, window=window), score)


@LEGAL
@WINDOWS
def test_an_exported_graph_has_the_same_formula(
    score: str, gate: str, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert_equals_reference(make(score=score, gate=gate, window=window), score)


def test_a_compiled_model_reads_pairs_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.Module, "__init__", torch.nn.Module.__init__)  # which torch.compile replaces for good
    monkeypatch.setitem(BUDGET, "cpu", 60)
    sliced, slices = [], Halves.slices
    monkeypatch.setattr(Halves, "slices", lambda halves: sliced.append(len(list(slices(halves)))) or slices(halves))
    module, mask_BL = make(), ragged(*LENGTHS)
    attended = torch.compile(module, backend="eager", dynamic=True)(states(mask_BL), mask_BL)
    is_sliced = torch.__version__ >= "2.12"  # before, torch.compile says that it exports: all pairs at once
    assert [count > 1 for count in sliced] == [True] * is_sliced
    torch.testing.assert_close(attended, module(states(mask_BL), mask_BL))


@LEGAL
@SELF_PAIRS
@SLICES
def test_gradients_are_those_of_finite_differences(
    score: str, gate: str, self_pairs: bool, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGET, "cpu", budget)
    module, mask_BL = make(score=score, gate=gate, self_pairs=self_pairs), ragged(4, 1, 2)
    names = [name for name, _ in module.named_parameters()]

    def attend(states_BLD: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(names, parameters, strict=True))
        attended: Attended = torch.func.functional_call(module, named, (states_BLD, mask_BL))
        return attended.values_BRD, attended.weights_BRL

    inputs = (states(mask_BL).requires_grad_(), *module.parameters())
    assert torch.autograd.gradcheck(attend, inputs, fast_mode=True)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (2 * 100 * 32 + 32 + 32) + (2 * 100 * 50 + 50) + (50 * 50 + 50)),
        ({"score": "linear", "gate": "sigmoid"}, 201 + 10_050 + 2_550),
        ({"score": "none"}, 10_050 + 2_550),
    ],
)
def test_parameter_counts(settings: dict[str, str], expected: int) -> None:
    module = Relation(dim=100, hidden=32, width=50, **settings)  # type: ignore[arg-type]
    assert sum(parameter.numel() for parameter in module.parameters()) == expected


@pytest.mark.parametrize(("score", "gate"), [("linear", "softmax"), ("none", "sigmoid")])
def test_a_score_that_its_gate_cannot_use_is_refused(score: Any, gate: Any) -> None:
    with pytest.raises(ValueError, match=f"score={score} cannot go with gate={gate}"):
        Relation(dim=DIM, score=score, gate=gate)


@SLICES
def test_autocast_works_in_single_precision_in_both_passes(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGET, "cpu", budget)
    module, mask_BL = make().float(), ragged(5, 2)
    states_BLD = states(mask_BL).float()

    def gradients() -> tuple[Attended, list[Tensor]]:
        attended = module(states_BLD, mask_BL)
        loss = attended.values_BRD.sum() + attended.weights_BRL.square().sum()
        return attended, list(torch.autograd.grad(loss, list(module.parameters())))

    expected, expected_gradients = gradients()
    with torch.autocast("cpu", torch.bfloat16):
        attended, found_gradients = gradients()
    assert attended.weights_BRL.dtype == torch.float32
    torch.testing.assert_close(attended.values_BRD, expected.values_BRD, rtol=0.05, atol=0.05)
    for found, gradient in zip(found_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, gradient, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0])
def test_scores_in_single_precision_are_as_exact_as_with_a_tanh(scale: float) -> None:
    first_BTA, second_BLA, v_A = (
        torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        for seed, shape in enumerate([(2, 7, 32)] * 2 + [32])
    )
    first_BTA, second_BLA = scale * first_BTA, scale * second_BLA
    _, found_BTL = score(Halves(first_BTA, second_BLA, v_A, first_BTA, second_BLA, torch.eye(32), v_A), Workspace())
    pairs = first_BTA.numpy()[:, :, None].astype(np.float64) + second_BLA.numpy()[:, None]
    expected = np.tanh(pairs) @ v_A.numpy().astype(np.float64)
    largest = 2 * np.finfo(np.float32).eps * float(v_A.abs().sum())
    np.testing.assert_allclose(found_BTL.numpy(), expected, rtol=0, atol=largest)


class Peak(TorchDispatchMode):
    """Counts the bytes of all tensors alive at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.alive:
                    weakref.finalize(storage, self.alive.pop, storage._cdata, None)
                self.alive[storage._cdata] = storage.nbytes()
        self.bytes = max(self.bytes, sum(self.alive.values()))
        return result


def peak(module: Relation, length: int) -> int:
    """Bytes at the peak of a forward and backward pass of one text."""
    mask_BL = torch.ones(1, length, dtype=torch.bool)
    states_BLD = torch.randn(1, length, DIM, requires_grad=True)
    with Peak() as counter:
        attended = module(states_BLD, mask_BL)
        (attended.values_BRD.sum() + attended.weights_BRL.square().sum()).backward()
    return counter.bytes


def test_memory_grows_with_the_length_and_not_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Relation(dim=DIM, hidden=8, width=8)
    monkeypatch.setitem(BUDGET, "cpu", 2**11)
    assert peak(module, 128) < 4 * peak(module, 32)
    monkeypatch.setitem(BUDGET, "cpu", 2**30)
    assert peak(module, 128) > 12 * peak(module, 32), "without slices the count must show the square"


@pytest.mark.slow
@LEGAL
@SELF_PAIRS
@pytest.mark.parametrize("window", [None, 4])
def test_exports_with_a_length_that_may_change(score: str, gate: str, self_pairs: bool, window: int | None) -> None:
    module = make(score=score, gate=gate, self_pairs=self_pairs, window=window).eval()
    traced_BL, mask_BL = ragged(5, 2), ragged(9, 1)
    free = {0: Dim("texts"), 1: Dim("tokens")}
    program = export(module, (states(traced_BL), traced_BL), dynamic_shapes=(free, free), strict=False)
    found, expected = program.module()(states(mask_BL), mask_BL), module(states(mask_BL), mask_BL)
    torch.testing.assert_close(found[0], expected.values_BRD)
    torch.testing.assert_close(found[1], expected.weights_BRL)
