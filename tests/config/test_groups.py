from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import kinds

from sentattn.config.checks import flat
from sentattn.config.compose import compose
from sentattn.config.groups import Choices, comment, conf_dir, get_path, load

# States go with states alone; test_state_commands.py has them.
FILES = sorted(conf_dir().glob("**/[!_]*.yaml"))
ELSEWHERE = (conf_dir(), conf_dir() / "experiment", conf_dir() / "model")
"""Folders with files that other tests compose: below, and test_contract.py."""
GROUPS = {
    folder.relative_to(conf_dir()).as_posix(): [
        file for file in FILES if file.parent == folder and file.stem != "states"
    ]
    for folder in sorted({file.parent for file in FILES}.difference(ELSEWHERE))
}
NUMBERS = range(max(map(len, GROUPS.values())))

BESIDE_SLOTS = {
    "additive": {"attention": {"hops": 1}},  # one hop is what makes `structured` additive
    "relation_plain": {"attention": {"score": "none"}},  # its pairs all weigh the same
    "transformer": {"embedding": {"positions": "${data.max_length}"}},  # nothing else tells it the order of words
}
"""What makes a variant beside its slots. The recipe is shared, so a comparison compares models."""


def chosen(number: int) -> dict[str, Path]:
    """Returns the file of a choice of each group, so that all `NUMBERS` have all choices."""
    return {group: files[number % len(files)] for group, files in GROUPS.items()}


def words_of(number: int) -> list[str]:
    """Returns these choices as they are typed, with what they need."""
    words = [f"{group}={file.stem}" for group, file in chosen(number).items()]
    for group, file in chosen(number).items():
        words += [f"{group.replace('/', '.')}.{key}=2" for key, value in load(file).items() if value == "???"]
    return words


def test_each_file_has_a_comment() -> None:
    assert [file for file in FILES if not comment(file)] == []


@pytest.mark.parametrize("number", NUMBERS)
def test_each_choice_composes_with_choices_of_all_groups(number: int) -> None:
    settings = compose(words_of(number))
    for group, file in chosen(number).items():
        path = f"{group}.{file.stem}" if group == "callbacks" else group.replace("/", ".")
        target = load(file).get("_target_")
        assert target is None or get_path(settings, path)["_target_"] == target


def test_the_base_of_the_data_sets_is_no_choice() -> None:
    assert Choices.of().names("data") == ["demo", "hub", "imdb", "states", "table", "yelp"]
    assert [Choices.of().node("data", name)["batch_size"] for name in ("demo", "table")] == [64, 64]
    assert kinds(["data=_base"]) == [("data", "unknown")]


@pytest.mark.parametrize("file", sorted((conf_dir() / "experiment").glob("*.yaml")), ids=lambda file: file.stem)
def test_an_experiment_sets_what_its_file_lists(file: Path) -> None:
    settings = compose([f"experiment={file.stem}"])
    written = {key: value for key, value in load(file).items() if key != "defaults"}
    assert written
    for path, value in flat(written, ""):
        assert "${" in str(value) or get_path(settings, path) == value, path


def test_a_faithful_experiment_differs_from_the_plain_one_as_listed() -> None:
    changes: dict[str, dict[str, Any]] = {
        "gluon_yelp": {
            "loss.penalty_form": "norm",
            "loss.class_weight_reduction": "mean",
            "trainer.gradient_clip_val": 0.5 / 64,
        },
        "bahdanau_imdb": {"model.attention.squash": "tanh", "model.attention.position_bias": 70},
        "keras_imdb": {"ema_decay": None},
        "relation_imdb": {"model.attention.score": "linear", "model.attention.gate": "sigmoid"},
    }
    for name, changed in changes.items():
        plain, faithful = (dict(flat(compose([f"experiment={name}{end}"]), "")) for end in ("", "_faithful"))
        assert faithful.pop("choices.experiment") == f"{name}_faithful"
        assert {key: value for key, value in faithful.items() if value != plain[key]} == changed
    longer = compose(["experiment=bahdanau_imdb_faithful", "data.max_length=90"])
    assert get_path(longer, "model.attention.position_bias") == 90


def test_presets_differ_in_their_slots_only() -> None:
    for file in (conf_dir() / "model").glob("[!_]*.yaml"):
        node = load(file)
        assert {key: node[key] for key in set(node) - {"defaults", "name"}} == BESIDE_SLOTS.get(file.stem, {})
        assert node["name"] == file.stem
        assert set(Choices.of().parts(file.stem)) == {"embedding", "encoder", "attention", "pooling", "wide"}


def test_a_comment_ends_with_the_first_other_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("# @package _global_\n# What it is,\n#   and more.\nkey: 1 # no\n# Later.\n")
    assert comment(file) == "What it is, and more."


def test_a_file_is_read_again_when_it_was_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1e-3\n")
    assert load(file) == {"a": 0.001}
    file.write_text("a: 2000\n")
    assert load(file) == {"a": 2000}


def test_the_folder_of_the_package_may_be_named() -> None:
    assert Choices.of(conf_dir()) == Choices.of()
