"""A pretrained encoder or decoder of the Hugging Face Hub as an embedding: token ids to contextual states."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, Positive, Share, checked
from sentattn.data.hub import (
    ADAPTER_FILE,
    CONFIG_FILE,
    INDEX_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    content_hash,
    find_folder,
)
from sentattn.data.pieces import read_tokenizer
from sentattn.data.tokenizer import UNKNOWN_ID
from sentattn.errors import MALFORMED, DataError, Fault, SettingError, first_line
from sentattn.models.dropout import Dropout
from sentattn.models.embedding import Embedding, TrainingTexts

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

NAME = "model.embedding.name"
Type = Literal["float32", "bfloat16"]
Layer = int | Literal["mix"]
NO_FOREIGN_CODE: dict[str, Any] = {"attn_implementation": None, "trust_remote_code": False}
"""Arguments by which transformers runs its own code alone: a configuration could name a program of the Hub."""
LFS_POINTER = b"version https://git-lfs"
SHORT, LONG = 6, 16
"""Tokens of a text without and with padding, whose states are compared."""
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Largest share of its states by which a text's may change next to padding."""


class Pretrained(Embedding):
    """States of a pretrained encoder (Devlin et al. 2019 and its like), frozen or tuned.

    Frozen, its states are rounded to float16, as they are cached, and its weights are not part of the model; those of a
    decoder, some of which are beyond the largest number of float16, are rounded to bfloat16. Tuned, its
    weights are learned with a rate of their own, lower in lower layers: lr d^(n - k) in layer k, where n is the layer
    that is read (Howard and Ruder 2018; Sun et al. 2019, section 5.3.3, where d is 0.95).

    Args:
        num_embeddings: Number of ids of the tokenizer.
        name: A folder, or a name on the Hugging Face Hub.
        revision: Branch, tag or commit on the Hub; null for its newest.
        frozen: Keep the encoder as it is; false tunes it.
        layer: Whose states: -1 is the last, 0 the first embeddings; `mix` a learned mix of all, sum_k softmax(s)_k h_k
            (Peters et al. 2018, eq. 1, without its factor).
        lr: Learning rate of the layer whose states are read, the last one with `mix`. Layers above it are not tuned.
        layer_decay: Factor d of the learning rate from a layer to the one below it.
        tuned_layers: Number of layers that are tuned, counted down from the one that is read; null tunes these and the
            first embeddings.
        attention_dropout: Share of the tuned encoder's own attention weights set to 0 while training; null takes that
            of its configuration. On a CPU, only 0 lets it compute attention in one fused operation.
        special: Whether the attention reads the states of special tokens such as `[CLS]` and `[SEP]`; a text without
            others keeps them.
        norm: LayerNorm on the states.
        dropout: Share of the states' components set to 0 while training.
        word_dropout: It changes nothing; settings of data sets have it for other embeddings.
        dtype: Type in which a frozen encoder computes.
        cache: Whether frozen states are kept on the disk: `auto` where it has room, true, or false, which computes them
            in every epoch.
        cache_layers: Further layers whose states are cached in the same pass, for other runs. `-m` and sweeps set it to
            the layers that they train on.

    Attributes:
        fingerprint: Hash of the encoder's configuration, tokenizer and weights.
        state_dtype: Type that frozen states are rounded to.

    Raises:
        DataError: If there is no such encoder, or it cannot be used.
        SettingError: If a setting does not fit it.
    """

    library_ids_V: Tensor
    hidden_ids_S: Tensor
    one: Tensor

    @checked
    def __init__(
        self,
        *,
        num_embeddings: Count,
        name: str,
        revision: str | None = None,
        frozen: bool = True,
        layer: Layer = -1,
        lr: Positive = 2e-5,
        layer_decay: Share = 0.95,
        tuned_layers: Count | None = None,
        attention_dropout: Fraction | None = None,
        special: bool = True,
        norm: bool = True,
        dropout: Fraction = 0.0,
        word_dropout: Fraction = 0.0,
        dtype: Type = "float32",
        cache: bool | Literal["auto"] = "auto",
        cache_layers: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.folder = find_folder(name if revision is None else f"{name}@{revision}", key=NAME)
        self.name, self.frozen, self.layer, self.dtype, self.cache = name, frozen, layer, dtype, cache
        self.lr, self.layer_decay, self.tuned_layers = lr, layer_decay, tuned_layers
        config = read_config(self.folder)
        self.fingerprint = content_hash(self.folder)
        parameters = count_parameters(self.folder)
        tokenizer = read_tokenizer(str(self.folder), key=NAME)
        if (largest := int(tokenizer.library_ids_V.max())) >= config.vocab_size:
            reason = f"the ids of {TOKENIZER_FILE} go to {largest:,}, and the encoder has {config.vocab_size:,} vectors"
            raise _refused(self.folder, "conflict", reason)
        self.blank_id = tokenizer.mask_id
        self.register_buffer("library_ids_V", torch.from_numpy(tokenizer.library_ids_V), persistent=False)
        around = [] if special else sorted({*tokenizer.prefix.tolist(), *tokenizer.suffix.tolist()})
        self.register_buffer("hidden_ids_S", torch.tensor(around, dtype=torch.long), persistent=False)
        self.register_buffer("one", torch.ones(()), persistent=False)  # of the type that the model computes with
        self.layers = int(config.num_hidden_layers)
        self.state_dtype = torch.float16 if is_encoder(config) else torch.bfloat16
        self.cache_layers = cache_layers
        for key, number in (("layer", layer), *(("cache_layers", number) for number in cache_layers)):
            if number != "mix" and not -self.layers - 1 <= number <= self.layers:
                legal = f"{-self.layers - 1} to {self.layers}{' or mix' * (key == 'layer')}"
                message = f"model.embedding.{key} must be {legal}, got {number}."
                raise SettingError(Fault(f"model.embedding.{key}", "range", message))
        if not 0 < config.hidden_size <= parameters:
            reason = (
                f"hidden_size is {config.hidden_size:,} in {CONFIG_FILE}, and its weights have {parameters:,} numbers"
            )
            raise _refused(self.folder, "conflict", reason)
        self.out_dim = int(config.hidden_size)
        self.mix_scores = nn.Parameter(torch.zeros(self.layers + 1)) if layer == "mix" else None
        self.norm = nn.LayerNorm(self.out_dim) if norm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.frozen_parameters = parameters if frozen else 0
        self.encoder: PreTrainedModel | None = None
        if not frozen:
            from transformers import AutoModel

            if attention_dropout is not None:
                key, names = "model.embedding.attention_dropout", ("attention_probs_dropout_prob", "attention_dropout")
                if (name_there := next((name for name in names if hasattr(config, name)), None)) is None:
                    message = f"{key}: {config.model_type} has no such dropout; leave it out."
                    raise SettingError(Fault(key, "conflict", message))
                setattr(config, name_there, attention_dropout)
            # Otherwise in the type in which the configuration says that its weights were saved.
            built = AutoModel.from_config(config, dtype=torch.float32, **NO_FOREIGN_CODE)
            self.encoder = _without_pooler(built)
            for path, part in list(self.encoder.named_modules()):
                if type(part) is nn.Dropout:  # faster masks on a CPU, of the same share
                    self.encoder.set_submodule(path, Dropout(part.p))
            parts = self._tuned_parts()
            if tuned_layers is not None and tuned_layers != len(parts):
                key = "model.embedding.tuned_layers"
                if not parts:
                    message = f"{key}: the layers of {config.model_type} are not tuned one by one; leave it out."
                    raise SettingError(Fault(key, "conflict", message))
                most = f"at most {len(parts)}, the layers up to model.embedding.layer={layer}"
                raise SettingError(Fault(key, "range", f"{key} must be {most}, got {tuned_layers}."))
            for parameter in {*self.encoder.parameters()} - {p for layer in parts for p in layer}:
                parameter.requires_grad_(False)

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor, states_BLE: Tensor | None = None) -> Tensor:
        """Returns states_BLE; padding is all zeros.

        Args:
            tokens_BL: Ids of the tokens.
            mask_BL: True at real tokens.
            states_BLE: Cached states of the encoder for these tokens, which `encode` returns.
        """
        if self.encoder is not None:
            return self._finish(self._encoded(self.encoder, tokens_BL, mask_BL, [self.layer])[0], mask_BL)
        return self._finish(self.encode(tokens_BL, mask_BL)[0] if states_BLE is None else states_BLE, mask_BL)

    def layer_number(self, layer: Layer) -> Layer:
        """Returns a layer by its number from 0 on."""
        return layer if layer == "mix" else layer % (self.layers + 1)

    def width_of(self, layer: Layer) -> int:
        """Returns the width of a layer's states: with `mix` that of all layers together."""
        return self.out_dim * (self.layers + 1 if layer == "mix" else 1)

    def attended(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        return without(self.hidden_ids_S, tokens_BL, mask_BL)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # torch has no types for it
    @torch.no_grad()
    def encode(self, tokens_BL: Tensor, mask_BL: Tensor, layers: Sequence[Layer] = ()) -> list[Tensor]:
        """Returns the states of layers of the frozen encoder, by default of its own, in one pass.

        Each is (B, L, E) in `state_dtype`; with `mix` the layers are side by side.

        Raises:
            DataError: If float16 cannot hold them.
        """
        with torch.autocast(tokens_BL.device.type, enabled=False):
            states = self._encoded(self._own_encoder(tokens_BL), tokens_BL, mask_BL, layers or [self.layer])
            halves = [states_BLE.to(self.state_dtype) for states_BLE in states]
        if not torch.compiler.is_exporting() and not all(half_BLE.isfinite().all() for half_BLE in halves):
            reason = (
                "some of its states are beyond 65,504, the largest number of float16, in which frozen states are kept"
            )
            advice = "choose another model.embedding.layer, or type model.embedding.frozen=false"
            raise _refused(self.folder, "range", f"{reason}; {advice}")
        return halves

    def inputs(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the encoder's own vectors of the tokens, before its first layer and without positions."""
        embedded_BLI: Tensor = self._own_encoder(tokens_BL).get_input_embeddings()(self._library_ids(tokens_BL))
        return embedded_BLI

    def _library_ids(self, tokens_BL: Tensor) -> Tensor:
        return self.library_ids_V.to(tokens_BL.device)[tokens_BL]

    def contextual(self, inputs_BLI: Tensor, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLE of `inputs`, unrounded, so that gradients pass; padding is all zeros."""
        encoder = self._own_encoder(tokens_BL)
        with _starting_from(encoder, inputs_BLI):
            return self._finish(self._encoded(encoder, tokens_BL, mask_BL, [self.layer])[0], mask_BL)

    def _encoded(
        self, encoder: PreTrainedModel, tokens_BL: Tensor, mask_BL: Tensor, layers: Sequence[Layer]
    ) -> list[Tensor]:
        numbers = [self.layer_number(layer) for layer in layers]
        output = encoder(
            input_ids=self._library_ids(tokens_BL),
            attention_mask=mask_BL.long(),
            output_hidden_states=any(number != self.layers for number in numbers),
        )
        return [
            output.last_hidden_state
            if number == self.layers
            else torch.cat(output.hidden_states, dim=-1)
            if number == "mix"
            else output.hidden_states[number]
            for number in numbers
        ]

    def _finish(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        states_BLE = states_BLE.to(self.one.dtype)
        if self.mix_scores is not None:
            states_BLKE = states_BLE.view(*mask_BL.shape, -1, self.out_dim)
            states_BLE = (self.mix_scores.softmax(dim=0)[:, None] * states_BLKE).sum(dim=2)
        finished_BLE: Tensor = self.dropout(self.norm(states_BLE)) * mask_BL[..., None]
        return finished_BLE

    def _own_encoder(self, tokens_BL: Tensor) -> PreTrainedModel:
        """Returns the encoder that is tuned, or the frozen one on the device of the tokens."""
        encoder = load_encoder(self.folder, self.fingerprint, self.dtype) if self.encoder is None else self.encoder
        if self.encoder is None and encoder.device != tokens_BL.device:
            encoder.to(tokens_BL.device)
        return encoder

    def prepare_training(self, read: Callable[[], TrainingTexts]) -> None:
        """Loads the weights of an encoder that is tuned, and freezes those that its states do not depend on."""
        if self.encoder is None:
            return
        self.encoder.load_state_dict(load_encoder(self.folder, self.fingerprint, "float32").state_dict())
        if self.layer_number(self.layer) == self.layers:
            return
        # A norm after the last layer, for example. Processes that share a training wait for each gradient.
        tuned = [parameter for parameter in self.encoder.parameters() if parameter.requires_grad]
        tokens_BL = torch.full((1, 2), UNKNOWN_ID)
        with torch.random.fork_rng():  # of dropout
            [states_BLE] = self._encoded(self.encoder, tokens_BL, tokens_BL == UNKNOWN_ID, [self.layer])
        gradients = torch.autograd.grad(states_BLE.sum(), tuned, allow_unused=True)
        for parameter, gradient in zip(tuned, gradients, strict=True):
            parameter.requires_grad_(gradient is not None)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Returns the parameters of each tuned layer with its learning rate, the first embeddings as layer 0."""
        parts = ([parameter for parameter in part if parameter.requires_grad] for part in self._tuned_parts())
        return [{"params": part, "lr": self.lr * self.layer_decay**below} for below, part in enumerate(parts)]

    def _tuned_parts(self) -> list[list[nn.Parameter]]:
        """Returns the parameters of each tuned layer, that which is read first, and of the rest if all are tuned."""
        if self.encoder is None:
            return []
        lists: dict[str, nn.ModuleList] = {}  # several where attention and feed-forward parts are apart, as in XLM
        for name, module in self.encoder.named_modules():
            is_inside = any(name.startswith(f"{outer}.") for outer in lists)
            if isinstance(module, nn.ModuleList) and len(module) == self.layers and not is_inside:
                lists[name] = module
        layers = [[p for part in parts for p in part.parameters()] for parts in zip(*lists.values(), strict=True)]
        number = self.layer_number(self.layer)
        top = self.layers if number == "mix" else number
        tuned = layers[:top][::-1]
        if self.tuned_layers is not None:
            return tuned[: self.tuned_layers]
        inside = {parameter for parameters in layers for parameter in parameters}
        return [*tuned, [parameter for parameter in self.encoder.parameters() if parameter not in inside]]


def without(hidden_ids_S: Tensor, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
    """Returns which real tokens are none of some ids; all of a text that has no others."""
    if not len(hidden_ids_S):
        return mask_BL
    kept_BL = mask_BL & ~torch.isin(tokens_BL, hidden_ids_S)
    return kept_BL | (mask_BL & ~kept_BL.any(dim=1, keepdim=True))


def is_encoder(config: PretrainedConfig) -> bool:
    """Whether a model is trained to fill in words, and not to write the next one."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    return type(config) in MODEL_FOR_MASKED_LM_MAPPING


def read_config(folder: Path) -> PretrainedConfig:
    """Reads the configuration of an encoder; no code that it names is run.

    Raises:
        DataError: If it is missing, damaged, or not that of an encoder that is supported.
        SettingError: If transformers is not installed.
    """
    try:
        from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig
        from transformers.utils import logging
    except ImportError as error:
        message = 'model/embedding=pretrained needs transformers: type pip install "sentattn[pretrained]".'
        raise SettingError(Fault("model/embedding", "package", message)) from error
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    if (folder / ADAPTER_FILE).exists():
        reason = f"{ADAPTER_FILE} belongs to an adapter, which is not read; merge it into its encoder and save that"
        raise _refused(folder, "unsupported", reason)
    content: dict[str, object] = {}
    try:
        content = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except FileNotFoundError as error:
        raise _refused(folder, "missing", f"{CONFIG_FILE} is missing") from error
    except Exception as error:  # transformers has no common class of errors
        if isinstance(content, dict) and "auto_map" in content:
            reason = "it needs code of its own, which is never run; choose an encoder that transformers has itself"
            raise _refused(folder, "unsupported", reason) from error
        if inner := next((path.parent for path in sorted(folder.glob(f"*/{CONFIG_FILE}"))), None):
            reason = f"its {CONFIG_FILE} is not that of an encoder; type {NAME}={inner}, whose may be"
            raise _refused(folder, "not_found", reason) from error
        raise _refused(folder, "unreadable", f"{CONFIG_FILE} cannot be read: {first_line(error)}") from error
    has_two_parts = config.is_encoder_decoder or getattr(config, "is_decoder", False)
    known = is_encoder(config) or type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    if has_two_parts or not known or not hasattr(config, "hidden_size"):
        reason = (
            f"{config.model_type} is neither an encoder nor a decoder of text alone; choose one such as BERT or Qwen3"
        )
        raise _refused(folder, "unsupported", reason)
    config.use_cache = False  # of a decoder that generates
    if hasattr(config, "attention_type"):
        config.attention_type = "original_full"  # BigBird's sparse attention reads padding
    return config


def _refused(folder: Path, kind: str, reason: str) -> DataError:
    return DataError(Fault(NAME, kind, f"{NAME}={folder}: {reason}."))


def count_parameters(folder: Path) -> int:
    """Returns the number of parameters in the weights that are loaded, from the headers of their files.

    Raises:
        DataError: If there is no such file, or one is damaged.
    """
    number, file = 0, WEIGHTS_FILE
    try:
        shards = [file]
        if not (folder / file).exists():
            file = INDEX_FILE
            shards = sorted({*json.loads((folder / file).read_text(encoding="utf-8"))["weight_map"].values()})
        for file in shards:
            with safe_open(folder / file, framework="pt") as weights:
                number += sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    except FileNotFoundError as error:
        reason = f"there are no weights as {WEIGHTS_FILE}, and {file} is missing; pickled weights are not read"
        raise _refused(folder, "missing", reason) from error
    except (*MALFORMED, SafetensorError) as error:
        with suppress(OSError):
            if (folder / file).open("rb").read(len(LFS_POINTER)) == LFS_POINTER:
                raise _refused(folder, "missing", f"{file} is a pointer of Git LFS: type git lfs pull") from error
        raise _refused(folder, "unreadable", f"{file} cannot be read: {error}") from error
    return number


@functools.lru_cache(maxsize=2)
def load_encoder(folder: Path, fingerprint: str, dtype: Type) -> PreTrainedModel:
    """Returns a frozen encoder; `fingerprint` is that of its files, so that changed files are read again.

    Raises:
        DataError: If its weights cannot be read, or are not those of its configuration.
    """
    from transformers import AutoModel

    config = read_config(folder)
    try:
        encoder, loaded = AutoModel.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            ignore_mismatched_sizes=True,  # which are refused below
            output_loading_info=True,
            use_safetensors=True,
            local_files_only=True,
            **NO_FOREIGN_CODE,
        )
    except Exception as error:  # transformers has no common class of errors
        raise _refused(folder, "unreadable", f"the weights cannot be read: {first_line(error)}") from error
    lacking = [*loaded["missing_keys"], *(name for name, *_ in loaded["mismatched_keys"])]
    if lacking := [name for name in lacking if not name.startswith("pooler.")]:
        reason = f"its weights do not fit {CONFIG_FILE}: {len(lacking)} are missing or of another size ({lacking[0]})"
        raise _refused(folder, "conflict", reason)
    encoder = _without_pooler(encoder).eval().requires_grad_(False)
    try:
        if not isinstance(encoder.get_input_embeddings(), nn.Embedding):
            raise ValueError("it has no table of vectors")
        differs = _reads_padding(encoder)
    except Exception as error:  # each encoder has errors of its own
        reason = f"{config.model_type} does not make states of ids alone: {first_line(error)}"
        raise _refused(folder, "unsupported", reason) from error
    if differs:
        reason = f"the states of {config.model_type} depend on the padding after a text, so on the texts next to it"
        raise _refused(folder, "unsupported", f"{reason}; choose another encoder, such as BERT")
    return encoder


def _reads_padding(encoder: PreTrainedModel) -> bool:
    """Whether the states of a text are others, or more, where padding follows it, in any layer."""
    padding = encoder.config.pad_token_id or 0
    ids = [number for number in range(encoder.config.vocab_size) if number != padding][-SHORT:]
    layers = []
    for length in (SHORT, LONG):
        ids_1L = torch.tensor([ids + [padding] * (length - SHORT)], device=encoder.device)
        mask_1L = (torch.arange(length, device=encoder.device) < SHORT).long()[None]
        with torch.no_grad():
            output = encoder(input_ids=ids_1L, attention_mask=mask_1L, output_hidden_states=True)
        shape = (1, length, encoder.config.hidden_size)
        hidden = [*output.hidden_states[: encoder.config.num_hidden_layers], output.last_hidden_state]
        if len(hidden) <= encoder.config.num_hidden_layers or any(states_1LE.shape != shape for states_1LE in hidden):
            return True
        layers.append(torch.cat([states_1LE[:, :SHORT].float() for states_1LE in hidden]))
    alone_KLE, padded_KLE = layers
    change_K = (padded_KLE - alone_KLE).norm(dim=(1, 2)) / alone_KLE.norm(dim=(1, 2))
    return bool((change_K > TOLERANCE[encoder.dtype]).any())


def _without_pooler(encoder: PreTrainedModel) -> PreTrainedModel:
    """Drops BERT's pooler, which no state depends on and whose parameters would never get a gradient."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = nn.Identity()
    return encoder


@contextmanager
def _starting_from(encoder: PreTrainedModel, inputs_BLI: Tensor) -> Iterator[None]:
    """Gives an encoder vectors in place of those of its ids."""
    length = inputs_BLI.shape[1]  # an encoder may add padding of its own, as Longformer does
    handle = encoder.get_input_embeddings().register_forward_hook(
        lambda module, arguments, embedded_BLI: torch.cat([inputs_BLI, embedded_BLI[:, length:]], dim=1)
    )
    try:
        yield
    finally:
        handle.remove()


def most_tokens(folder: Path, length: int | None) -> int | None:
    """Returns the most tokens of a text that an encoder has positions for, if `length` may be more; else None.

    Encoders such as RoBERTa number positions from the id of padding on, of which only their modules know.
    """
    config = read_config(folder)
    positions = getattr(config, "max_position_embeddings", None) or 0
    if positions <= 0 or (length is not None and length < positions - max(1, config.pad_token_id or 0)):
        return None
    from transformers import AutoModel

    try:
        with torch.device("meta"):
            modules = dict(AutoModel.from_config(config, **NO_FOREIGN_CODE).named_modules())
    except Exception as error:  # transformers has no common class of errors
        raise _refused(folder, "unreadable", f"{CONFIG_FILE} is that of no encoder: {first_line(error)}") from error
    before = [getattr(module, "padding_idx", None) for name, module in modules.items() if "position" in name]
    most = positions - max((padding + 1 for padding in before if padding is not None), default=0)
    return None if length is not None and length <= most else most
