"""Every variant and every part, exported and run without torch."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from refusals import assert_refused, refused
from torch import Tensor, nn
from torch.nn.functional import pad
from untrained_runs import LABELS, MAX_LENGTH, TEXTS, WORDS, classifier, write_run

import sentattn
from sentattn.config.groups import Choices
from sentattn.export import __main__ as export
from sentattn.export import onnx_folder as export_folder
from sentattn.export import predict as script
from sentattn.models.attention.base import Attended, Attention
from sentattn.models.attention.uniform import Uniform
from sentattn.models.encoders.base import Encoder
from sentattn.models.head import Head
from sentattn.models.pooling import Flatten
from sentattn.prediction.model import Classifier, LoadedRun

CHOICES = Choices.of()
PRUNE = ("model.pooling.p=3", "model.pooling.q=2")
OTHERS = [  # with the variants and ATTENTIONS: every part, and every setting that changes the graph
    ("experiment=relation_imdb_faithful", "model.attention.self_pairs=false", "data.max_length=null"),
    ("model=mean", "model/attention=structured", "model/pooling=prune", *PRUNE, "model/embedding=ngrams"),
    ("model=lstm_max", "model/attention=last", "model/pooling=mean", "model.encoder.layers=2", "data.clip=head"),
    ("model=mean", "model/wide=attended_ngrams", "model.wide.vocab_size=50", "model.wide.orders=[1,3]"),
    ("model=wide", "model.wide.orders=[1,2]"),
    ("model=mean", "data.tokenizer=basic_english", "data.lowercase=false", "data.clip=tail"),
]
OF_NGRAMS = {"model/embedding=ngrams", "model/wide=attended_ngrams", "model=wide"}
SET = ("feedforward", "gated", "query")
ATTENTIONS = [
    *([f"model/attention={name}"] for name in CHOICES.names("model/attention") if name not in ("relation", *SET)),
    ["model/attention=feedforward", "model.attention.squash=tanh", "model.attention.position_bias=9"],
    ["model/attention=gated", "model.attention.hops=2"],
    ["model/attention=query", "model.attention.hops=3"],
    ["model/attention=query", "model.attention.query_from=first"],
    ["model/attention=statistics", "model.attention.weights=uniform"],
    ["model/attention=structured", "model.attention.normalizer=sparsemax"],
    ["model/attention=linear", "model.attention.normalizer=entmax15"],
]
# Neither torch nor sentattn can be imported.
WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = sys.modules["sentattn"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def without_torch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", WITHOUT_TORCH, str(folder / "predict.py"), *arguments]
    return subprocess.run(program, capture_output=True, text=True, cwd=folder, check=False)


def assert_same(folder: Path, model: LoadedRun | Classifier) -> None:
    """Asserts that an export predicts what its model predicts, for texts of several lengths at once."""
    assert (folder / "predict.py").read_bytes() == Path(script.__file__).read_bytes()
    predictions = script.Model(folder).predict(TEXTS)
    shares = [prediction["probabilities"]["pos"] for prediction in predictions]
    assert max(shares) - min(shares) > 0.05, "the model hardly reads its texts, so that errors cannot be seen"
    for prediction, expected in zip(predictions, model.predict(TEXTS), strict=True):
        exported, other = json.loads(json.dumps(prediction)), json.loads(json.dumps(expected.to_json()))
        for inside in ("cut", "parts", "ngram_weights"):  # the graph gives the sum alone
            other.pop(inside, None)
        assert list(exported) == list(other)
        for key in ("text", "label", "tokens", "spans", "unknown"):
            assert exported[key] == other[key]
        assert list(exported["probabilities"]) == LABELS
        assert exported["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)
        for row, expected_row in zip(exported["attention"], other["attention"], strict=True):
            assert row == pytest.approx(expected_row, abs=1e-4)


def test_a_text_without_a_token_is_predicted_next_to_others(exported: Callable[..., LoadedRun]) -> None:
    folder = exported("model=mean").path / export.ONNX
    model = script.Model(str(folder))
    empty, good, blank = model.predict(["", "good film", " \n"])
    assert (empty["label"], empty["probabilities"], empty["tokens"]) == (None, {}, [])
    assert blank == empty | {"text": " \n"}
    assert good == model.predict(["good film"])[0]
    assert model.predict([]) == []
    for texts in ("good film", ["good film", None], [5]):
        with pytest.raises(TypeError):
            model.predict(texts)  # type: ignore[arg-type]
    assert list(script.lines(empty)) == ["no text: "]
    assert without_torch(folder, "", "good film").returncode == 0


LIKE_OTHERS = ("additive", "feedforward", "lstm_max", "lstm_mean", "relation_plain", "wide")
"""Variants whose parts are those of other models here."""


# test_export_pieces.py has models over a pretrained encoder.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else ())
        for name in CHOICES.names("model")
        if name not in ("pretrained", "states")
    ],
)
def test_every_variant_gives_the_predictions_of_its_run(name: str, exported: Callable[..., LoadedRun]) -> None:
    run = exported(f"model={name}")
    assert_same(run.path / export.ONNX, run)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(words, marks=pytest.mark.slow if OF_NGRAMS & {*words} else (), id=" ".join(words))
        for words in OTHERS
    ],
)
def test_other_parts_and_settings_give_the_predictions_of_their_run(
    settings: tuple[str, ...], exported: Callable[..., LoadedRun]
) -> None:
    run = exported(*settings)
    assert_same(run.path / export.ONNX, run)


class Together(Attention):
    """Several attentions over the same states: the hops of all, one after another."""

    def __init__(self, parts: list[Attention]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.hops = sum(part.hops for part in parts)
        self.out_dim = max(part.out_dim for part in parts)

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        attended = [part(states_BLD, mask_BL) for part in self.parts]
        values = [pad(one.values_BRD, (0, self.out_dim - one.values_BRD.shape[2])) for one in attended]
        return Attended(torch.cat(values, dim=1), torch.cat([one.weights_BRL for one in attended], dim=1))


@pytest.mark.slow
def test_every_attention_gives_its_weights(tmp_path: Path) -> None:
    attention = Together([classifier("model=mean", *settings).model.attention for settings in ATTENTIONS])
    together = classifier("model=mean")
    together.model.attention = attention
    together.model.pooling = Flatten(dim=attention.out_dim, hops=attention.hops)
    together.model.head = Head(dim=attention.out_dim * attention.hops, classes=len(LABELS))
    export_folder.write_export(together, tmp_path / "onnx")
    assert_same(tmp_path / "onnx", together)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    list(product(*(CHOICES.names(f"model/{slot}") for slot in ("encoder", "attention", "pooling")))),
    ids="-".join,
)
def test_any_parts_together(names: tuple[str, ...], tmp_path: Path) -> None:
    encoder, attention, pooling = names
    parts = (f"model/encoder={encoder}", f"model/attention={attention}", f"model/pooling={pooling}")
    export_folder.write_export(
        classifier("model=mean", *parts, *(PRUNE if pooling == "prune" else ())), tmp_path / "onnx"
    )
    assert (tmp_path / "onnx" / "model.onnx").is_file()


def test_the_graph_takes_any_batch_and_length(folder: Path) -> None:
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    inputs = {one.name: (one.shape, one.type) for one in session.get_inputs()}
    assert inputs == {"tokens": (["batch", "length"], "tensor(int64)"), "lengths": (["batch"], "tensor(int64)")}
    outputs = {one.name: (one.shape, one.type) for one in session.get_outputs()}
    assert outputs["probabilities"] == (["batch", 3], "tensor(float)")
    assert outputs["attention"] == (["batch", 1, "length"], "tensor(float)")


def test_files_of_an_export(folder: Path) -> None:
    names = ["config.json", "labels.json", "model.onnx", "predict.py", "tokenizer.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / "labels.json").read_text()) == LABELS
    config = json.loads((folder / "config.json").read_text())
    assert config["sentattn"] == sentattn.__version__
    assert (config["model"], config["classes"]) == ("mean", LABELS)
    assert (config["max_length"], config["clip"], config["tokenizer"]) == (MAX_LENGTH, "both", "words")
    assert config["inputs"]["tokens"]["shape"] == config["outputs"]["attention"]["shape"][::2] == ["batch", "length"]
    assert config["outputs"]["probabilities"]["shape"] == ["batch", 3]
    tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(tokens) == len(WORDS) + 2


def test_the_graph_holds_no_paths(folder: Path) -> None:
    graph = onnx.load(folder / "model.onnx")
    assert graph.opset_import[0].version == json.loads((folder / "config.json").read_text())["opset"]
    content = (folder / "model.onnx").read_bytes()
    assert b".py" not in content
    assert str(Path(sentattn.__file__).parent).encode() not in content


def test_weights_are_loaded_in_float32(tmp_path: Path) -> None:
    run = write_run(tmp_path, "model=mean")
    run.classifier.model.to(torch.bfloat16)
    run.classifier.save(tmp_path / "model")
    assert {weight.dtype for weight in LoadedRun(tmp_path).classifier.model.parameters()} == {torch.float32}


class DataDependent(Uniform):
    """Depends on the sum of the states: which operators run depends on values."""

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        return super().forward(states_BLD if states_BLD.sum() > 0 else -states_BLD, mask_BL)


class Recurrent(Encoder):
    """torch's bidirectional LSTM, as a user may write it: its graph would have one length."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(dim, dim, bidirectional=True, batch_first=True)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        forward, backward = self.lstm(states_BLE)[0].chunk(2, dim=-1)
        return forward + backward


