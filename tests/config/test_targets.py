"""Loaded settings run no code that they name; classes may move; a label names the parts that differ."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from choices_of_ones_own import config_folder
from refusals import faults, refused

import sentattn
from sentattn import evaluate, predict
from sentattn.config import targets
from sentattn.config.compose import compose, override
from sentattn.config.groups import Choices
from sentattn.config.parameters import load
from sentattn.config.request import read_request
from sentattn.config.targets import label, slots
from sentattn.export import __main__ as export
from sentattn.run import yaml_text
from sentattn.sweep.config import read_plan

HARMFUL = ["subprocess.getoutput", "os.system", "builtins.exec", "harmful.Attention", "torch.hub.load"]
PLACES = [
    *("model", "model.embedding", "model.encoder", "model.attention", "model.pooling", "model.head"),
    *("data", "loss", "optimizer", "scheduler", "trainer", "logger"),
]
ELSEWHERE = ["objective", "model.attention.hops", "data.path", "tags", "unheard_of"]
"""Places where a class is never named."""
EVIL = {"model/attention/evil": "_target_: harmful.Attention\n"}


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that appears when anything harmful is run or imported."""
    file = tmp_path / "marker"
    (tmp_path / "harmful.py").write_text(f"open({str(file)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MARKER", "secret")
    yield file
    sys.modules.pop("harmful", None)
    assert not file.exists()


def poisoned(settings: Mapping[str, Any], place: str, target: str, marker: Path) -> dict[str, Any]:
    """Settings with a harmful `_target_` at a place."""
    changed: dict[str, Any] = copy.deepcopy(dict(settings))
    *parents, last = place.split(".")
    node = changed
    for part in parents:
        node = node[part]
    inner = node.get(last)
    harm = {
        "_target_": target,
        "cmd": f"touch {marker}",
        "command": f"touch {marker}",
        "object": f"open('{marker}','w')",
    }
    node[last] = [harm] if isinstance(inner, list) else {**(inner if isinstance(inner, dict) else {}), **harm}
    return changed


def write(file: Path, content: Any) -> Path:
    file.write_text(yaml_text(content) if "data" in content else yaml.safe_dump(content))
    return file


def kinds(call: Callable[[], object]) -> set[str]:
    return {kind for _, kind in refused(call)}


def test_a_class_outside_its_slot_is_unsafe(marker: Path) -> None:
    usual = compose([])
    for place, target in itertools.product([*PLACES, *ELSEWHERE], HARMFUL):
        settings = poisoned(usual, place, target, marker)
        [(key, kind)] = refused(partial(targets.check_targets, settings, Choices.of()))
        assert (key.removesuffix("[0]"), kind) == (place, "unsafe")


def test_loaded_settings_run_no_code(tmp_path: Path, marker: Path) -> None:
    settings = poisoned(compose([]), "model.attention", "harmful.Attention", marker)
    file = write(tmp_path / "config.yaml", settings)
    for words in ([f"from={file}", "seed=3"], [f"from={tmp_path}"], [f"resume={tmp_path}"]):
        assert kinds(partial(read_request, words)) == {"unsafe"}
    assert kinds(lambda: override(settings, ["data.limit=3"], only=["data"])) == {"unsafe"}


