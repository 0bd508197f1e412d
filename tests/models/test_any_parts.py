"""Any encoder with any attention with any pooling, found by globbing."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.config.groups import Choices

CHOICES = Choices.of()
SLOTS = ("encoder", "attention", "pooling")
COMBINATIONS = list(product(*(CHOICES.names(f"model/{slot}") for slot in SLOTS)))


@pytest.fixture(scope="module")
def base() -> dict[str, Any]:
    settings: dict[str, Any] = compose(["model=mean"])["model"]
    return settings


@pytest.mark.parametrize("names", COMBINATIONS, ids="-".join)
def test_parts_fit_and_ignore_padding(base: dict[str, Any], names: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    parts = {slot: dict(CHOICES.node(f"model/{slot}", name)) for slot, name in zip(SLOTS, names, strict=True)}
    needed = {"p": 3, "q": 2} if names[-1] == "prune" else {}
    node = base | parts | {"pooling": parts["pooling"] | needed}
    model = build_model(node, num_embeddings=9, classes=3).double().eval()
    tokens_BL = torch.tensor([[2, 3, 4, 5, 6], [7, 8, 0, 0, 0]])
    logits_BC = model(tokens_BL, tokens_BL != 0).logits_BC
    alone_BC = model(tokens_BL[1:, :2], tokens_BL[1:, :2] != 0).logits_BC
    assert logits_BC.shape == (2, 3)
    torch.testing.assert_close(logits_BC[1:], alone_BC)