@pytest.mark.parametrize(("slot", "part"), [("attention", DataDependent(dim=100)), ("encoder", Recurrent(100))])
def test_a_model_that_cannot_be_exported_is_refused_by_name(slot: str, part: nn.Module, tmp_path: Path) -> None:
    exported = classifier("model=mean")
    setattr(exported.model, slot, part)
    own = __file__.rpartition("/")[2] if slot == "attention" else "sentattn.predict"  # the line that torch cannot read
    parts = (" mean ", own)
    assert_refused(lambda: export_folder.write_export(exported, tmp_path / "onnx"), "format", "unsupported", *parts)
    assert list(tmp_path.iterdir()) == []


def test_a_model_over_words_of_spacy_is_refused(tmp_path: Path) -> None:
    of_spacy = classifier("model=mean", "data.tokenizer=spacy")
    assert refused(lambda: export_folder.write_export(of_spacy, tmp_path / "onnx")) == [("format", "unsupported")]


@pytest.mark.parametrize("change", [1e-2, math.nan, math.inf, None])
def test_a_graph_that_differs_or_is_none_is_not_written(
    change: float | None, mean: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, other = (mean.path / "onnx" / "model.onnx").read_bytes(), LoadedRun(mean.path).classifier
    with torch.no_grad():
        other.model.head.layers[-1].bias[0] += change or 0  # type: ignore[index, operator, union-attr]
    written = b"nothing" if change is None else graph
    monkeypatch.setattr(export_folder, "write_graph", lambda model, path, **_: path.write_bytes(written))
    assert refused(lambda: export_folder.write_export(other, tmp_path / "onnx")) == [("format", "failed")]
    assert list(tmp_path.iterdir()) == []


def test_the_script_prints_a_text_with_its_attention_without_torch(mean: LoadedRun) -> None:
    [prediction] = mean.predict(["The film zzz"])
    printed = without_torch(mean.path / "onnx", "The film zzz")
    assert (printed.returncode, printed.stderr) == (0, "")
    first, *rest = printed.stdout.splitlines()
    assert first == f"{prediction.label}: The film zzz"
    assert rest[3].startswith("  1 of 3 tokens ")
    assert rest[3].endswith(": zzz")
    assert [line.split() for line in rest[-3:]] == [["The", "0.333"], ["film", "0.333"], ["zzz", "0.333"]]
    shares = {name: f"{100 * share:.1f}%" for name, share in prediction.probabilities.items()}
    assert dict(line.split()[::-1] for line in rest[:3]) == shares


def test_the_script_prints_the_ten_most_probable_of_many_classes() -> None:
    shares = {f"class {number}": number / 66 for number in range(12)}
    no_tokens = {"tokens": [], "unknown": [], "attention": [[]]}
    _, *printed = script.lines({"label": "class 11", "text": "", "probabilities": shares, **no_tokens})
    assert [line.split("  ")[-1] for line in printed] == [f"class {number}" for number in range(11, 1, -1)]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [([], 2, "usage: python predict.py"), (["--help"], 0, "usage: python predict.py"), (["a", " "], 0, "no text: ")],
)
def test_the_script_reports_errors(
    folder: Path,
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script, "__file__", str(folder / "predict.py"))
    assert script.main(arguments) == code
    assert message in "".join(capsys.readouterr())
