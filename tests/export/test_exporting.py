"""Every variant and every part, exported and read without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from portable_runs import LABELS, MAX_LENGTH, TEXTS, WORDS, classifier, write_run
from torch import Tensor, nn

import sentattn
from sentattn.config.groups import Choices
from sentattn.errors import RunError
from sentattn.export import __main__ as export
from sentattn.export import exporting
from sentattn.inference import Classifier
from sentattn.models.attention.base import Attended
from sentattn.models.attention.uniform import Uniform
from sentattn.models.encoders.base import Encoder
from sentattn.run import Run

CHOICES = Choices.of()
PRUNE = ("model.pooling.p=3", "model.pooling.q=2")
OTHERS = [  # with the variants: every part, and every quirk that changes a model
    ("model=feedforward", "faithful=true", "model/embedding=ngrams"),
    ("model=relation", "faithful=true", "model.attention.self_pairs=false", "data.max_length=null"),
    ("model=structured", "data.max_length=1"),
    ("model=structured", "model/pooling=prune", *PRUNE, "model/embedding=ngrams", "model.embedding.ngram_table=hashed"),
    ("model=lstm_max", "model/attention=last", "model/pooling=mean", "model.encoder.layers=2", "data.clip=head"),
    ("model=mean", "data.tokenizer=spacy", "data.lowercase=false", "data.clip=tail"),
]
# As on a machine without them: neither torch nor sentattn can be imported.
WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = sys.modules["sentattn"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def without_torch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", WITHOUT_TORCH, str(folder / "predict.py"), *arguments]
    return subprocess.run(program, capture_output=True, text=True, cwd=folder, check=False)


def assert_same(run: Run) -> None:
    """The example gives what `predict` gives, for texts of several lengths at once."""
    done = without_torch(run.path / export.FOLDER, "--json", *TEXTS)
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for one, expected in zip(found, run.predict(TEXTS), strict=True):
        other = json.loads(json.dumps(expected.to_json()))
        for key in ("text", "label", "tokens", "spans"):
            assert one[key] == other[key]
        assert list(one["probabilities"]) == LABELS
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)
        for row, expected_row in zip(one["attention"], other["attention"], strict=True):
            assert row == pytest.approx(expected_row, abs=1e-4)


@pytest.mark.parametrize("name", CHOICES.names("model"))
def test_every_variant_runs_without_torch(name: str, exported: Callable[..., Run]) -> None:
    assert_same(exported(f"model={name}"))


@pytest.mark.parametrize("settings", OTHERS, ids=" ".join)
def test_other_parts_and_quirks_run_without_torch(settings: tuple[str, ...], exported: Callable[..., Run]) -> None:
    assert_same(exported(*settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    list(product(*(CHOICES.names(f"model/{slot}") for slot in ("encoder", "attention", "pooling")))),
    ids="-".join,
)
def test_any_parts_together(names: tuple[str, ...], tmp_path: Path) -> None:
    encoder, attention, pooling = names
    parts = (f"model/encoder={encoder}", f"model/attention={attention}", f"model/pooling={pooling}")
    exporting.export(classifier("model=mean", *parts, *(PRUNE if pooling == "prune" else ())), tmp_path / "onnx")
    assert (tmp_path / "onnx" / "model.onnx").is_file()


def test_the_texts_differ_to_the_models_compared(exported: Callable[..., Run]) -> None:
    for settings in (("model=structured",), OTHERS[0]):
        chances = [one.probabilities["pos"] for one in exported(*settings).predict(TEXTS)]
        assert max(chances) - min(chances) > 0.1


def test_the_graph_takes_any_batch_and_length(folder: Path) -> None:
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    inputs = {one.name: (one.shape, one.type) for one in session.get_inputs()}
    assert inputs == {"tokens": (["batch", "length"], "tensor(int64)"), "lengths": (["batch"], "tensor(int64)")}
    outputs = {one.name: (one.shape, one.type) for one in session.get_outputs()}
    assert outputs["probabilities"] == (["batch", 3], "tensor(float)")
    assert outputs["attention"] == (["batch", 1, "length"], "tensor(float)")


def test_what_stands_beside_the_graph(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(exporting.FILES)
    assert json.loads((folder / "labels.json").read_text()) == LABELS
    config = json.loads((folder / "config.json").read_text())
    assert config["sentattn"] == sentattn.__version__
    assert (config["model"], config["classes"]) == ("mean", LABELS)
    assert (config["max_length"], config["clip"], config["lowercase"]) == (MAX_LENGTH, "both", True)
    assert config["inputs"]["tokens"]["shape"] == config["outputs"]["attention"]["shape"][::2] == ["batch", "length"]
    assert config["outputs"]["probabilities"]["shape"] == ["batch", 3]
    assert config["compared"]["largest_difference"] <= 1e-4
    assert config["compared"]["shapes"] == [[1, 1], [1, 2], [3, 7], [1, MAX_LENGTH]]
    tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(tokens) == len(WORDS) + 2


def test_the_graph_holds_no_paths(folder: Path) -> None:
    graph = onnx.load(folder / "model.onnx")
    assert graph.opset_import[0].version == json.loads((folder / "config.json").read_text())["opset"]
    content = (folder / "model.onnx").read_bytes()
    assert b".py" not in content
    assert str(Path(sentattn.__file__).parent).encode() not in content


def test_weights_of_half_precision_become_single(tmp_path: Path) -> None:
    run = write_run(tmp_path, "model=mean")
    run.classifier.model.to(torch.bfloat16)
    run.classifier.save(tmp_path / "model")
    assert {weight.dtype for weight in Run(tmp_path).classifier.model.parameters()} == {torch.float32}


class Stubborn(Uniform):
    """Weighs as it likes the sum of the states: which operators are run depends on numbers."""

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        return super().forward(states_BLD if states_BLD.sum() > 0 else -states_BLD, mask_BL)


class Recurrent(Encoder):
    """torch's own bidirectional LSTM, as a user may write it: exported, it would have one length."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(dim, dim, bidirectional=True, batch_first=True)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        ahead, behind = self.lstm(states_BLE)[0].chunk(2, dim=-1)
        return ahead + behind


