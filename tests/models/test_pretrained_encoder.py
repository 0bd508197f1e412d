"""Pretrained encoders: states against transformers, layers, gradients, groups of parameters, refusals."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_files import write_encoder
from refusals import refused
from safetensors.torch import load_file, save_file
from torch import nn

from sentattn.data.pieces import read_tokenizer
from sentattn.models.dropout import Dropout
from sentattn.models.embedding import TrainingTexts
from sentattn.models.pretrained import Pretrained, most_tokens

NAME = "model.embedding.name"
TEXTS = ("The film was good.", "I did not like the ending of this film at all!", "bad")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"), layers=3)


def make(folder: Path, **settings: Any) -> Pretrained:
    torch.manual_seed(0)
    embedding = Pretrained(num_embeddings=8, name=str(folder), **settings)
    embedding.prepare_training(lambda: TrainingTexts(*[np.empty(0, np.int64)] * 3))
    return embedding.eval()


def batch(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids of the texts in our order and their mask, padded."""
    encoded = read_tokenizer(str(folder)).encode(TEXTS)
    rows = [torch.from_numpy(text.ids.astype(np.int64)) for text in encoded]
    tokens_BL = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return tokens_BL, torch.arange(tokens_BL.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]


def by_transformers(folder: Path) -> list[list[torch.Tensor]]:
    """All hidden states of each text, (L, E), as the library's own tokenizer and model give them."""
    from transformers import AutoModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    model = AutoModel.from_pretrained(folder).eval()
    states = []
    for text in TEXTS:
        with torch.no_grad():
            output = model(tokenizer(text, return_tensors="pt", truncation=False).input_ids, output_hidden_states=True)
        states.append([layer[0] for layer in output.hidden_states])
    return states


def assert_states(states_BLE: torch.Tensor, expected: Iterable[torch.Tensor], tolerance: float) -> None:
    """Asserts that the states of each text are the expected ones, and 0 on padding."""
    for found_LE, expected_LE in zip(states_BLE.detach(), expected, strict=True):
        torch.testing.assert_close(found_LE[: len(expected_LE)], expected_LE, rtol=tolerance, atol=tolerance)
        assert not found_LE[len(expected_LE) :].any()


@pytest.mark.parametrize("layer", [-1, 0, 1, -2])
def test_states_are_those_of_transformers(folder: Path, layer: int) -> None:
    states_BLE = make(folder, layer=layer, norm=False)(*batch(folder))
    assert_states(states_BLE, (layers[layer] for layers in by_transformers(folder)), 1e-3)


def test_special_tokens_are_left_to_the_attention_or_not(folder: Path) -> None:
    tokens_BL, mask_BL = batch(folder)
    tokenizer = read_tokenizer(str(folder))
    around = {*tokenizer.prefix.tolist(), *tokenizer.suffix.tolist()}
    assert around
    kept_BL = make(folder, special=False).attended(tokens_BL, mask_BL)
    for ids, mask, kept in zip(tokens_BL.tolist(), mask_BL.tolist(), kept_BL.tolist(), strict=True):
        assert kept == [is_real and number not in around for number, is_real in zip(ids, mask, strict=True)]
    assert make(folder).attended(tokens_BL, mask_BL) is mask_BL


def test_a_text_of_special_tokens_alone_keeps_them(folder: Path) -> None:
    tokenizer = read_tokenizer(str(folder))
    only_BL = torch.from_numpy(np.concatenate([tokenizer.prefix, tokenizer.suffix]).astype(np.int64))[None]
    assert make(folder, special=False).attended(only_BL, only_BL > 0).all()


@pytest.mark.parametrize("frozen", [True, False])
def test_a_mix_is_a_weighted_sum_of_all_layers(folder: Path, frozen: bool) -> None:
    embedding = make(folder, layer="mix", norm=False, frozen=frozen)
    assert embedding.mix_scores is not None
    scores = np.array([0.3, -1.0, 0.5, 2.0], dtype=np.float32)
    embedding.mix_scores.data = torch.from_numpy(scores)
    weights = np.exp(scores) / np.exp(scores).sum()
    mixed = [sum(w * layer for w, layer in zip(weights, of_text, strict=True)) for of_text in by_transformers(folder)]
    assert_states(embedding(*batch(folder)), mixed, 2e-3)


