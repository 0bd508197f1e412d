"""Types of masked language models, all of transformers, and of decoders: states without a trace of padding."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_files import write_tokenizer
from refusals import refused
from safetensors.torch import load_file, save_file

from sentattn.models.embedding import TrainingTexts
from sentattn.models.pretrained import Pretrained, most_tokens, read_config

SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
ROWS = {"max_position_embeddings": 64, "type_vocab_size": 2}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 3, "eos_token_id": 4, "cls_token_id": 3, "sep_token_id": 4}
FAMILIES: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 8},
    "bert": {},
    "big_bird": {"block_size": 4, "num_random_blocks": 1},
    "camembert": {},
    "data2vec-text": {},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    "distilbert": {"dim": 16, "hidden_dim": 32, "n_heads": 2, "n_layers": 2},
    "electra": {"embedding_size": 8},
    "ernie": {},
    "esmc": {},
    "eurobert": {},
    "gte": {},
    "jina_embeddings_v3": {},
    "nomic_bert": {},
    "ultrabert": {},
    "esm": {"position_embedding_type": "rotary", "mask_token_id": 5, "token_dropout": True},
    "flaubert": {"emb_dim": 16, "n_layers": 2, "n_heads": 2},
    "layoutlm": {},
    "longformer": {"attention_window": [4, 4]},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 8},
    "megatron-bert": {},
    "mobilebert": {"embedding_size": 8, "intra_bottleneck_size": 8, "true_hidden_size": 8},
    "modernbert": {"local_attention": 8},
    "mpnet": {},
    "mra": {},
    "rembert": {"input_embedding_size": 8, "output_embedding_size": 16},
    "roberta": {},
    "roberta-prelayernorm": {},
    "roc_bert": {"shape_vocab_size": 300, "pronunciation_vocab_size": 300},
    "roformer": {"embedding_size": 16},
    "squeezebert": {"embedding_size": 16},
    "tapas": {},
    "xlm": {"emb_dim": 16, "n_layers": 2, "n_heads": 2},
    "xlm-roberta": {},
    "xlm-roberta-xl": {},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
}
DECODER = {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": None, "bos_token_id": 0, "eos_token_id": 0}
DECODERS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "llama", "mistral"), DECODER),
    **dict.fromkeys(("olmo", "olmo2", "phi", "phi3", "qwen2", "qwen3"), DECODER),
}
REFUSED: dict[str, dict[str, Any]] = {
    "bart": {},
    "convbert": {"embedding_size": 16},
    "fnet": {},
    "ibert": {},
    "mbart": {},
    "mvp": {},
    "nystromformer": {},
    "reformer": {
        "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": [8, 8],
        "attn_layers": ["local", "lsh"],
        "is_decoder": False,
        "num_buckets": 4,
        "attention_head_size": 8,
    },
    "yoso": {},
}
FAST = {"albert", "bert", "deberta-v2", "distilbert", "esm", "fnet", "longformer", "modernbert", "mpnet", "roberta"}
FAST |= {"gemma2", "gpt2", "gpt_neox", "llama", "qwen3"}
"""Types that each test run tries; `make slow` tries all."""
ROOM = {"mpnet": 62} | dict.fromkeys(("camembert", "longformer", "luke", "roberta", "xlm-roberta", "xmod"), 63)
"""Types that number positions from behind the id of padding have fewer than 64."""


def each(families: Iterable[str]) -> Any:
    marked = (family if family in FAST else pytest.param(family, marks=pytest.mark.slow) for family in families)
    return pytest.mark.parametrize("family", list(marked))


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes the encoder of a type once, and returns its folder."""
    tokenizer = tmp_path_factory.mktemp("tokenizer")
    size = write_tokenizer(tokenizer).get_vocab_size()

    @functools.cache
    def written(family: str) -> Path:
        folder = tmp_path_factory.mktemp("encoder")
        shutil.copytree(tokenizer, folder, dirs_exist_ok=True)
        own = (FAMILIES | DECODERS | REFUSED)[family]
        write_model(folder, family, {"vocab_size": size, **ROWS, **SHAPE, **SPECIAL, **own})
        return folder

    return written


