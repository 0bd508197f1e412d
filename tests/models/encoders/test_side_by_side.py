"""Two modules at the same time against one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from sentattn.models.encoders.side_by_side import SideBySide, side_by_side


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def pair() -> tuple[list[nn.LSTM], list[Tensor]]:
    torch.manual_seed(0)
    return [nn.LSTM(5, 6, batch_first=True) for _ in range(2)], [torch.randn(3, 7, 5) for _ in range(2)]


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("frozen", ["", "input", "weight"])
def test_equals_one_after_the_other(bfloat16: bool, frozen: str) -> None:
    modules, inputs = pair()
    for states in inputs:
        states.requires_grad_(frozen != "input")
    modules[1].weight_hh_l0.requires_grad_(frozen != "weight")
    sources = [*inputs, *modules[0].parameters(), *modules[1].parameters()]
    results = []
    for at_once in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            in_turn = modules[0](inputs[0])[0], modules[1](inputs[1])[0]
            outputs = side_by_side(modules, inputs) if at_once else in_turn
        assert (type(outputs[0].grad_fn).__name__ == f"{SideBySide.__name__}Backward") == at_once
        wanted = [source for source in sources if source.requires_grad]
        loss = outputs[0].float().square().sum() + outputs[1].float().pow(3).sum()
        results.append([*outputs, *torch.autograd.grad(loss, wanted)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: type[torch.no_grad]) -> None:
    modules, inputs = pair()
    with mode():
        inputs = [2 * states for states in inputs]
        outputs = side_by_side(modules, inputs)
        assert not outputs[0].requires_grad
        for output, module, states in zip(outputs, modules, inputs, strict=True):
            torch.testing.assert_close(output, module(states)[0])


def test_an_error_in_a_thread_is_raised() -> None:
    modules, inputs = pair()
    with pytest.raises(RuntimeError, match=r"input\.size"):
        side_by_side(modules, [inputs[0], inputs[1][..., :4]])
