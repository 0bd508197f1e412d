from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hydra
import pytest
from choices_of_ones_own import config_folder
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from sentattn.config.compose import compose, override
from sentattn.config.groups import get_path


def test_a_reference_follows_what_is_typed() -> None:
    assert get_path(compose(["model=transformer"]), "model.embedding.positions") == 600
    typed = ["model=transformer", "data.max_length=100"]
    assert get_path(compose(typed), "model.embedding.positions") == 100
    assert get_path(compose([*typed, "model.embedding.positions=120"]), "model.embedding.positions") == 120
    assert get_path(compose(["model=transformer", "data.max_length=null"]), "model.embedding.positions") == 600
    saved = compose(["data.max_length=100"])
    assert get_path(override(saved, ["model=transformer"]), "model.embedding.positions") == 100
    longer = override(saved, ["model=transformer", "data.max_length=700"])
    assert get_path(longer, "model.embedding.positions") == 700


def test_defaults_compose() -> None:
    settings = compose([])
    assert settings["data"]["name"] == "demo"
    assert settings["model"]["name"] == "structured"
    assert list(settings["model"]["attention"]) == ["_target_", "hops", "hidden", "bias", "dropout"]
    assert "experiment" not in settings
    assert "hydra" not in settings


def test_typed_settings_replace_defaults() -> None:
    line = ["model=mean", "model/attention=structured", "model.attention.hops=8", "loss.penalty=0.3", "tags=[a,b]"]
    line += ["trainer.profiler=simple", "optimizer.betas=[0.9,0.99]", "data.cache_dir=c"]
    settings = compose([*line, "objective.metric=val/log_loss", "objective.mode=min"])
    assert settings["model"]["encoder"]["_target_"].endswith("Identity")
    assert settings["model"]["attention"]["hops"] == 8
    assert settings["loss"]["penalty"] == 0.3
    assert settings["tags"] == ["a", "b"]
    assert settings["trainer"]["profiler"] == "simple"
    assert settings["optimizer"]["betas"] == [0.9, 0.99]
    assert settings["data"]["cache_dir"] == "c"
    assert settings["objective"] == {"metric": "val/log_loss", "mode": "min"}


def test_texts_and_paths_are_taken_as_typed() -> None:
    text = 'It\'s a "dir", (1)/$x/[\u00fc]=y #'
    settings = compose([f"output_dir={text}", "data=imdb", f"data.path={text}", f"data.cache_dir={text}"])
    assert settings["output_dir"] == settings["data"]["path"] == settings["data"]["cache_dir"] == text


def test_a_text_that_looks_like_a_number_stays_text() -> None:
    settings = compose(["group=2026", "output_dir=7", "logger.entity=null"])
    assert settings["group"] == "2026"
    assert settings["output_dir"] == "7"
    assert settings["logger"]["entity"] is None


def test_a_repeated_argument_is_legal() -> None:
    assert compose(["seed=1", "seed=1"])["seed"] == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], 600),
        (["data.tokenizer=spacy"], 600),
        (["data.tokenizer=folder/tokenizer.json"], 256),
        (["model=pretrained", "model.embedding.name=encoder"], 256),
        (["model=pretrained", "model.embedding.name=encoder", "data.max_length=600"], 600),
        (["experiment=long", "model.embedding.name=encoder"], 600),
    ],
)
def test_the_length_is_what_is_given_or_the_tokenizers(words: list[str], expected: int, tmp_path: Path) -> None:
    text = "# @package _global_\ndefaults:\n  - override /model: pretrained\ndata: {max_length: 600}\n"
    assert compose([config_folder(tmp_path, {"experiment/long": text}), *words])["data"]["max_length"] == expected


def test_a_folder_of_the_user_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert compose(["output_dir=~/runs"])["output_dir"] == "/home/somebody/runs"
    assert override(compose([]), ["output_dir=~/runs"])["output_dir"] == "/home/somebody/runs"


def test_settings_are_composed_in_several_threads() -> None:
    with ThreadPoolExecutor(4) as threads:
        composed = list(threads.map(lambda hops: compose([f"model.attention.hops={hops}", "data=imdb"]), range(1, 9)))
    assert [settings["model"]["attention"]["hops"] for settings in composed] == list(range(1, 9))


def test_settings_are_composed_inside_an_application_of_hydras(tmp_path: Path) -> None:
    with initialize_config_dir(str(tmp_path), version_base="1.2"):
        outer = GlobalHydra.instance().hydra
        assert compose(["model=mean", "scheduler=step", "data=imdb"])["data"]["name"] == "imdb"
        assert GlobalHydra.instance().hydra is outer
        assert str(hydra.version.getbase()) == "1.2"
