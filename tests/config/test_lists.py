"""Groups with several choices, `callbacks` and `logger`: composed, refused, saved, hashed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from choices_of_ones_own import config_folder
from refusals import kinds

from sentattn.config.compose import compose, override
from sentattn.config.groups import Choices, get_path
from sentattn.config.hashing import setting_hash
from sentattn.config.request import read_request
from sentattn.config.schema import Settings
from sentattn.loggers.wandb.upload import LOGGER, wandb_settings

STOP, RATES, OWN = "callbacks=early_stopping", "callbacks=lr_monitor", "callbacks.own._target_=own_callbacks.Counting"
PATIENCE = "callbacks.early_stopping.patience"


def test_each_choice_has_its_settings_under_its_name() -> None:
    settings = compose(
        ["callbacks=[lr_monitor,early_stopping]", f"{PATIENCE}=5", "logger=[csv,wandb]", "logger.wandb.project=x"]
    )
    assert list(settings["callbacks"]) == ["lr_monitor", "early_stopping"]
    assert settings["callbacks"]["early_stopping"]["patience"] == 5
    assert list(settings["logger"]) == ["csv", "wandb"]
    assert settings["logger"]["wandb"] == compose(["logger.project=x"])["logger"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["callbacks=[early_stopping]"], [STOP]),
        (["callbacks=[]"], []),
        (["callbacks=null"], []),
        (["logger=[csv]"], ["logger=csv"]),
        (["logger=[csv,wandb,csv]"], ["logger=[csv,wandb]"]),
    ],
)
def test_lists_of_one_and_of_none(one: list[str], other: list[str]) -> None:
    assert compose(one) == compose(other)


@pytest.mark.parametrize(
    ("words", "fault"),
    {
        "callbacks=early_stoping": ("callbacks", "unknown"),
        "callbacks=[early_stopping,lr]": ("callbacks", "unknown"),
        "callbacks=[1,null]": ("callbacks", "unknown"),
        "callbacks={a:1}": ("callbacks", "unknown"),
        "logger=[csv,nothing]": ("logger", "unknown"),
        f"{STOP} {PATIENCE}=0": (PATIENCE, "range"),
        f"{STOP} callbacks.early_stopping.patients=3": ("callbacks.early_stopping.patients", "unknown"),
        f"{STOP} callbacks.early_stopping.monitor=val/loss": ("callbacks.early_stopping.monitor", "unsupported"),
        f"{STOP} callbacks.patience=3": ("callbacks.patience", "missing"),
        f"{PATIENCE}=3": ("callbacks.early_stopping", "missing"),
        "logger=[csv,wandb] logger.project=x": ("logger.project", "missing"),
        "logger=[csv,wandb] logger.csv.project=x": ("logger.csv.project", "unknown"),
        "logger=[csv,wandb] logger.mlflow.experiment=x": ("logger.mlflow", "missing"),
        "logger=wandb logger.wandb.project=x": ("logger.wandb", "unknown"),
        OWN: ("callbacks.own._target_", "unsafe"),
        f"callbacks.own.start=5 {OWN}": ("callbacks.own._target_", "unsafe"),
        "callbacks._target_=own_callbacks.Counting": ("callbacks._target_", "unsupported"),
    }.items(),
    ids=str,
)
def test_faults(words: str, fault: tuple[str, str]) -> None:
    assert kinds(words.split()) == [fault]


@pytest.mark.parametrize(
    ("saved", "typed", "key", "expected"),
    [
        (["logger=[csv,wandb]"], ["logger=csv"], "logger", compose(["logger=csv"])["logger"]),
        (["logger=csv"], ["logger=[csv,tensorboard]"], "logger", compose(["logger=[csv,tensorboard]"])["logger"]),
        (["logger=[csv,wandb]"], ["logger.wandb.project=x"], "logger.wandb.project", "x"),
        ([STOP], [f"{PATIENCE}=7"], PATIENCE, 7),
        ([STOP], [RATES], "callbacks", compose([RATES])["callbacks"]),
        ([STOP], ["callbacks=[]"], "callbacks", {}),
        ([STOP], ["callbacks=null"], "callbacks", {}),
    ],
)
def test_saved_lists_are_kept_changed_and_replaced(saved: list[str], typed: list[str], key: str, expected: Any) -> None:
    settings = compose(saved)
    assert override(settings, []) == settings
    assert get_path(override(settings, typed), key) == expected


def test_an_experiment_may_choose_several_and_what_is_typed_wins(tmp_path: Path) -> None:
    files = {
        "experiment/mine": "# @package _global_\ndefaults:\n  - override /callbacks: early_stopping\n"
        "  - override /logger: [csv, wandb]\n  - _self_\n"
        "callbacks: {early_stopping: {patience: 7}}\nlogger: {wandb: {project: x}}\n",
        "experiment/more": "# @package _global_\ndefaults: [mine, _self_]\nseed: 3\n",
    }
    folder = config_folder(tmp_path, files)
    for name in ("mine", "more"):
        settings = compose([folder, f"experiment={name}"])
        assert settings["callbacks"] == compose([STOP, f"{PATIENCE}=7"])["callbacks"]
        assert settings["logger"] == compose(["logger=[csv,wandb]", "logger.wandb.project=x"])["logger"]
    words = [folder, "experiment=mine", f"{PATIENCE}=4", "logger=[wandb,tensorboard]"]
    assert get_path(compose(words), PATIENCE) == 4
    assert list(compose(words)["logger"]) == ["wandb", "tensorboard"]
    assert kinds([folder, "experiment=mine", "callbacks=[]"]) == [("callbacks.early_stopping", "missing")]
    nothing = "# @package _global_\ndefaults:\n  - override /callbacks: [nothing]\n"
    config_folder(tmp_path, {"experiment/mine": nothing})
    assert kinds([folder, "experiment=mine"]) == [("", "unreadable")]


def test_a_class_of_ones_own_is_typed_and_never_loaded(tmp_path: Path) -> None:
    own = "own:\n  _target_: own_callbacks.Counting\n  start: 1\n"
    folder = config_folder(tmp_path / "own", {"callbacks/own": own})
    settings = compose([folder, "callbacks=[own,early_stopping]", "callbacks.own.start=3"])
    assert settings["callbacks"]["own"] == {"_target_": "own_callbacks.Counting", "start": 3}
    assert read_request([OWN, "trust=true", "callbacks.own.start=3"]).settings["callbacks"] == {
        "own": {"_target_": "own_callbacks.Counting", "start": 3}
    }
    assert kinds([], lambda words: override(settings, words)) == [("callbacks.own", "unsafe")]
    assert override(settings, [folder]) == override(settings, [], trust=True) == settings
    file = tmp_path / "best.yaml"
    file.write_text(yaml.safe_dump({"overrides": [OWN]}))
    assert kinds([f"from={file}"], read_request) == [("callbacks.own._target_", "unsafe")]
    assert read_request([f"from={file}", "trust=true"]).settings["callbacks"]["own"]


def hashes(*words: str, trust: bool = True) -> str:
    return setting_hash(compose(words, trust=trust))


def test_what_changes_the_result_is_in_the_hash() -> None:
    plain = hashes()
    old = {key: value for key, value in compose([]).items() if key != "callbacks"}
    assert setting_hash(old) == plain == hashes(RATES) == hashes("logger=[csv,wandb]")
    assert list(Settings.of(old)["callbacks"]) == []
    stopping = hashes(STOP)
    assert stopping == hashes("callbacks=[lr_monitor,early_stopping]")
    assert len({plain, stopping, hashes(STOP, f"{PATIENCE}=3"), hashes(OWN), hashes(OWN, "callbacks.own.start=3")}) == 5
    named = "callbacks.lr_monitor._target_=own_callbacks.Counting"  # the class decides, not the name
    assert hashes(named) != plain


@pytest.mark.parametrize(
    "words", [["logger=wandb", "logger.project=x"], ["logger=[csv,wandb]", "logger.wandb.project=x"]]
)
def test_settings_of_wandb_are_found_alone_and_among_several(words: Sequence[str]) -> None:
    found = wandb_settings(compose(words))
    assert (found["_target_"], found["project"]) == (LOGGER, "x")
    assert set(found) == set(Choices.of().node("logger", "wandb"))
    for other in ("csv", "[csv,tensorboard]", "none"):
        assert wandb_settings(compose([f"logger={other}"])) == {}
