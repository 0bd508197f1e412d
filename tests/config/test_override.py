"""Saved settings, with some of them changed."""

from __future__ import annotations

import copy

import pytest
from refusals import kinds

from sentattn.config.compose import compose, override
from sentattn.config.groups import get_path
from sentattn.config.hashing import setting_hash


def test_override_changes_a_copy_of_saved_settings() -> None:
    saved = compose(["output_dir=$x", "trainer.max_epochs=2"])
    before = copy.deepcopy(saved)
    changed = override(saved, ["data=imdb", "data.path=a b", "data.limit=5", "seed=3"])
    assert saved == before
    assert changed["data"]["path"] == "a b"
    assert changed["data"]["limit"] == 5
    assert changed["data"]["name"] == "imdb"
    assert changed["output_dir"] == "$x"
    assert changed["trainer"]["max_epochs"] == 2
    nested = override(saved, ["model=mean", "model/attention=structured", "model.attention.hops=2"])
    assert nested["model"]["name"] == "mean"
    assert nested["model"]["attention"]["hops"] == 2


@pytest.mark.parametrize(
    ("line", "only", "key", "kind"),
    [
        ("data.limt=3", None, "data.limt", "unknown"),
        ("data=imdb data.limt=3", None, "data.limt", "unknown"),
        ("model/attention=uniform", None, "loss.penalty", "no_effect"),
        ("seed=3", ["data"], "seed", "unsupported"),
        ("data.max_length=9", ["data"], "data.max_length", "unsupported"),
        ("model/attention=uniform", ["data"], "model/attention", "unsupported"),
        ("experiment=x", None, "experiment", "unsupported"),
    ],
)
def test_faults_of_an_override(line: str, only: list[str] | None, key: str, kind: str) -> None:
    saved = compose(["loss.penalty=0.5"])
    assert kinds(line.split(), lambda words: override(saved, words, only=only)) == [(key, kind)]


def test_a_trained_model_reads_other_data_at_its_own_length() -> None:
    saved = compose(["model=transformer", "data.max_length=100", "loss.class_weights=[1,2]"])
    evaluated = override(saved, ["data=imdb"], only=["data"])
    assert get_path(evaluated, "data.max_length") == 600
    assert get_path(evaluated, "model.embedding.positions") == 100
    refused = [("model.embedding.positions", "conflict")]
    assert kinds(["data=imdb"], lambda words: override(saved, words)) == refused


def test_saved_settings_lack_what_came_later() -> None:
    saved = compose([])
    del saved["loss"]["class_weights"], saved["ema_decay"], saved["objective"]["mode"], saved["choices"]
    settings = override(saved, ["seed=3"])
    assert settings["loss"] == saved["loss"]
    assert (settings["ema_decay"], settings["objective"]["mode"]) == (0.998, "max")
    assert setting_hash(settings) == setting_hash(compose([]))


def test_the_length_of_a_run_over_a_pretrained_encoder_is_kept() -> None:
    encoder = ["model=pretrained", "model.embedding.name=encoder"]
    saved = compose([*encoder, "data.max_length=600"])
    assert get_path(override(saved, []), "data.max_length") == 600
    assert get_path(override(saved, ["model.embedding.name=other"]), "data.tokenizer") == "other"
    assert get_path(override(compose([]), encoder), "data.max_length") == 600
    assert get_path(override(compose([]), [*encoder, "data.max_length=null"]), "data.max_length") == 256
