"""Weight decay reaches the parameters that it is for, and no others."""

from __future__ import annotations

import torch

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.models.classifier import TextClassifier
from sentattn.training.trainer import build_optimizer, parameter_groups


def model(*settings: str) -> TextClassifier:
    return build_model(compose(["model=structured", *settings])["model"], num_embeddings=20, classes=2)


def test_all_trainable_parameters_are_one_group() -> None:
    frozen = model("model.embedding.frozen=true")
    (group,) = parameter_groups(frozen, "all")
    assert set(map(id, group["params"])) == {id(p) for p in frozen.parameters() if p.requires_grad}
    assert id(frozen.embedding.vectors.weight) not in set(map(id, group["params"]))


def test_decay_on_attention_and_head_shrinks_their_weights_alone() -> None:
    plain = model()
    before = {name: p.detach().clone() for name, p in plain.named_parameters()}
    optimizer = torch.optim.SGD(parameter_groups(plain, "attention_and_head"), lr=0.5, weight_decay=0.1)
    for parameter in plain.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    weights = {"attention.hidden.weight", "attention.scores.weight", "head.layers.1.weight"}
    assert weights <= before.keys()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (0.95 if name in weights else 1.0))


def test_settings_saved_before_there_was_a_choice_decay_everywhere() -> None:
    settings = compose(["optimizer=sgd", "optimizer.weight_decay=0.1"])
    del settings["weight_decay_on"]
    (group,) = build_optimizer(settings, model()).param_groups
    assert group["weight_decay"] == 0.1
