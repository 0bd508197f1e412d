import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from sentattn.models.dropout import LEVELS, Dropout, random_bytes

N = 400_000


def dropped(p: float, shape: tuple[int, ...] = (N,), seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(seed)
    return Dropout(p)(torch.ones(shape, dtype=dtype))


@pytest.mark.parametrize("p", [1 / 16, 0.1, 0.3, 0.5, 0.9, 15 / 16])
def test_share_and_expected_value(p: float) -> None:
    states = dropped(p)
    share = round(p * LEVELS) / LEVELS
    assert set(states.unique().tolist()) == {0.0, torch.tensor(1 / (1 - share)).item()}
    assert abs(share - p) <= 0.5 / LEVELS
    # Four standard errors of a binomial share
    assert (states == 0).double().mean().item() == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / N))


@pytest.mark.parametrize("p", [0.0, 0.01, 0.99, 1.0])
def test_shares_outside_256_levels_use_torch(p: float) -> None:
    states = dropped(p)
    torch.manual_seed(0)
    assert states.equal(torch.nn.functional.dropout(torch.ones(N), p))


def test_bytes_are_uniform_and_independent_of_their_neighbours() -> None:
    torch.manual_seed(0)
    values = random_bytes(torch.Size([1000, 801])).flatten().long()
    assert stats.chisquare(values.bincount(minlength=256)).pvalue > 1e-3
    for lag in (1, 7, 8, 801):  # neighbours, across the words of eight bytes, across rows
        pairs = values[:-lag] // 16 * 16 + values[lag:] // 16
        assert stats.chisquare(pairs.bincount(minlength=256)).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 5, 11)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_dtype_are_kept(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    states = dropped(0.5, shape, dtype=dtype)
    assert (states.shape, states.dtype) == (shape, dtype)
    assert set(states.flatten().tolist()) <= {0.0, 2.0}


def test_gradient_is_the_mask() -> None:
    torch.manual_seed(0)
    states = torch.randn(50, 30, requires_grad=True)
    after = Dropout(0.3)(states)
    after.sum().backward()
    assert states.grad is not None
    torch.testing.assert_close(after, states.detach() * states.grad)


def test_same_generator_state_same_mask() -> None:
    assert dropped(0.5, seed=3).equal(dropped(0.5, seed=3))
    assert not dropped(0.5, seed=3).equal(dropped(0.5, seed=4))
    torch.manual_seed(0)
    assert not torch.equal(Dropout(0.5)(torch.ones(N)), Dropout(0.5)(torch.ones(N)))


def test_nothing_is_dropped_in_evaluation() -> None:
    states = torch.randn(20, 30)
    assert Dropout(0.5).eval()(states).equal(states)
