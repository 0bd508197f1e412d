"""The whole model's own settings."""

from __future__ import annotations

import pytest
import torch

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.errors import SettingError


def test_init_std_draws_all_weights_behind_the_embedding() -> None:
    torch.manual_seed(0)
    node = compose(["model=structured", "model.init_std=0.3", "model.head.width=50"])["model"]
    model = build_model(node, num_embeddings=100, classes=2)
    drawn = [p for part in (model.encoder, model.attention, model.head) for p in part.parameters() if p.dim() > 1]
    assert len(drawn) == 4 + 2 + 2
    for weights in drawn:
        assert weights.std().item() == pytest.approx(0.3, rel=0.15)
        assert weights.mean().item() == pytest.approx(0.0, abs=0.06)
    assert model.embedding.vectors.weight[2:].std().item() == pytest.approx(0.1, rel=0.05)
    assert all(not p.any() for p in model.encoder.parameters() if p.dim() == 1)


def test_init_std_is_a_positive_number() -> None:
    with pytest.raises(SettingError, match=r"model\.init_std must be a number > 0 or null"):
        compose(["model.init_std=0"])