def test_the_norm_is_that_of_numpy(folder: Path) -> None:
    expected = []
    for *_, states_LE in by_transformers(folder):
        states = states_LE.numpy()
        centred = states - states.mean(axis=1, keepdims=True)
        expected.append(torch.from_numpy(centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)))
    assert_states(make(folder)(*batch(folder)), expected, 5e-3)


def test_cached_states_and_computed_ones_are_equal(folder: Path) -> None:
    embedding, (tokens_BL, mask_BL) = make(folder), batch(folder)
    [states_BLE] = embedding.encode(tokens_BL, mask_BL)
    assert states_BLE.dtype is torch.float16
    assert states_BLE.shape[-1] == embedding.width_of(embedding.layer)
    torch.testing.assert_close(embedding(tokens_BL, mask_BL, states_BLE), embedding(tokens_BL, mask_BL), rtol=0, atol=0)


def test_the_layers_of_one_pass_are_those_of_a_pass_each(folder: Path) -> None:
    tokens_BL, mask_BL = batch(folder)
    layers = [0, 2, -1, "mix"]
    together = make(folder).encode(tokens_BL, mask_BL, layers)
    for layer, states_BLE in zip(layers, together, strict=True):
        [alone_BLE] = make(folder, layer=layer).encode(tokens_BL, mask_BL)
        torch.testing.assert_close(states_BLE, alone_BLE, rtol=0, atol=0)


def test_states_that_float16_cannot_hold_are_refused_of_a_frozen_encoder(copied: Path) -> None:
    weights = load_file(copied / "model.safetensors")
    weights["encoder.layer.2.output.LayerNorm.weight"] *= 1e6
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    assert refused_of(copied) == [(NAME, "range")]
    for settings in ({"layer": 1}, {"frozen": False}):
        assert make(copied, **settings)(*batch(copied)).isfinite().all()


def test_a_frozen_encoder_is_not_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedding, texts = make(folder), batch(folder)
    monkeypatch.setattr(torch.nn.Module, "__init__", torch.nn.Module.__init__)  # which torch.compile replaces for good
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        states_BLE = torch.compile(embedding, backend="eager")(*texts)
    torch.testing.assert_close(states_BLE, embedding(*texts))


def test_a_frozen_encoder_is_no_part_of_the_model(folder: Path) -> None:
    embedding = make(folder)
    assert {name for name, _ in embedding.named_parameters()} == {"norm.weight", "norm.bias"}
    assert embedding.state_dict().keys() == {"norm.weight", "norm.bias"}
    assert not embedding.parameter_groups()
    embedding(*batch(folder)).sum().backward()


def test_gradients_reach_the_input_vectors(folder: Path) -> None:
    embedding, (tokens_BL, mask_BL) = make(folder), batch(folder)
    inputs_BLI = embedding.inputs(tokens_BL, mask_BL).clone().requires_grad_()
    states_BLE = embedding.contextual(inputs_BLI, tokens_BL, mask_BL)
    torch.testing.assert_close(states_BLE, embedding(tokens_BL, mask_BL), rtol=0, atol=5e-3)
    states_BLE[0, 0].square().sum().backward()
    assert inputs_BLI.grad is not None
    assert (inputs_BLI.grad[0][mask_BL[0]].abs().sum(dim=-1) > 0).all()
    assert not inputs_BLI.grad[1:].any()


