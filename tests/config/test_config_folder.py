"""Choices and experiments from a folder of one's own."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import yaml
from choices_of_ones_own import config_folder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import faults, kinds

from sentattn.compare.runs import names
from sentattn.config.compose import compose, override
from sentattn.config.hashing import setting_hash
from sentattn.config.request import read_request
from sentattn.config.targets import label
from sentattn.errors import SettingError
from sentattn.run import yaml_text


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own configuration, in a folder with signs that Hydra's grammar does not like."""
    folder = tmp_path / "my, (conf)'s"
    files = {
        "model/attention/mine": "# Mine.\n_target_: users_own.Mine\npower: 2.0\nplain: ???\n",
        "model/attention/gone": "_target_: users_gone.Gone\n",
        "model/partial": "defaults: [embedding: words, encoder: identity, attention: uniform]\nname: partial\n",
        "experiment/good": "# @package _global_\n# Good.\ndefaults:\n  - override /scheduler: step\n"
        "model: {attention: {hops: 8}}\nscheduler: {step_epochs: '${trainer.max_epochs}'}\n",
        "experiment/bad": "# @package _global_\nmodel: {attention: {dim: 3, heads: 2}}\nfoo: 1\nseed: -3\n"
        "trainer: {logger: x}\nobjective: 3\n",
        "experiment/missing": "# @package _global_\ndefaults:\n  - override /model: nowhere\n",
        "experiment/broken": "a: [1\n",
    }
    config_folder(folder, files)
    (tmp_path / "users_own.py").write_text(
        "from sentattn.models.attention.base import Attention\n"
        "class Mine(Attention):\n"
        "    learns = False\n"
        "    def __init__(self, *, dim, power: float = 1.0, plain: int): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_a_choice_of_a_config_folder_keeps_its_name(mine: Path, tmp_path: Path) -> None:
    words = ["model/attention=mine", "model.attention.plain=1"]
    settings = compose([f"--config-dir={mine}", *words])
    assert settings["model"]["attention"] == {"_target_": "users_own.Mine", "power": 2.0, "plain": 1}
    assert settings["choices"] == compose([])["choices"] | {"model/attention": "mine"}
    without = {key: value for key, value in settings.items() if key != "choices"}
    assert setting_hash(settings) == setting_hash(without)
    saved = tmp_path / "config.yaml"
    saved.write_text(yaml_text(settings))
    loaded = read_request([f"from={saved}", f"--config-dir={mine}", "model.attention.power=3.0"]).settings
    changed = {**settings["model"]["attention"], "power": 3.0}
    assert loaded == {**settings, "model": {**settings["model"], "attention": changed}}
    trusted = [f"from={saved}", "trust=true"]
    assert read_request([*trusted, "model.attention.power=3.0"]).settings == loaded
    assert kinds([*trusted, "model.attention.dim=3"], read_request) == [("model.attention.dim", "unsupported")]
    assert label(loaded) == names([loaded])[0] == "structured, attention=mine"
    other = override(settings, ["model=mean"], trust=True)
    assert other["choices"] == compose(["model=mean"])["choices"]
    assert override(other, [f"--config-dir={mine}", *words])["choices"] == other["choices"] | {
        "model/attention": "mine"
    }


@pytest.mark.parametrize("choices", [[1], {"model/attention": 3}])
def test_choices_of_another_type_are_refused(choices: object) -> None:
    saved = compose([]) | {"choices": choices}
    assert kinds(["seed=1"], lambda words: override(saved, words)) == [("choices", "type")]


def test_faults_of_a_config_folder(mine: Path) -> None:
    own = f"--config-dir={mine}"
    assert kinds([own, "model/attention=mine"]) == [("model.attention.plain", "missing")]
    assert kinds([own, "model/attention=gone"]) == [("model.attention", "not_found")]
    penalised = [own, "model/attention=mine", "model.attention.plain=1", "loss.penalty=1"]
    assert kinds(penalised) == [("loss.penalty", "no_effect")]
    assert kinds([own, "model=partial"]) == [("model.pooling", "missing")]
    (mine / "model" / "mean.yaml").write_text("name: mean\n")
    assert kinds([own]) == [("model", "conflict")]


def test_typed_settings_replace_those_of_an_experiment(mine: Path) -> None:
    settings = compose(["--config-dir", str(mine), "experiment=good", "trainer.max_epochs=7"])
    assert settings["model"]["attention"]["hops"] == 8
    assert settings["scheduler"].pop("_target_").endswith(".Step")
    assert settings["scheduler"] == {"step_epochs": 7, "gamma": 0.5}
    other = compose(["--config-dir", str(mine), "experiment=good", "model.attention.hops=2"])
    assert other["model"]["attention"]["hops"] == 2


def test_a_setting_of_an_experiment_without_its_choice_is_refused(mine: Path) -> None:
    (fault,) = faults(["--config-dir", str(mine), "experiment=good", "model=mean"])
    assert (fault.key, fault.kind) == ("model.attention.hops", "unknown")
    assert fault.message.startswith("experiment=good: ")


def test_faults_of_an_experiment(mine: Path) -> None:
    own = ["--config-dir", str(mine)]
    found = faults([*own, "experiment=bad"])
    assert all(fault.message.startswith("experiment=bad: ") for fault in found)
    assert {(fault.key, fault.kind) for fault in found} == {
        ("model.attention.dim", "unsupported"),
        ("model.attention.heads", "unknown"),
        ("foo", "unknown"),
        ("seed", "range"),
        ("trainer.logger", "unsupported"),
        ("objective", "unknown"),
    }
    (missing,) = faults([*own, "experiment=missing"])
    assert "model/nowhere" in missing.message
    (broken,) = faults([*own, "experiment=broken"])
    assert broken.kind == "unreadable"
    assert "broken.yaml" in broken.message
    assert "line 1" in broken.message


def test_an_experiment_cannot_change_saved_settings(mine: Path) -> None:
    words = ["--config-dir", str(mine), "experiment=good"]
    assert kinds(words, lambda words: override(compose([]), words)) == [("experiment", "unsupported")]


KEYS = st.sampled_from(["_target_", "defaults", "name", "hops", "attention", "_self_", "trainer", "a.b", "", 5])
LEAVES = st.sampled_from(
    [None, 5, 1e308, True, "", "structured", "sentattn.models.attention.structured.Structured", "a.b"]
)
NODES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3))