@pytest.mark.parametrize(("slot", "part"), [("attention", Stubborn(dim=100)), ("encoder", Recurrent(100))])
def test_what_cannot_be_exported_is_refused_by_name(slot: str, part: nn.Module, tmp_path: Path) -> None:
    made = classifier("model=mean")
    setattr(made.model, slot, part)
    with pytest.raises(RunError, match="mean cannot be exported: "):
        exporting.export(made, tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_differs_is_not_written(mean: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = classifier("model=mean", "seed=1")  # other weights

    def write_other(made: Classifier, path: Path, *, max_length: int | None) -> None:
        path.write_bytes((mean.path / "onnx" / "model.onnx").read_bytes())

    monkeypatch.setattr(exporting, "write_graph", write_other)
    with pytest.raises(RunError, match=r"mean differs from the model by .*, more than 1e-04; nothing was written"):
        exporting.export(other, tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_example_prints_a_text_with_its_attention(mean: Run) -> None:
    [prediction] = mean.predict(["The film"])
    done = without_torch(mean.path / "onnx", "The film")
    first, *rest = done.stdout.splitlines()
    assert first == f"{prediction.label}: The film"
    assert [line.split() for line in rest[-2:]] == [["The", "0.500"], ["film", "0.500"]]
    shares = {name: f"{100 * share:.1f}%" for name, share in prediction.probabilities.items()}
    assert dict(line.split()[::-1] for line in rest[:3]) == shares


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 2, "usage: python predict.py"),
        (["--help"], 0, "usage: python predict.py"),
        (["a", " "], 2, "no word or sign"),
    ],
)
def test_the_example_says_what_is_wrong(folder: Path, arguments: list[str], code: int, sentence: str) -> None:
    done = without_torch(folder, *arguments)
    assert done.returncode == code
    assert sentence in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