def write_model(folder: Path, family: str, settings: dict[str, Any]) -> None:
    """Writes a random encoder with large weights; padding is zero, as transformers starts it."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(family, **settings)
    torch.manual_seed(0)
    model = AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    model.save_pretrained(folder)


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """A short text alone, and next to a longer one."""
    return torch.tensor([[1, 7, 8, 9]]), torch.tensor([[1, 7, 8, 9, 0, 0, 0, 0, 0], [1, 7, 8, 9, 10, 11, 12, 13, 14]])


@each(FAMILIES | DECODERS)
def test_states_do_not_depend_on_padding(family: str, write: Callable[[str], Path]) -> None:
    from transformers import AutoModel

    folder = write(family)
    encoder = Pretrained(num_embeddings=8, name=str(folder), norm=False)
    alone_BL, padded_BL = texts()
    own = AutoModel.from_pretrained(folder, config=read_config(folder)).eval()
    ids_BL = encoder.library_ids_V[alone_BL]
    expected = own(input_ids=ids_BL, output_hidden_states=True).hidden_states
    for layer in (0, 1, 2):
        [alone_BLE] = encoder.encode(alone_BL, alone_BL > 0, [layer])
        [padded_BLE] = encoder.encode(padded_BL, padded_BL > 0, [layer])
        rounding = {"rtol": 2e-3, "atol": 2e-3} if family in FAMILIES else {"rtol": 1e-2, "atol": 1e-2}
        torch.testing.assert_close(alone_BLE[0], padded_BLE[0, :4], **rounding)
        torch.testing.assert_close(alone_BLE.float(), expected[layer], **rounding)
    if family in ROOM:
        room = ROOM[family]
        assert (most_tokens(folder, room), most_tokens(folder, room + 1)) == (None, room)
    room = most_tokens(folder, None) or 40
    long_BL = torch.full((1, room), 7)
    assert encoder.encode(long_BL, long_BL > 0)[0].isfinite().all()


@each(FAMILIES | DECODERS)
def test_each_type_is_tuned_up_to_the_layer_that_is_read(family: str, write: Callable[[str], Path]) -> None:
    tuned = Pretrained(num_embeddings=8, name=str(write(family)), frozen=False, layer=1)
    tuned.prepare_training(lambda: TrainingTexts(*[np.empty(0, np.int64)] * 3))
    _, tokens_BL = texts()
    tuned.train()(tokens_BL, tokens_BL > 0).square().sum().backward()
    for name, parameter in tuned.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
    assert len(tuned.parameter_groups()) == (1 if family == "albert" else 2)  # whose layers are one and the same
    inputs_BLI = tuned.eval().inputs(tokens_BL, tokens_BL > 0)
    torch.testing.assert_close(
        tuned.contextual(inputs_BLI, tokens_BL, tokens_BL > 0), tuned(tokens_BL, tokens_BL > 0), rtol=1e-4, atol=1e-5
    )


@each(REFUSED)
def test_types_whose_states_depend_on_padding_are_refused(family: str, write: Callable[[str], Path]) -> None:
    tokens_BL, _ = texts()
    load = partial(Pretrained, num_embeddings=8, name=str(write(family)))
    assert refused(lambda: load().encode(tokens_BL, tokens_BL > 0)) == [("model.embedding.name", "unsupported")]


def test_states_of_a_decoder_may_be_beyond_float16(write: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(write("llama"), tmp_path / "llama")
    file = folder / "model.safetensors"
    weights = load_file(file)
    save_file(
        {name: 1e6 * value if "embed" in name else value for name, value in weights.items()}, file, {"format": "pt"}
    )
    tokens_BL, _ = texts()
    [states_BLE] = Pretrained(num_embeddings=8, name=str(folder)).encode(tokens_BL, tokens_BL > 0, [0])
    assert states_BLE.isfinite().all()
    assert states_BLE.abs().max() > 65504


def test_layers_that_share_their_weights_are_not_tuned_one_by_one(write: Callable[[str], Path]) -> None:
    make = partial(Pretrained, num_embeddings=8, name=str(write("albert")), frozen=False, tuned_layers=1)
    assert refused(make) == [("model.embedding.tuned_layers", "conflict")]
