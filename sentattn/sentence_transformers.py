"""A trained attention as a module of sentence-transformers, which `export format=sentence-transformers` writes."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.base.modules import Module
from torch import Tensor, nn

from sentattn.build import build_part
from sentattn.config.groups import Choices
from sentattn.config.targets import check_targets
from sentattn.config.types import Json
from sentattn.models.attention.base import Attention
from sentattn.models.classifier import attend
from sentattn.models.encoders.base import Encoder
from sentattn.models.pooling import Pooling
from sentattn.models.pretrained import without

TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class AttentionPooling(Module):  # type: ignore[misc]  # the library has no types of its classes
    """Turns the states of a transformer's tokens into the vector that the head of a trained model read.

    Args:
        layer: Number of the layer whose states are read; -1 for the last, `mix` for a mix of all.
        layers: Number of layers that are mixed; 1 without `mix`.
        dim: Width of a state.
        is_normalized: Whether states pass a LayerNorm first.
        rounding: `float16` or `bfloat16`, if states are rounded to it, as those of a frozen encoder are in training.
        hidden_ids: Ids of the special tokens that the attention does not read.
        parts: Settings of `encoder`, `attention` and `pooling`.

    Raises:
        SettingError: If a part is of another class than this package's.
    """

    config_keys = ("layer", "layers", "dim", "is_normalized", "rounding", "hidden_ids", "parts")

    def __init__(
        self,
        *,
        layer: int | str,
        layers: int,
        dim: int,
        is_normalized: bool,
        rounding: str | None,
        hidden_ids: list[int],
        parts: Json,
    ) -> None:
        super().__init__()
        self.layer, self.layers, self.dim = layer, layers, dim
        self.is_normalized, self.rounding = is_normalized, rounding
        self.hidden_ids, self.parts = hidden_ids, parts
        parts = check_targets({"model": parts}, Choices.of())["model"]
        self.mix_scores = nn.Parameter(torch.zeros(layers)) if layer == "mix" else None
        self.norm = nn.LayerNorm(dim) if is_normalized else nn.Identity()
        self.encoder: Encoder = build_part("encoder", Encoder, parts["encoder"], dim=dim)
        states = {"dim": self.encoder.out_dim, "bidirectional": self.encoder.bidirectional}
        self.attention: Attention = build_part("attention", Attention, parts["attention"], **states)
        hops = {"dim": self.attention.out_dim, "hops": self.attention.hops}
        self.pooling: Pooling = build_part("pooling", Pooling, parts["pooling"], **hops)

    def forward(self, features: dict[str, Any], **_: object) -> dict[str, Any]:
        """Adds `sentence_embedding`, (B, P), to the features of a batch."""
        tokens_BL, mask_BL = features["input_ids"], features["attention_mask"].bool()
        states_BLE = self.norm(self._states(features)) * mask_BL[..., None]
        kept_BL = without(torch.tensor(self.hidden_ids, device=mask_BL.device), tokens_BL, mask_BL)
        attended = attend(self.attention, self.encoder(states_BLE, mask_BL), mask_BL, kept_BL)
        return features | {"sentence_embedding": self.pooling(attended.values_BRD)}

    def _states(self, features: dict[str, Any]) -> Tensor:
        layers: list[Tensor]
        if self.layer == -1:
            layers = [features["token_embeddings"]]
        else:
            all_layers = features["all_layer_embeddings"]
            layers = list(all_layers) if self.layer == "mix" else [all_layers[self.layer]]
        if self.rounding:
            layers = [states_BLE.to(TYPES[self.rounding]) for states_BLE in layers]
        if self.mix_scores is None:
            [states_BLE] = layers
        else:
            states_BLE = (self.mix_scores.softmax(dim=0)[:, None] * torch.stack(layers, dim=2).float()).sum(dim=2)
        return states_BLE.float()

    def get_embedding_dimension(self) -> int:
        """Returns the width P of a vector."""
        return self.pooling.out_dim

    def save(self, output_path: str, *_: object, safe_serialization: bool = True, **__: object) -> None:
        """Writes settings and weights."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> AttentionPooling:
        """Reads what `save` has written."""
        places = {key: options[key] for key in ("subfolder", "token", "cache_folder", "revision", "local_files_only")}
        pooling = cls(**cls.load_config(model_name_or_path, **places))
        return cls.load_torch_weights(model_name_or_path, **places, model=pooling)  # type: ignore[no-any-return]
