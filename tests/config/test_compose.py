from __future__ import annotations

from typing import Any

import pytest
from refusals import kinds

from sentattn.config.compose import compose, override, setting_hash
from sentattn.config.groups import get_path


def test_a_reference_follows_what_is_typed() -> None:
    assert get_path(compose(["model=transformer"]), "model.embedding.positions") == 600
    typed = ["model=transformer", "data.max_length=100"]
    assert get_path(compose(typed), "model.embedding.positions") == 100
    assert get_path(compose([*typed, "model.embedding.positions=120"]), "model.embedding.positions") == 120
    assert get_path(
        compose(["model=transformer", "data.max_length=null", "model.embedding.positions=null"]), "data.clip"
    )
    saved = compose(["data.max_length=100", "output_dir=${x"])
    assert get_path(override(saved, ["model=transformer"]), "model.embedding.positions") == 100
    longer = override(saved, ["model=transformer", "data.max_length=700"])
    assert get_path(longer, "model.embedding.positions") == 700
    assert longer["output_dir"] == "${x"
    words = ["model=transformer", "data.max_length=null"]
    assert kinds(words, lambda words: override(saved, words)) == [("model.embedding.positions", "conflict")]


def test_options_of_class_weights_compose() -> None:
    typed = ["loss.class_weights=balanced", "loss.class_weight_power=0.5", "loss.class_weight_reduction=mean"]
    assert compose(typed)["loss"]["class_weight_power"] == 0.5
    assert compose(["loss.class_weights=[3,1]", "loss.class_weight_reduction=mean"])["loss"]["class_weights"] == [3, 1]


def test_defaults_compose() -> None:
    settings = compose([])
    assert settings["data"]["name"] == "demo"
    assert settings["model"]["name"] == "structured"
    assert list(settings["model"]["attention"]) == ["_target_", "hops", "hidden", "bias", "dropout"]
    assert "experiment" not in settings
    assert "hydra" not in settings


def test_typed_settings_replace_defaults() -> None:
    line = ["model=mean", "model/attention=structured", "model.attention.hops=8", "loss.penalty=0.3", "tags=[a,b]"]
    settings = compose([*line, "trainer.profiler=simple", "optimizer.betas=[0.9,0.99]", "data.cache_dir=c"])
    assert settings["model"]["encoder"]["_target_"].endswith("Identity")
    assert settings["model"]["attention"]["hops"] == 8
    assert settings["loss"]["penalty"] == 0.3
    assert settings["tags"] == ["a", "b"]
    assert settings["trainer"]["profiler"] == "simple"
    assert settings["optimizer"]["betas"] == [0.9, 0.99]
    assert settings["data"]["cache_dir"] == "c"


def test_texts_and_paths_are_taken_as_typed() -> None:
    text = 'It\'s a "dir", (1)/${x/[\u00fc]=y #'
    settings = compose([f"output_dir={text}", "data=imdb", f"data.path={text}", f"data.cache_dir={text}"])
    assert settings["output_dir"] == settings["data"]["path"] == settings["data"]["cache_dir"] == text


def test_a_column_may_have_the_name_of_a_reference() -> None:
    assert compose(["data=table", "data.train=a.csv", "data.text=${x}"])["data"]["text"] == "${x}"


def test_a_text_that_looks_like_a_number_stays_text() -> None:
    settings = compose(["group=2026", "output_dir=7", "logger.entity=null"])
    assert settings["group"] == "2026"
    assert settings["output_dir"] == "7"
    assert settings["logger"]["entity"] is None


def test_a_repeated_argument_is_legal() -> None:
    assert compose(["seed=1", "seed=1"])["seed"] == 1


WITHOUT_EFFECT = [
    *("trainer.num_sanity_val_steps=2", "trainer.log_every_n_steps=1", "trainer.log_every_n_steps=null"),
    *("trainer.profiler=simple", "trainer.detect_anomaly=true", "trainer.inference_mode=false"),
    *("trainer.enable_autolog_hparams=false", "trainer.limit_predict_batches=3"),
]
SAME = ["seed=4", "output_dir=x", "logger=none", "tags=[a]", "group=g", "test=false", "trainer.accelerator=cpu"]


@pytest.mark.parametrize(
    "line", [*SAME, *WITHOUT_EFFECT, "data.num_workers=2", "data.cache_dir=x", "loss.penalty=0", "optimizer.lr=5e-3"]
)
def test_the_hash_ignores_settings_without_effect_on_the_result(line: str) -> None:
    assert setting_hash(compose([line])) == setting_hash(compose([]))


@pytest.mark.parametrize(
    "line",
    [
        "model=mean",
        "optimizer.lr=0.001",
        "data.limit=10",
        "data.normalize=null",
        "trainer.max_epochs=5",
        "trainer.limit_train_batches=5",
        "trainer.deterministic=true",
        "trainer.gradient_clip_val=2.0",
        "trainer.accumulate_grad_batches=2",
    ],
)
def test_the_hash_depends_on_settings_of_the_result(line: str) -> None:
    assert setting_hash(compose([line])) != setting_hash(compose([]))


def test_the_hash_does_not_depend_on_the_order() -> None:
    settings = compose([])
    assert setting_hash(dict(reversed(settings.items()))) == setting_hash(settings)


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_the_mode_of_the_objective_fits_its_metric(metric: str) -> None:
    mode = {"accuracy": "max", "log_loss": "min"}[metric]
    settings: dict[str, Any] = compose([f"objective.metric=val/{metric}", f"objective.mode={mode}"])
    assert get_path(settings, "objective.mode") == mode
