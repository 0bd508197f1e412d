"""What every attention and every variant must pass; both folders are globbed, nothing is registered."""

from __future__ import annotations

import atexit
import functools
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from encoder_files import write_encoder
from tiny import has_lstm_in_bfloat16
from torch import Tensor, nn

from sentattn.build import build_model, build_part
from sentattn.config.compose import compose
from sentattn.config.groups import Choices, conf_dir
from sentattn.config.parameters import known
from sentattn.data.readers.states import StateFile
from sentattn.data.states import StateTable
from sentattn.errors import SettingError
from sentattn.models.attention.base import Attended, Attention, masked_softmax
from sentattn.models.classifier import TextClassifier, attend
from sentattn.models.contract import errors, weight_errors
from sentattn.models.embedding import TrainingTexts
from sentattn.models.states import States

DIM, WORDS = 8, 30
BLIND = {"Feedforward": {"bias"}, "Structured": {"scores.bias"}, "Transformer": {"blocks.0.attention.key.bias"}}
"""Parameters that are added to all scores of a softmax alike, so that their gradient is 0."""


def temporary_folder() -> Path:
    """Makes a folder that is deleted when the tests end."""
    folder = Path(tempfile.mkdtemp(prefix="sentattn-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def documented_attention() -> Path:
    """Writes the attention that docs/attention.md adds, and returns its YAML file: it has to pass too."""
    folder = temporary_folder() / "attention"  # a name that is the same in every process that collects the tests
    folder.mkdir()
    page = (Path(__file__).parents[2] / "docs" / "attention.md").read_text(encoding="utf-8")
    [code] = [
        block for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "class LearnedQuery" in block
    ]
    [node] = [block for block in re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL) if "_target_" in block]
    (folder / "documented_query.py").write_text(code)
    node = node.replace("sentattn.models.attention.learned_query", "documented_query")
    (folder / "documented_query.yaml").write_text(node)
    sys.path.append(str(folder))
    return folder / "documented_query.yaml"


ATTENTIONS = [*sorted((conf_dir() / "model" / "attention").glob("*.yaml")), documented_attention()]
SPARSE = {
    f"{path.stem}, {normalizer}": (path, normalizer)
    for normalizer in ("sparsemax", "entmax15")
    for path in ATTENTIONS
    if "normalizer" in known(yaml.safe_load(path.read_text())).parameters
}
MEAN = compose(["model=mean"])["model"]
PRESETS = sorted((conf_dir() / "model").glob("[!_]*.yaml"))


def make_attention(path: Path, **settings: object) -> Attention:
    torch.manual_seed(0)
    node = yaml.safe_load(path.read_text()) | settings
    module = build_part("attention", Attention, node, dim=DIM, bidirectional=False)
    with torch.no_grad():
        for parameter in module.parameters():  # what starts at 0 has no gradient there
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module.double().eval()


def make_model(path: Path) -> TextClassifier:
    required = [f"model.embedding.name={encoder_folder()}"] if path.stem == "pretrained" else []
    torch.manual_seed(0)
    if path.stem == "states":
        node = compose(["data=states", "model=states", f"data.train={state_folder()}"])["model"]
        model: TextClassifier = build_model(node, num_embeddings=2, classes=3)
        assert isinstance(model.embedding, States)
        model.embedding.open(StateTable([StateFile(state_folder(), "data.train")]))
        return model.double().eval()
    node = compose([f"model={path.stem}", *required])["model"]
    return counted(build_model(node, num_embeddings=WORDS, classes=3)).double().eval()


@functools.cache
def state_folder() -> Path:
    """Writes the states of as many tokens as there are words."""
    folder = temporary_folder()
    np.save(folder / "states.npy", np.random.default_rng(0).normal(size=(WORDS, 6)).astype(np.float32))
    np.save(folder / "offsets.npy", np.array([0, WORDS]))
    return folder


@functools.cache
def encoder_folder() -> Path:
    """Writes a small random encoder, which a preset over a pretrained one needs."""
    return write_encoder(temporary_folder())


def counted(model: TextClassifier) -> TextClassifier:
    """Gives a wide part n-grams: those of a few training rows."""
    random = np.random.default_rng(0)
    tokens = random.integers(2, WORDS, 200)
    model.prepare_training(lambda: TrainingTexts(tokens, np.arange(0, 201, 10), random.integers(0, 3, 20)))
    return model


@pytest.fixture(params=[*(path.stem for path in ATTENTIONS), *SPARSE])
def attention(request: pytest.FixtureRequest) -> Attention:
    if request.param in SPARSE:
        path, normalizer = SPARSE[request.param]
        return make_attention(path, normalizer=normalizer)
    return make_attention(next(path for path in ATTENTIONS if path.stem == request.param))


@pytest.fixture(params=PRESETS, ids=lambda path: path.stem)
def model(request: pytest.FixtureRequest) -> TextClassifier:
    return make_model(request.param)


def ragged_mask(*lengths: int, width: int | None = None) -> Tensor:
    return torch.arange(width or max(lengths))[None] < torch.tensor(lengths)[:, None]


def states(mask_BL: Tensor, seed: int = 1) -> Tensor:
    """States with something on padding too: whatever an encoder leaves there must not count."""
    return torch.randn(*mask_BL.shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tokens(mask_BL: Tensor) -> Tensor:
    ids = torch.randint(2, WORDS, mask_BL.shape, generator=torch.Generator().manual_seed(2))
    return ids * mask_BL


def assert_weights_legal(weights_BRL: Tensor, mask_BL: Tensor) -> None:
    found = weight_errors(weights_BRL, mask_BL)
    assert found.pop("weights of a text sum to 1") < (1e-7 if weights_BRL.dtype == torch.float64 else 1e-5)
    assert set(found.values()) == {0}, found


def test_there_is_something_to_test() -> None:
    assert {"structured", "uniform"} <= {path.stem for path in ATTENTIONS}
    assert {"structured", "mean"} <= {path.stem for path in PRESETS}


@pytest.mark.parametrize("length", [1, 7])
def test_shapes(attention: Attention, length: int) -> None:
    mask_BL = ragged_mask(length, 1, length)
    attended = attention(states(mask_BL), mask_BL)
    assert attended.values_BRD.shape == (3, attention.hops, attention.out_dim)
    assert attended.weights_BRL.shape == (3, attention.hops, length)
    assert attended.pairs_BHLL is None or attended.pairs_BHLL.shape[2:] == (length, length)
    assert_weights_legal(attended.weights_BRL, mask_BL)


def test_batch_equals_one_by_one_in_any_order(attention: Attention) -> None:
    mask_BL = ragged_mask(7, 2, 4)
    all_states = states(mask_BL)
    together = attention(all_states, mask_BL)
    assert_weights_legal(together.weights_BRL, mask_BL)
    for row, length in enumerate((7, 2, 4)):
        alone = attention(all_states[row : row + 1, :length], mask_BL[row : row + 1, :length])
        torch.testing.assert_close(alone.values_BRD[0], together.values_BRD[row])
        torch.testing.assert_close(alone.weights_BRL[0], together.weights_BRL[row, :, :length])
    order = torch.tensor([2, 0, 1])
    turned = attention(all_states[order], mask_BL[order])
    torch.testing.assert_close(turned.values_BRD, together.values_BRD[order])


def test_left_out_tokens_count_as_if_they_were_not_there(attention: Attention) -> None:
    mask_BL = ragged_mask(7, 3, 5)
    kept_BL = mask_BL.clone()
    kept_BL[:, 0] = kept_BL[0, 3] = kept_BL[2, 4] = False
    states_BLD = states(mask_BL)
    attended = attend(attention, states_BLD, mask_BL, kept_BL, pairs=True)
    assert_weights_legal(attended.weights_BRL, kept_BL)
    for row in range(3):
        kept_L = kept_BL[row]
        alone_BLD, all_BL = states_BLD[row : row + 1, kept_L], torch.ones(1, int(kept_L.sum()), dtype=torch.bool)
        alone = attention(alone_BLD, all_BL)
        torch.testing.assert_close(attended.values_BRD[row], alone.values_BRD[0])
        torch.testing.assert_close(attended.weights_BRL[row][:, kept_L], alone.weights_BRL[0])
        pairs_BHLL = attention.pairs(alone_BLD, all_BL)
        if pairs_BHLL is not None:
            assert attended.pairs_BHLL is not None
            assert (attended.pairs_BHLL[row][:, ~kept_L] == 0).all()
            torch.testing.assert_close(attended.pairs_BHLL[row][:, kept_L][..., kept_L], pairs_BHLL[0])


def test_every_parameter_of_an_attention_gets_a_gradient(attention: Attention) -> None:
    mask_BL = ragged_mask(7, 3, 5)

    def loss() -> Tensor:
        attended: Attended = attention(states(mask_BL), mask_BL)
        return (attended.values_BRD.square()).sum() + attended.weights_BRL.square().sum()

    assert_gradients(attention, loss, BLIND.get(type(attention).__name__, set()))


def test_scoring_parameters_are_those_that_the_weights_depend_on(attention: Attention) -> None:
    mask_BL = ragged_mask(7, 3, 5)
    weights_BRL = attention(states(mask_BL), mask_BL).weights_BRL
    if weights_BRL.requires_grad:
        weights_BRL.square().sum().backward()
    scoring = {id(parameter) for parameter in attention.scoring_parameters()}
    for name, parameter in attention.named_parameters():
        changes = parameter.grad is not None and bool(parameter.grad.abs().max() > 1e-12)
        is_scoring = attention.learns and id(parameter) in scoring
        assert changes == (is_scoring and name not in BLIND.get(type(attention).__name__, ())), name


def test_every_parameter_of_a_variant_gets_a_gradient(model: TextClassifier) -> None:
    mask_BL = ragged_mask(7, 3, 5)
    slots = {"encoder": model.encoder, "attention": model.attention}
    blind = {f"{slot}.{name}" for slot, module in slots.items() for name in BLIND.get(type(module).__name__, ())}
    assert_gradients(model, lambda: model(tokens(mask_BL), mask_BL).logits_BC.square().sum(), blind)


def assert_gradients(module: nn.Module, loss: Callable[[], Tensor], blind: set[str]) -> None:
    names = {name for name, _ in module.named_parameters()}
    assert blind <= names or not names
    value = loss()
    if names:
        value.backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        size = float(parameter.grad.abs().max())
        assert size < 1e-12 if name in blind else size > 1e-12, (name, size)


def test_variant_ignores_padding_and_its_neighbours(model: TextClassifier) -> None:
    mask_BL = ragged_mask(7, 2, 4, width=11)
    ids = tokens(mask_BL)
    together = model(ids, mask_BL)
    assert together.logits_BC.shape == (3, 3)
    assert_weights_legal(together.attended.weights_BRL, mask_BL)
    rounded = {} if model.embedding.fingerprint is None else {"rtol": 0, "atol": 2e-3}  # states in float16
    assert max(errors(model, ids, mask_BL).values()) <= rounded.get("atol", 1e-7)
    order = torch.tensor([1, 2, 0])
    torch.testing.assert_close(model(ids[order], mask_BL[order]).logits_BC, together.logits_BC[order], **rounded)


def test_pairs_are_weights_over_real_tokens_where_a_variant_has_them() -> None:
    mask_BL, wider_BL = ragged_mask(7, 2, 4), ragged_mask(7, 2, 4, width=11)
    ids = tokens(wider_BL)
    pairwise = []
    for path in PRESETS:
        model = make_model(path)
        pairs_BHLL = model(ids, wider_BL, pairs=True).attended.pairs_BHLL
        if pairs_BHLL is None:
            continue
        pairwise.append(path.stem)
        expected_BHL = wider_BL[:, None].expand(pairs_BHLL.shape[:3]).to(pairs_BHLL.dtype)
        assert (pairs_BHLL >= 0).all()
        assert (pairs_BHLL.masked_select(~wider_BL[:, None, None]) == 0).all()
        torch.testing.assert_close(pairs_BHLL.sum(3), expected_BHL)
        narrow_BHLL = model(ids[:, :7], mask_BL, pairs=True).attended.pairs_BHLL
        torch.testing.assert_close(narrow_BHLL, pairs_BHLL[..., :7, :7])
    assert "transformer" in pairwise


@pytest.mark.parametrize("path", ATTENTIONS + PRESETS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_same_seed_same_numbers_and_state_restores(path: Path, tmp_path: Path) -> None:
    make: Callable[[Path], Any] = make_attention if path in ATTENTIONS else make_model
    first, second = make(path), make(path)
    mask_BL = ragged_mask(4, 2)
    inputs = states(mask_BL) if path in ATTENTIONS else tokens(mask_BL)
    expected = first(inputs, mask_BL)[0]
    assert torch.equal(expected, second(inputs, mask_BL)[0])
    torch.save(first.state_dict(), tmp_path / "state.pt")
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(1.0)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(expected, second(inputs, mask_BL)[0])


@pytest.mark.parametrize("path", ATTENTIONS, ids=lambda path: path.stem)
def test_bad_constructor_values_are_refused_by_name(path: Path) -> None:
    node = yaml.safe_load(path.read_text())
    with pytest.raises(SettingError, match="dim"):
        build_part("attention", Attention, node, dim=0, bidirectional=False)
    for name, value in node.items():
        if name != "_target_":
            bad: object = "nonsense" if isinstance(value, int | float) else -1
            with pytest.raises(SettingError, match=name):
                build_part("attention", Attention, {**node, name: bad}, dim=DIM, bidirectional=False)


def test_bfloat16_autocast_is_finite_and_keeps_the_rules(model: TextClassifier) -> None:
    if any(isinstance(module, nn.LSTM) for module in model.modules()) and not has_lstm_in_bfloat16():
        pytest.skip("this processor has no LSTM in bfloat16")
    mask_BL = ragged_mask(7, 3)
    with torch.autocast("cpu", torch.bfloat16):
        classified = model.float()(tokens(mask_BL), mask_BL)
    assert classified.logits_BC.isfinite().all()
    weights_BRL = classified.attended.weights_BRL
    assert weights_BRL.dtype == torch.float32
    assert_weights_legal(weights_BRL, mask_BL)


CHOICES = Choices.of()
SLOTS = ("encoder", "attention", "pooling")
ENCODERS, ALL_ATTENTIONS, POOLINGS = (CHOICES.names(f"model/{slot}") for slot in SLOTS)
PAIRS = [
    (encoder, attention, POOLINGS[(place + other) % len(POOLINGS)])
    for (place, encoder), (other, attention) in product(enumerate(ENCODERS), enumerate(ALL_ATTENTIONS))
]
"""Combinations in which each choice of a slot meets each choice of every other slot."""


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_any_parts_fit_and_ignore_padding(names: tuple[str, ...]) -> None:
    parts = {slot: dict(CHOICES.node(f"model/{slot}", name)) for slot, name in zip(SLOTS, names, strict=True)}
    parts["pooling"] |= {"p": 3, "q": 2} if names[-1] == "prune" else {}
    torch.manual_seed(0)
    model = build_model(dict(MEAN) | parts, num_embeddings=9, classes=3).double().eval()
    tokens_BL = torch.tensor([[2, 3, 4, 5, 6], [7, 8, 0, 0, 0]])
    assert errors(model, tokens_BL, tokens_BL != 0)["a text alone equals the text in a padded batch"] < 1e-7


class Broken(Attention):
    """An attention that breaks a rule."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule, self.out_dim, self.hops = rule, 1, 1

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        weights_B1L = masked_softmax(states_BLD.mean(dim=2)[:, None], mask_BL)
        if self.rule == "mask":
            weights_B1L = states_BLD.mean(dim=2)[:, None].softmax(dim=-1)
        if self.rule == "sum":
            weights_B1L = 2 * weights_B1L
        if self.rule == "sign":
            weights_B1L = weights_B1L + torch.tensor([1.0, -1.0] + [0.0] * (mask_BL.shape[1] - 2))
        if self.rule == "nan":
            weights_B1L = weights_B1L * torch.nan
        values_B1D = weights_B1L @ states_BLD
        return Attended(values_B1D + (states_BLD.shape[1] if self.rule == "values" else 0), weights_B1L)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("", set()),
        ("mask", {"a text alone equals the text in a padded batch", "weights of padding are 0"}),
        ("values", {"a text alone equals the text in a padded batch"}),
        ("sum", {"weights of a text sum to 1"}),
        ("sign", {"weights are 0 or more"}),
    ],
)
def test_an_attention_that_breaks_a_rule_is_found(rule: str, broken: set[str]) -> None:
    model = make_model(conf_dir() / "model" / "mean.yaml")
    model.attention = Broken(rule)
    mask_BL = ragged_mask(7, 3)
    assert {name for name, error in errors(model, tokens(mask_BL), mask_BL).items() if error > 1e-6} == broken
    model.attention = Broken("nan")
    assert set(errors(model, tokens(mask_BL), mask_BL).values()) == {math.inf}
