"""The whole model's own settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pytorch_lightning import seed_everything
from refusals import refused
from tiny import tiny

from sentattn import fit
from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.models.attention.base import Attended, Attention


def test_init_std_draws_all_weights_after_the_embedding() -> None:
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


@pytest.mark.parametrize(
    "choices",
    [
        ["model=mean"],
        ["model=relation_plain"],
        ["model/attention=statistics", "model.attention.weights=uniform"],
    ],
)
def test_freezing_is_refused_where_the_attention_has_nothing_to_learn(choices: list[str]) -> None:
    node = compose([*choices, "model.freeze_attention=true"])["model"]
    assert refused(lambda: build_model(node, num_embeddings=9, classes=2)) == [("model", "conflict")]


def test_a_frozen_attention_has_frozen_scores() -> None:
    for variant, learned in (
        ("model=structured", set()),
        ("model=relation", {"feature_pair", "feature_out"}),
        ("model/attention=latent", {"network"}),
    ):
        node = compose([variant, "model.freeze_attention=true"])["model"]
        model = build_model(node, num_embeddings=100, classes=2)
        parts = {name.partition(".")[0] for name, p in model.attention.named_parameters() if p.requires_grad}
        assert parts == learned
        assert any(not p.requires_grad for p in model.attention.parameters())
        others = (model.embedding, model.encoder, model.head)
        assert all(p.requires_grad for part in others for p in part.parameters())


def test_a_training_leaves_a_frozen_attention_unchanged(tmp_path: Path) -> None:
    settings = tiny("model.freeze_attention=true", "trainer.max_epochs=1", f"output_dir={tmp_path}")
    run = fit(settings)
    frozen = run.classifier.model.attention.state_dict()
    seed_everything(0)
    started = build_model(compose(settings)["model"], num_embeddings=len(run.classifier.tokenizer), classes=2)
    for name, values in started.attention.state_dict().items():
        assert torch.equal(frozen[name], values)
    assert run.result["parameters"]["trainable"] < run.result["parameters"]["total"]


class Parameterless(Attention):
    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, 1

    def forward(self, states_BLD: torch.Tensor, mask_BL: torch.Tensor) -> Attended:
        raise NotImplementedError


class OneVector(Parameterless):
    def __init__(self, *, dim: int) -> None:
        super().__init__(dim=dim)
        self.query = torch.nn.Parameter(torch.ones(dim))


def test_an_attention_of_another_package_can_be_frozen() -> None:
    node = compose(["model=structured"])["model"] | {"freeze_attention": True}
    model = build_model(node | {"attention": {"_target_": f"{__name__}.OneVector"}}, num_embeddings=9, classes=2)
    assert not model.attention.query.requires_grad
    assert refused(
        lambda: build_model(
            node | {"attention": {"_target_": f"{__name__}.Parameterless"}}, num_embeddings=9, classes=2
        )
    ) == [("model", "conflict")]