LAYERS = [f"encoder.layer.{number}." for number in (2, 1, 0)]


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, [*LAYERS, "embeddings."]),
        ({"tuned_layers": 1}, LAYERS[:1]),
        ({"layer": 2}, [*LAYERS[1:], "embeddings."]),
        ({"layer": -2}, [*LAYERS[1:], "embeddings."]),
        ({"layer": 2, "tuned_layers": 1}, LAYERS[1:2]),
        ({"layer": 0}, ["embeddings."]),
    ],
    ids=str,
)
def test_layers_are_tuned_from_the_one_that_is_read(folder: Path, settings: dict[str, Any], parts: list[str]) -> None:
    embedding = make(folder, frozen=False, lr=1e-3, layer_decay=0.5, **settings)
    assert embedding.encoder is not None
    named, groups = dict(embedding.encoder.named_parameters()), embedding.parameter_groups()
    assert [group["lr"] for group in groups] == [1e-3 * 0.5**below for below in range(len(parts))]
    for group, part in zip(groups, parts, strict=True):
        expected = {id(parameter) for name, parameter in named.items() if name.startswith(part)}
        assert {id(parameter) for parameter in group["params"]} == expected
    embedding(*batch(folder)).square().sum().backward()
    for name, parameter in named.items():
        assert (parameter.grad is not None) == parameter.requires_grad == name.startswith(tuple(parts)), name


def test_an_encoder_that_was_saved_in_bfloat16_is_tuned_in_float32(copied: Path) -> None:
    change_config(copied, dtype="bfloat16")
    save_file(
        {name: weight.bfloat16() for name, weight in load_file(copied / "model.safetensors").items()},
        copied / "model.safetensors",
    )
    embedding = make(copied, frozen=False)
    assert {parameter.dtype for parameter in embedding.parameters()} == {torch.float32}


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_dropout_of_the_attention_of_a_tuned_encoder(folder: Path, share: float) -> None:
    embedding, texts = make(folder, frozen=False, attention_dropout=share), batch(folder)
    assert embedding.encoder is not None
    for module in embedding.encoder.modules():
        module.train(not isinstance(module, nn.Dropout))  # no other dropout
    assert torch.equal(embedding(*texts), embedding(*texts)) == (share == 0)


def test_a_tuned_encoder_has_the_dropout_of_its_config(folder: Path) -> None:
    from transformers import AutoModel

    expected = {
        path: part.p for path, part in AutoModel.from_pretrained(folder).named_modules() if isinstance(part, nn.Dropout)
    }
    embedding = make(folder, frozen=False, norm=False)
    assert embedding.encoder is not None
    found = {path: part.p for path, part in embedding.encoder.named_modules() if isinstance(part, Dropout)}
    assert found == expected
    first, second = (embedding.train()(*batch(folder)) for _ in range(2))
    assert not torch.equal(first, second)


def refused_of(folder: Path, **settings: Any) -> list[tuple[str, str]]:
    return refused(lambda: make(folder, **settings)(*batch(folder)))


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_parameters_are_those_of_the_weights_that_are_loaded(folder: Path, copied: Path) -> None:
    weights = load_file(copied / "model.safetensors")
    save_file(weights, copied / "model.fp16.safetensors")
    assert make(copied).frozen_parameters == make(folder).frozen_parameters
    names = sorted(weights)
    files = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in files.items():
        save_file({name: weights[name] for name in part}, copied / file, metadata={"format": "pt"})
    where = {name: file for file, part in files.items() for name in part}
    (copied / "model.safetensors").unlink()
    (copied / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    assert make(copied).frozen_parameters == make(folder).frozen_parameters
    torch.testing.assert_close(make(copied)(*batch(copied)), make(folder)(*batch(folder)))
    (copied / "model.safetensors.index.json").write_text("[]")
    assert refused_of(copied) == [(NAME, "unreadable")]


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"])
def test_a_kernel_of_the_hub_that_a_configuration_names_is_not_loaded(folder: Path, copied: Path, key: str) -> None:
    change_config(copied, **{key: "somebody/kernel"})
    for frozen in (True, False):
        states_BLE = make(copied, frozen=frozen)(*batch(copied))
        torch.testing.assert_close(states_BLE, make(folder, frozen=frozen)(*batch(folder)))
    assert most_tokens(copied, None) == 64


def test_most_tokens_of_an_encoder_that_cannot_be_built_is_refused(copied: Path) -> None:
    change_config(copied, pad_token_id=10**30)
    assert refused(partial(most_tokens, copied, None)) == [(NAME, "unreadable")]


def with_an_index(content: object, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))


