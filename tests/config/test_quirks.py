"""`faithful=true`: each file of quirks changes what its source does otherwise, and what is typed wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentattn.config.compose import compose, override, setting_hash
from sentattn.config.groups import QUIRKS, Choices, at, conf_dir
from sentattn.errors import SettingError

NAMES = Choices.of().names(QUIRKS)
NEEDED = {"structured": ["loss.penalty=1", "loss.class_weights=balanced"]}
"""What a source's quirks are quirks of, where the variant alone does not have it."""
CHANGES: dict[str, dict[str, Any]] = {
    "feedforward": {"model.attention.squash": "tanh", "model.attention.position_bias": 600},
    "relation": {"model.attention.score": "linear", "model.attention.gate": "sigmoid", "model.attention.window": None},
    "structured": {"loss.penalty_form": "norm", "loss.class_weight_reduction": "mean"},
}


def source_of(name: str) -> list[str]:
    group = "experiment" if name in Choices.of().names("experiment") else "model"
    return [f"{group}={name}", *NEEDED.get(name, ())]


def flat(node: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(node, dict):
        return {path: node}
    return {p: v for key, value in node.items() for p, v in flat(value, f"{path}.{key}" if path else key).items()}


@pytest.mark.parametrize("name", NAMES)
def test_each_file_of_quirks_changes_something_of_its_source(name: str) -> None:
    plain, faithful = flat(compose(source_of(name))), flat(compose([*source_of(name), "faithful=true"]))
    assert list(faithful) == list(plain)
    changed = {path for path in plain if faithful[path] != plain[path]}
    own = flat(Choices.of().node(QUIRKS, name))
    assert changed == {"faithful", *(path for path in plain if path in own)}
    assert len(changed) > 1


@pytest.mark.parametrize("name", CHANGES)
def test_the_quirks_of_the_sources(name: str) -> None:
    settings = compose([*source_of(name), "faithful=true"])
    assert {path: at(settings, path) for path in CHANGES[name]} == CHANGES[name]
    assert settings["faithful"] is True


def test_what_is_typed_wins_and_references_follow_it() -> None:
    settings = compose(["model=feedforward", "faithful=true", "model.attention.squash=none", "data.max_length=90"])
    assert at(settings, "model.attention.squash") == "none"
    assert at(settings, "model.attention.position_bias") == 90


def test_quirks_typed_one_by_one_are_the_same_setting() -> None:
    typed = ["model.attention.squash=tanh", "model.attention.position_bias=600"]
    faithful = compose(["model=feedforward", "faithful=true"])
    assert setting_hash(faithful) == setting_hash(compose(["model=feedforward", *typed]))
    assert setting_hash(faithful) != setting_hash(compose(["model=feedforward"]))


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """Experiments of one's own, one of which has quirks, and one that asks for them itself."""
    for name, text in {
        "experiment/odd.yaml": "# @package _global_\ndefaults:\n  - override /model: feedforward\nseed: 3\n",
        "experiment/even.yaml": "# @package _global_\ndefaults:\n  - override /model: feedforward\n",
        "experiment/asks.yaml": "# @package _global_\nfaithful: true\n",
        "quirks/odd.yaml": "# @package _global_\nmodel: {head: {activation: tanh}}\n",
        "quirks/asks.yaml": "# @package _global_\noptimizer: {lr: 1.5}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return f"--config-dir={tmp_path}"


def test_quirks_are_the_experiments_where_there_is_one(mine: str) -> None:
    settings = compose([mine, "experiment=odd", "faithful=true"])
    assert at(settings, "model.head.activation") == "tanh"
    assert at(settings, "model.attention.squash") == "none"
    assert compose([mine, "experiment=asks"])["optimizer"]["lr"] == 1.5
    assert compose([mine, "experiment=asks", "faithful=false"])["optimizer"]["lr"] == 0.005
    with pytest.raises(SettingError, match=r"experiment=even has no quirks to repeat; .*odd"):
        compose([mine, "experiment=even", "faithful=true"])


@pytest.mark.parametrize(
    ("line", "key", "kind"),
    [
        ("model=mean faithful=true", "faithful", "no_effect"),
        ("model=transformer faithful=true", "faithful", "no_effect"),
        ("model=additive faithful=true", "faithful", "no_effect"),
        ("faithful=true", "faithful", "no_effect"),
        ("faithful=yes", "faithful", "type"),
        ("quirks=feedforward", "quirks", "unknown"),
        ("quirks.feedforward=1", "quirks.feedforward", "unknown"),
        ("model=feedforward faithful=true data.max_length=null", "model.attention.position_bias", "conflict"),
        (
            "model/attention=uniform faithful=true loss.class_weights=balanced loss.penalty=0.1",
            "loss.penalty",
            "no_effect",
        ),
    ],
)
def test_faults(line: str, key: str, kind: str) -> None:
    with pytest.raises(SettingError) as caught:
        compose(line.split())
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [(key, kind)]


def test_quirks_that_another_part_cannot_have_are_refused_by_name() -> None:
    with pytest.raises(SettingError) as caught:
        compose(["model=feedforward", "model/attention=structured", "faithful=true"])
    assert [fault.partition(": model/")[0] for fault in caught.value.messages] == [
        "faithful=true: model.attention.squash",
        "faithful=true: model.attention.position_bias",
    ]


def test_a_range_that_reaches_0_is_no_fault() -> None:
    assert compose(["faithful=true", "loss.penalty=0"])["loss"]["penalty_form"] == "norm"


def test_quirks_are_no_group_to_choose_from(tmp_path: Path) -> None:
    assert QUIRKS not in Choices.of().groups()
    (tmp_path / QUIRKS).mkdir()
    (tmp_path / QUIRKS / "feedforward.yaml").write_text("seed: 1\n")
    with pytest.raises(SettingError, match="the name 'feedforward' is taken in quirks"):
        compose([f"--config-dir={tmp_path}"])


def test_each_file_of_quirks_is_of_a_variant_or_an_experiment() -> None:
    choices = Choices.of()
    assert set(NAMES) <= {*choices.names("model"), *choices.names("experiment")}
    assert {path.parent.name for path in (conf_dir() / QUIRKS).rglob("*.yaml")} == {QUIRKS}


def test_saved_settings_keep_their_quirks_until_another_variant_takes_their_place() -> None:
    saved = compose(["model=feedforward", "faithful=true"])
    assert override(saved, ["seed=3", "faithful=true"]) == {**saved, "seed": 3}
    changed = override(saved, ["model=mean"])
    assert changed["faithful"] is False
    for settings, word in ((saved, "faithful=false"), (compose([]), "faithful=true")):
        with pytest.raises(SettingError, match=f"{word} cannot be laid over saved settings"):
            override(settings, [word])