@settings(max_examples=12, deadline=None)
@given(group=st.sampled_from(["model/attention", "model", "data", "experiment"]), node=NODES)
@example(group="model/attention", node=["a"])
@example(group="data", node=5)
@example(group="model/attention", node={"_target_": ["a"]})
@example(group="model", node={"attention": {"_target_": {"a": 5}}})
@example(group="experiment", node={"defaults": 5})
@example(group="model", node={"defaults": [{5: 4}]})
def test_any_yaml_as_a_choice_is_composed_or_refused(
    group: str, node: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = config_folder(tmp_path_factory.mktemp("conf"), {f"{group}/mine": yaml.safe_dump(node)})
    with contextlib.suppress(SettingError):
        assert compose([f"{group}=mine", folder])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[1, 2]", "unreadable"),
        ("'1'", "unreadable"),
        ("name: ${b", "unreadable"),
        ("_target_: [a]", "type"),
        ("_target_: 5", "type"),
        ("defaults: 5", "unreadable"),
        ("defaults: [{5: 4}]", "unreadable"),
        ("[" * 5000, "unreadable"),
    ],
)
def test_a_choice_without_a_class_is_refused(text: str, kind: str, tmp_path: Path) -> None:
    [fault] = faults(["model/attention=mine", config_folder(tmp_path, {"model/attention/mine": text})])
    assert fault.kind == kind


def test_a_part_that_is_a_number_is_refused(tmp_path: Path) -> None:
    text = "# @package _global_\nmodel: {attention: 5}\n"
    found = faults(["experiment=mine", config_folder(tmp_path, {"experiment/mine": text})])
    assert ("model.attention", "missing") in [(fault.key, fault.kind) for fault in found]