def without_a_layer(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({name: one for name, one in weights.items() if "layer.1." not in name}, folder / "model.safetensors")


def with_an_id_beyond_the_vectors(folder: Path) -> None:
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    last = max(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    tokenizer["model"]["vocab"][last] = size  # as many tokens as vectors, with a gap
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def in_an_inner_folder(folder: Path) -> None:
    shutil.copytree(folder, folder / "0_Transformer")
    (folder / "config.json").write_text('{"__version__": "0.3.9"}')


def as_a_pointer_of_git_lfs(folder: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    (folder / "model.safetensors").write_text(pointer)


def of_another_type(folder: Path, model_type: str) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))


def with_code(folder: Path) -> None:
    (folder / "own.py").write_text("raise SystemExit('this code was run')")
    change_config(folder, model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "missing"),
        (lambda folder: (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}'), "unsupported"),
        (with_code, "unsupported"),
        (in_an_inner_folder, "not_found"),
        (as_a_pointer_of_git_lfs, "missing"),
        *(
            (partial(change_config, **changes), "unsupported")
            for changes in ({"is_encoder_decoder": True}, {"is_decoder": True})
        ),
        *((partial(of_another_type, model_type=other), "unsupported") for other in ("vit", "t5", "gemma3")),
        *((partial(change_config, hidden_size=size), "conflict") for size in (-1, 10**12, 10**30)),
        (partial(change_config, intermediate_size=31), "conflict"),
        (without_a_layer, "conflict"),
        (with_an_id_beyond_the_vectors, "conflict"),
        (lambda folder: (folder / "config.json").unlink(), "missing"),
        (lambda folder: (folder / "config.json").write_text("{"), "unreadable"),
        (lambda folder: (folder / "config.json").write_text("5"), "unreadable"),
        (partial(with_an_index, []), "unreadable"),
        (partial(with_an_index, {"weight_map": []}), "unreadable"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x08" + bytes(999)), "unreadable"),
    ],
)
@pytest.mark.parametrize("frozen", [True, False])
def test_an_encoder_that_cannot_be_used_is_refused(
    copied: Path, change: Callable[[Path], object], kind: str, frozen: bool
) -> None:
    change(copied)
    assert refused_of(copied, frozen=frozen) == [(NAME, kind)]


def test_damaged_weights_of_a_tuned_encoder_are_refused_before_the_training_texts_are_read(copied: Path) -> None:
    (copied / "model.safetensors").write_bytes((copied / "model.safetensors").read_bytes()[:1000])
    build = partial(Pretrained, num_embeddings=8, name=str(copied), frozen=False)
    assert refused(build) == [(NAME, "unreadable")]


def test_an_encoder_without_attention_weights_has_no_dropout_of_them(copied: Path) -> None:
    (copied / "config.json").write_text('{"model_type": "fnet", "vocab_size": 30000, "num_hidden_layers": 3}')
    key = "model.embedding.attention_dropout"
    assert refused_of(copied, frozen=False, attention_dropout=0.0) == [(key, "conflict")]


@pytest.mark.parametrize(
    "settings",
    [
        {"layer": 4},
        {"layer": -5},
        {"cache_layers": [0, 4]},
        {"frozen": False, "tuned_layers": 4},
        {"frozen": False, "layer": 1, "tuned_layers": 2},
    ],
)
def test_layers_that_are_not_there(folder: Path, settings: dict[str, Any]) -> None:
    wrong = [name for name in settings if name in ("tuned_layers", "cache_layers")] or ["layer"]
    assert refused_of(folder, **settings) == [(f"model.embedding.{wrong[0]}", "range")]


def test_other_weights_have_another_fingerprint(folder: Path, copied: Path) -> None:
    assert make(copied).fingerprint == make(folder).fingerprint
    weights = load_file(copied / "model.safetensors")
    save_file({name: 1.01 * weight for name, weight in weights.items()}, copied / "model.safetensors")
    changed = make(copied)
    assert changed.fingerprint != make(folder).fingerprint
    assert not torch.equal(changed(*batch(copied)), make(folder)(*batch(folder)))