def test_a_loaded_model_runs_no_code(run_copy: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = yaml.safe_load((run_copy / "model" / "config.yaml").read_text())
    for place in (place for place in PLACES if place.startswith("model")):
        write(run_copy / "model" / "config.yaml", poisoned(config, place, "subprocess.getoutput", marker))
        assert kinds(lambda: sentattn.load(run_copy).predict(["Good."])) == {"unsafe"}
    for main, more in ((predict.main, ["text=Good."]), (evaluate.main, []), (export.main, [])):
        assert main([f"run={run_copy}", *more]) == 2
        assert "trust=true" in capsys.readouterr().err


def test_an_evaluation_runs_no_code_of_the_settings(run_copy: Path, marker: Path) -> None:
    settings = yaml.safe_load((run_copy / "config.yaml").read_text())
    write(run_copy / "config.yaml", poisoned(settings, "data", "os.system", marker))
    assert evaluate.main([f"run={run_copy}"]) == 2


def test_attributes_of_modules_of_the_package_are_refused(marker: Path) -> None:
    settings = compose([])
    module = "sentattn.models.attention.base"
    for target in (f"{module}.torch.hub.load", f"{module}.Tensor", 3, None, []):
        settings["model"]["attention"]["_target_"] = target
        assert refused(lambda: targets.check_targets(settings, Choices.of()))


@pytest.mark.parametrize(
    ("key", "text"), [("group", "${oc.env:MARKER}"), ("output_dir", "${oc.env:MARKER"), ("tags", ["${oc.env:MARKER}"])]
)
def test_references_in_loaded_settings_are_refused(key: str, text: Any, tmp_path: Path, marker: Path) -> None:
    file = write(tmp_path / "config.yaml", compose([]) | {key: text})
    for words in ([], ["model=transformer"], ["trust=true"]):
        assert [fault.kind for fault in faults([f"from={file}", *words], read_request)] == ["unsafe"]


def test_a_reference_cannot_hide_in_a_key_with_a_dot(tmp_path: Path, marker: Path) -> None:
    file = write(tmp_path / "config.yaml", compose([]) | {"a.b": {"c": "${oc.env:MARKER}"}})
    assert not any("secret" in fault.message for fault in faults([f"from={file}"], read_request))


@pytest.mark.parametrize(
    "words",
    [
        ["--config-dir=FOLDER", "model/attention=evil"],
        ["--config-dir", "FOLDER", "model/attention=evil"],
        ["model.attention._target_=harmful.Attention"],
        ["model={_target_: harmful.Attention}"],
        ["+model.attention._target_=harmful.Attention"],
        ["tags=[{_target_:harmful.Attention}]"],
        ["group=${oc.env:MARKER}"],
        ["trust=true"],
        ["hydra.searchpath=[FOLDER]"],
        ["model=../../evil"],
    ],
)
def test_a_file_of_arguments_runs_no_code(words: list[str], tmp_path: Path, marker: Path) -> None:
    folder = tmp_path / "conf"
    config_folder(folder, EVIL)
    file = write(tmp_path / "best.yaml", {"overrides": [word.replace("FOLDER", str(folder)) for word in words]})
    assert not any("secret" in fault.message for fault in faults([f"from={file}"], read_request))


def test_yaml_constructs_no_objects(tmp_path: Path, run_copy: Path, marker: Path) -> None:
    text = f"!!python/object/apply:os.system ['touch {marker}']\n"
    (tmp_path / "best.yaml").write_text(f"overrides: {text}")
    assert faults([f"from={tmp_path / 'best.yaml'}"], read_request)
    (run_copy / "config.yaml").write_text(f"model: {text}")
    (run_copy / "model" / "config.yaml").write_text(f"model: {text}")
    assert refused(lambda: sentattn.load(run_copy).settings)
    assert refused(lambda: sentattn.load(run_copy).classifier)


@pytest.mark.parametrize("word", ["--config-dir=FOLDER", "trust=true", "model.attention._target_=harmful.Attention"])
def test_a_sweep_file_runs_no_code(word: str, tmp_path: Path, marker: Path) -> None:
    config_folder(tmp_path / "conf", EVIL)
    words = [word.replace("FOLDER", str(tmp_path / "conf")), "model/attention=evil"]
    file = write(tmp_path / "sweep.yaml", {"overrides": words, "space": {"optimizer.lr": "interval(0,1)"}})
    assert faults([f"sweep={file}"], read_plan)


OWN = """
import torch
from sentattn.models.attention.base import Attended, Attention, masked_softmax
class Mine(Attention):
    def __init__(self, *, dim: int, hops: int = 1) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, hops
        self.queries = torch.nn.Parameter(torch.ones(hops, dim))
    def forward(self, states, mask):
        weights = masked_softmax(self.queries @ states.transpose(1, 2), mask)
        return Attended(weights @ states, weights)
"""


def test_other_classes_are_loaded_with_trust(run_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_attentions.py").write_text(OWN)
    mine = {"model/attention/mine": "_target_: my_attentions.Mine\nhops: 2\n"}
    folder = config_folder(tmp_path / "conf", mine)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = compose([folder, "model/attention=mine"])
    file = write(tmp_path / "config.yaml", settings)
    assert refused(lambda: read_request([f"from={file}"])) == [("model.attention", "unsafe")]
    assert read_request([f"from={file}", folder]).settings == settings
    assert read_request([f"from={file}", "trust=true"]).settings == settings

    from sentattn.build import build_model
    from sentattn.prediction.model import Classifier

    own = Classifier.load(run_copy / "model")
    config = own.config | {"model": {**own.config["model"], "attention": settings["model"]["attention"]}}
    model = build_model(config["model"], num_embeddings=len(own.tokenizer), classes=len(own.labels))
    Classifier(model=model, tokenizer=own.tokenizer, labels=own.labels, config=config).save(run_copy / "model")
    assert kinds(lambda: sentattn.load(run_copy).predict(["Good."])) == {"unsafe"}
    assert len(sentattn.load(run_copy, trust=True).predict(["Good."])) == 1
    assert predict.main([f"run={run_copy}", "text=Good.", "trust=true"]) == 0


def test_a_class_of_another_slot_is_not_called() -> None:
    from sentattn.build import build_model

    node = compose([])["model"]
    node["attention"] = {"_target_": "subprocess.getoutput", "cmd": "exit 1"}
    assert kinds(lambda: build_model(node, num_embeddings=3, classes=2)) == {"type"}


def test_every_class_of_conf_exists_in_its_slot() -> None:
    choices = Choices.of()
    for slot in PLACES:
        named = targets.named(slot, choices)
        assert named
        assert all(callable(load(str(target))) for target in named)


def test_the_label_of_a_variant_is_its_name() -> None:
    names = [name for name in Choices.of().names("model") if name != "states"]  # which has data of its own
    needed = {"pretrained": ["model.embedding.name=encoder"]}
    assert [label(compose([f"model={name}", *needed.get(name, [])])) for name in names] == names


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["model/attention=max"], "structured, attention=max"),
        (["model=mean", "model/embedding=ngrams"], "mean, embedding=ngrams"),
        (
            ["model/attention=feedforward", "model/encoder=lstm", "model/pooling=mean"],
            "structured, encoder=lstm, attention=feedforward, pooling=mean",
        ),
        (["model.attention.hops=8", "model.embedding.size=20"], "structured"),
        (["model=mean", "model/attention=structured", "model.name=structured"], "structured"),
        (["model=mean", "model.name=frozen", "model.freeze_attention=true"], "frozen"),
        (["model/wide=attended_ngrams"], "structured, wide=attended_ngrams"),
        (["model/wide=ngrams", "model.wide.attend=false"], "structured, wide=ngrams"),
        (
            ["model/wide=attended_ngrams", "model.wide.attend=uniform"],
            "structured, wide=attended_ngrams, wide.attend=uniform",
        ),
        (
            ["model/wide=attended_ngrams", "model.wide.attend=false"],
            "structured, wide=attended_ngrams, wide.attend=false",
        ),
    ],
)
def test_the_label_names_exchanged_parts(words: list[str], expected: str) -> None:
    assert label(compose(words)) == expected


def test_a_part_without_a_recorded_choice_has_the_name_of_its_class() -> None:
    settings = compose(["model/wide=ngrams"])
    del settings["choices"]["model/wide"]
    assert label(settings) == "structured, wide=WideNGrams"
    assert slots(settings)["wide"] == "WideNGrams"


def test_the_label_of_another_variant_is_its_name() -> None:
    settings = compose(["model/attention=max"])
    settings["model"]["name"] = "mine"
    assert label(settings) == "mine"


@pytest.mark.parametrize("settings", [{}, {"model": 3}, {"model": {}}])
def test_settings_without_a_model_have_no_label(settings: dict[str, Any]) -> None:
    assert label(settings) == "?"
