from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from sentattn.config import compose, override, setting_hash
from sentattn.errors import SettingError
from sentattn.settings.choices import at

FAULTS = {
    "modle=structured": ["no group 'modle'", "'model'"],
    "model=structurd": ["no choice 'structurd'", "Did you mean 'structured'?", "lstm_mean, mean"],
    "model.attention.hop=3": ["structured has no 'hop'", "'model.attention.hops'", "hops, hidden, bias"],
    "model.attention.hops=many": ["a whole number, 1 or more"],
    "model.attention.hops=0": ["a whole number, 1 or more"],
    "model.attention.hops=3.0": ["a whole number, 1 or more"],
    "model=mean model.attention.hops=4": ["uniform has no 'hops'; model/attention=structured has it"],
    "model/atention=uniform": ["no group 'model/atention'", "'model/attention'"],
    "model.attention=uniform": ["type model/attention=uniform"],
    "model/attention.hops=3": ["type model.attention.hops=3"],
    "modle.attention.hops=3": ["no setting 'modle'", "'model.attention.hops'"],
    "model.attention.dim=3": ["model.attention.dim is filled in"],
    "model.embedding.num_embeddings=9": ["filled in"],
    "model.attention._target_=a.B": ["not set by hand", "model/attention=NAME"],
    "model.head=3": ["model.head.width"],
    "model.head.widht=3": ["model.head has no 'widht'", "'model.head.width'"],
    "model@other=mean": ["leave out @other"],
    "hops=4": ["no setting 'hops'", "'model.attention.hops'"],
    "max_epoch=4": ["no setting 'max_epoch'", "'trainer.max_epochs'"],
    "data=imbd": ["no choice 'imbd'", "Did you mean 'imdb'?"],
    "data.path=": ["data=demo has no 'path'; data=imdb and data=yelp have it"],
    "data=imdb data.path=": ["data.path= has no value"],
    "data.limit=0": ["a whole number, 1 or more, or null"],
    "data.clip=middle": ["head, tail or both"],
    "trainer.max_epoch=1": ["no 'max_epoch'", "'trainer.max_epochs'"],
    "trainer.max_epochs=ten": ["a whole number, 1 or more"],
    "trainer.precision=16": ["32-true"],
    "trainer.logger=mine": ["sentattn sets trainer.logger itself", "logger=none"],
    "trainer.default_root_dir=x": ["output_dir=FOLDER"],
    "optimizer.lr=-1": ["a number above 0"],
    "optimizer.lr=nan": ["a number above 0"],
    "optimizer={lr:1}": ["optimizer has no choice"],
    "scheduler=onecycle": ["'one_cycle'", "constant, cosine, one_cycle, step"],
    "scheduler=cosine scheduler.gamma=2": ["scheduler=step has it"],
    "logger=none logger.mode=offline": ["logger=wandb has it"],
    "logger=null": ["none, tensorboard, wandb"],
    "experiment=lin": ["no choice 'lin'"],
    "model=": ["has no value", "lstm_mean, mean"],
    "loss.penalty=0.3 model=mean": ["model/attention=uniform has no weights to learn", "choose model/attention="],
    "loss.penalty=1 model/attention=max": ["model/attention=max has no weights to learn", "or structured"],
    "loss.penalty=1 model=lstm": ["model/attention=last has no weights to learn"],
    "loss.penalty=1 model=relation_plain": ["model/attention=relation with model.attention.score=none has no weights"],
    "loss.class_weights=[1,2,3]": ["does not fit the 2 classes of data=demo: type one number for each", "=[1,2]."],
    "loss.class_weights=[1,2,3] data=imdb": ["does not fit the 2 classes of data=imdb"],
    "loss.class_weights=[]": ["does not fit the 2 classes of data=demo"],
    "loss.class_weights=[1,0]": ["none or balanced, or a list such as [a,b], each a number above 0"],
    "loss.class_weights=balance": ["none or balanced"],
    "loss.class_weight_power=0.5": ["nothing with loss.class_weights=none", "type loss.class_weights=balanced"],
    "loss.class_weights=[1,2] loss.class_weight_power=1": ["does nothing with loss.class_weights=[1,2]"],
    "loss.class_weight_reduction=mean": ["nothing with loss.class_weights=none", "type loss.class_weights=balanced"],
    "loss.class_counts=3": ["loss.class_counts is filled in"],
    "data.max_length=400 model.embedding.positions=200": [
        "model.embedding.positions=200 is too few for texts of data.max_length=400 tokens",
        "type model.embedding.positions=400 or data.max_length=200",
    ],
    "model=feedforward model.attention.position_bias=599": ["too few", "type model.attention.position_bias=600"],
    "data.max_length=null model.embedding.positions=200": [
        "too few for texts of any length (data.max_length=null)",
        "type data.max_length=200, or model.embedding.positions=null",
    ],
    "data.max_length=null model=transformer": [
        "data.max_length=null leaves no length for model.embedding.positions",
        "type data.max_length=600, or model.embedding.positions=null",
    ],
    "model.pooling.p=8": ["model/pooling=flatten has no 'p'; model/pooling=prune has it"],
    "loss.penalty=choice(0,1)": ["one value", "several trainings"],
    "seed=1,2": ["one value", "several trainings"],
    "seed=range(1,3)": ["one value"],
    "tags=a,b": ["tags=[a,b]"],
    "tags=a": ["a list such as [a,b]"],
    "seed=": ["has no value", "a whole number from 0 to 4294967295"],
    "seed=-1": ["a whole number from 0 to 4294967295"],
    "seed.x=1": ["seed is one value"],
    "seed=1 seed=2": ["given twice, as 1 and as 2"],
    "test=yes": ["true or false"],
    "ema_decay=1": ["from 0 to below 1 or null"],
    "objective=3": ["objective.metric, objective.mode"],
    "objective.metirc=x": ["'objective.metric'"],
    "objective.metric=test/accuracy": ["val/accuracy"],
    "objective.metric=val/log_loss": ["objective.mode=max would keep the worst epoch"],
    "resume=x": ["no setting 'resume'"],
    "+foo=1": ["no setting 'foo'"],
    "+trainer.profiler=simple": ["type trainer.profiler=simple"],
    "trainer.check_val_every_n_epoch=2": ["each epoch is validated"],
    "trainer.limit_val_batches=3": ["data.limit=ROWS"],
    "trainer.max_time=00:01:00:00": ["trainer.max_epochs=EPOCHS"],
    "trainer.devices=0": ["trainer.devices=0 is not legal: it takes a whole number, 1 or more,"],
    "trainer.strategy=fsdp": ["trainer.strategy=fsdp is not legal: it takes auto or ddp."],
    "trainer.use_distributed_sampler=true": ["each device gets rows of its own from every batch"],
    "trainer.fast_dev_run=true": ["data.limit=200 trainer.max_epochs=1"],
    "++seed=1": ["type seed=1"],
    "~loss": ["loss=NAME"],
    "structured": ["Did you mean model=structured?"],
    "model": ["type model=NAME", "lstm_mean, mean"],
    "model.attention.hops": ["type model.attention.hops=VALUE"],
    "--modle": ["no option", "'model'"],
    "--model=mean": ["without dashes", "type model=mean"],
    "--hlep": ["'--help'"],
    "=3": ["no name before the ="],
    "1a=3": ["'1a' cannot be the name"],
    "seed=(1": ["the ( in it has no partner"],
    "tags=[a,b": ["the [ in it has no partner"],
    "tags=a]": ["the ] in it has no partner"],
    'group="x': ['the " in it has no partner'],
    "group=It's": ["the ' in it has no partner"],
    "group=K\u00f6ln": ["'group=\"K\u00f6ln\"'"],
    "loss.penalty=${seed}": ["its value itself"],
    "hydra.run.dir=x": ["no setting 'hydra'"],
    "--config-dir nowhere": ["no such folder"],
    "--config-dir": ["needs a folder"],
}


def faults(arguments: list[str]) -> tuple[str, ...]:
    with pytest.raises(SettingError) as caught:
        compose(arguments)
    return caught.value.faults


@pytest.mark.parametrize("line", FAULTS)
def test_each_fault_is_one_sentence_that_says_what_to_type(line: str) -> None:
    (sentence,) = faults(line.split())
    assert [part for part in FAULTS[line] if part not in sentence] == []
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    assert "+" not in sentence.replace(line, "")


def test_all_faults_are_told_at_once_in_the_order_typed() -> None:
    typed = ["data=imbd", "model.attention.hop=3", "model=structurd", "seed=x", "nonsense", "seed=x", "loss.penalty=-1"]
    found = faults(typed)
    starts = ["data=imbd", "model.attention.hop=3", "model=structurd", "seed=x", "'nonsense'", "loss.penalty=-1"]
    assert [sentence.startswith(start) for sentence, start in zip(found, starts, strict=True)] == [True] * 6


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        (
            "model/pooling=prune model/attention=uniform model.attention.hops=3 loss.penalty=1 "
            "loss.class_weights=[1,2,3] data.max_length=400 model.embedding.positions=200",
            [
                "model.pooling.p has no value: type model.pooling.p=VALUE; it takes a whole number, 1 or more",
                "model.pooling.q has no value: type model.pooling.q=VALUE; it takes a whole number, 1 or more",
                "model.attention.hops=3: model/attention=uniform has no 'hops'; model/attention=structured has it",
                "loss.penalty=1 can do nothing: model/attention=uniform has no weights to learn; leave it at 0, or",
                "loss.class_weights=[1,2,3] does not fit the 2 classes of data=demo: type one number for each",
                "model.embedding.positions=200 is too few for texts of data.max_length=400 tokens: type",
            ],
        ),
        (
            "model=lstm_max model.pooling.p=8 loss.penalty=1 loss.class_weight_power=0.5 data.max_length=null "
            "model.embedding.positions=200 faithful=true objective.metric=val/log_loss",
            [
                "model.pooling.p=8: model/pooling=flatten has no 'p'; model/pooling=prune has it",
                "loss.penalty=1 can do nothing: model/attention=max has no weights to learn; leave it at 0, or",
                "loss.class_weight_power=0.5 does nothing with loss.class_weights=none: type loss.class_weights=",
                "model.embedding.positions=200 is too few for texts of any length (data.max_length=null): type",
                "faithful=true: model=lstm_max has no quirks to repeat; there are some for",
                "objective.mode=max would keep the worst epoch by val/log_loss: type objective.mode=min",
            ],
        ),
    ],
)
def test_faults_of_every_kind_are_told_together(line: str, starts: list[str]) -> None:
    found = faults(line.split())
    assert [sentence[: len(start)] for sentence, start in zip(found, starts, strict=True)] == starts


def test_a_reference_follows_what_is_typed() -> None:
    typed = ["model=transformer", "data.max_length=100"]
    assert at(compose(typed), "model.embedding.positions") == 100
    assert at(compose([*typed, "model.embedding.positions=120"]), "model.embedding.positions") == 120
    assert at(compose(["model=transformer", "data.max_length=null", "model.embedding.positions=null"]), "data.clip")
    saved = compose(["data.max_length=100", "output_dir=${x"])
    assert at(override(saved, ["model=transformer"]), "model.embedding.positions") == 100
    longer = override(saved, ["model=transformer", "data.max_length=700"])
    assert at(longer, "model.embedding.positions") == 700
    assert longer["output_dir"] == "${x"
    with pytest.raises(SettingError, match=r"leaves no length for model\.embedding\.positions"):
        override(saved, ["model=transformer", "data.max_length=null"])


def test_class_weights_that_say_nothing_twice_are_legal() -> None:
    typed = ["loss.class_weights=balanced", "loss.class_weight_power=0.5", "loss.class_weight_reduction=mean"]
    assert compose(typed)["loss"]["class_weight_power"] == 0.5
    assert compose(["loss.class_weights=[3,1]", "loss.class_weight_reduction=mean"])["loss"]["class_weights"] == [3, 1]


def test_what_stands_under_a_choice_that_nobody_knows_is_not_guessed_at() -> None:
    assert len(faults(["data=zzz", "data.stars=3"])) == 1


def test_defaults_compose() -> None:
    settings = compose([])
    assert settings["data"]["name"] == "demo"
    assert settings["model"]["name"] == "structured"
    assert list(settings["model"]["attention"]) == ["_target_", "hops", "hidden", "bias", "dropout"]
    assert "experiment" not in settings
    assert "hydra" not in settings


def test_what_is_typed_wins() -> None:
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
    text = 'It\'s a "dir", (1)/${x}/[\u00fc]=y #'
    settings = compose([f"output_dir={text}", "data=imdb", f"data.path={text}", f"data.cache_dir={text}"])
    assert settings["output_dir"] == settings["data"]["path"] == settings["data"]["cache_dir"] == text


def test_a_text_that_looks_like_a_number_stays_text() -> None:
    settings = compose(["group=2026", "output_dir=7", "logger.entity=null"])
    assert settings["group"] == "2026"
    assert settings["output_dir"] == "7"
    assert settings["logger"]["entity"] is None


def test_the_same_thing_twice_is_no_fault() -> None:
    assert compose(["seed=1", "seed=1"])["seed"] == 1


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own configuration, in a folder with signs that Hydra's grammar does not like."""
    folder = tmp_path / "my, (conf)'s"
    (folder / "model" / "attention").mkdir(parents=True)
    (folder / "experiment").mkdir()
    files = {
        "model/attention/mine.yaml": "# Mine.\n_target_: users_own.Mine\npower: 2.0\nplain: ???\n",
        "model/attention/gone.yaml": "_target_: users_gone.Gone\n",
        "model/partial.yaml": "defaults: [embedding: words, encoder: identity, attention: uniform]\nname: partial\n",
        "experiment/good.yaml": "# @package _global_\n# Good.\ndefaults:\n  - override /scheduler: step\n"
        "model: {attention: {hops: 8}}\nscheduler: {step_epochs: '${trainer.max_epochs}'}\n",
        "experiment/bad.yaml": "# @package _global_\nmodel: {attention: {dim: 3, heads: 2}}\nfoo: 1\nseed: -3\n"
        "trainer: {logger: x}\nobjective: 3\n",
        "experiment/missing.yaml": "# @package _global_\ndefaults:\n  - override /model: nowhere\n",
        "experiment/broken.yaml": "a: [1\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (tmp_path / "users_own.py").write_text(
        "from sentattn.models.attention.base import Attention\n"
        "class Mine(Attention):\n"
        "    learns = False\n"
        "    def __init__(self, *, dim, power: float = 1.0, plain: int): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_a_folder_of_ones_own_adds_choices(mine: Path) -> None:
    settings = compose(["--config-dir", str(mine), "model/attention=mine", "model.attention.plain=1"])
    assert settings["model"]["attention"] == {"_target_": "users_own.Mine", "power": 2.0, "plain": 1}


def test_faults_of_a_folder_of_ones_own(mine: Path) -> None:
    own = f"--config-dir={mine}"
    (missing,) = faults([own, "model/attention=mine"])
    assert missing.startswith("model.attention.plain has no value: type model.attention.plain=VALUE")
    (gone,) = faults([own, "model/attention=gone"])
    assert "users_gone" in gone
    (penalty,) = faults([own, "model/attention=mine", "model.attention.plain=1", "loss.penalty=1"])
    assert "model/attention=mine has no weights to learn" in penalty
    (slot,) = faults([own, "model=partial"])
    assert "type model/pooling=NAME, one of flatten, mean" in slot
    (mine / "model" / "mean.yaml").write_text("name: mean\n")
    (taken,) = faults([own])
    assert "mean.yaml" in taken
    assert "taken" in taken


def test_an_experiment_is_laid_under_what_is_typed(mine: Path) -> None:
    settings = compose(["--config-dir", str(mine), "experiment=good", "trainer.max_epochs=7"])
    assert settings["model"]["attention"]["hops"] == 8
    assert settings["scheduler"] == {"_target_": "sentattn.schedulers.Step", "step_epochs": 7, "gamma": 0.5}
    assert (
        compose(["--config-dir", str(mine), "experiment=good", "model.attention.hops=2"])["model"]["attention"]["hops"]
        == 2
    )


def test_what_an_experiment_leaves_over_is_refused_by_name(mine: Path) -> None:
    (sentence,) = faults(["--config-dir", str(mine), "experiment=good", "model=mean"])
    assert sentence.startswith("experiment=good: model.attention.hops=8: model/attention=uniform has no 'hops'")


def test_faults_of_an_experiment(mine: Path) -> None:
    own = ["--config-dir", str(mine)]
    found = faults([*own, "experiment=bad"])
    assert len(found) == 6
    assert all(sentence.startswith("experiment=bad: ") for sentence in found)
    for part in ("model.attention.dim", "heads", "'foo'", "seed=-3", "trainer.logger", "objective"):
        assert any(part in sentence for sentence in found), part
    (missing,) = faults([*own, "experiment=missing"])
    assert "model/nowhere" in missing
    (broken,) = faults([*own, "experiment=broken"])
    assert "broken.yaml" in broken
    assert "line 1" in broken


def test_override_changes_saved_settings_alone() -> None:
    saved = compose(["output_dir=${x", "trainer.max_epochs=2"])
    before = copy.deepcopy(saved)
    changed = override(saved, ["data=imdb", "data.path=a b", "data.limit=5", "seed=3"])
    assert saved == before
    assert changed["data"]["path"] == "a b"
    assert changed["data"]["limit"] == 5
    assert changed["data"]["name"] == "imdb"
    assert changed["output_dir"] == "${x"
    assert changed["trainer"]["max_epochs"] == 2
    nested = override(saved, ["model=mean", "model/attention=structured", "model.attention.hops=2"])
    assert nested["model"]["name"] == "mean"
    assert nested["model"]["attention"]["hops"] == 2


@pytest.mark.parametrize(
    ("line", "only", "parts"),
    [
        ("data.limt=3", None, ["data=demo has no 'limt'", "'data.limit'"]),
        ("data=imdb data.limt=3", None, ["data=imdb has no 'limt'"]),
        ("model/attention=uniform", None, ["uniform has no weights to learn"]),
        ("loss.class_weight_power=2", None, ["does nothing with loss.class_weights=none"]),
        ("seed=3", ["data"], ["seed=3: only data can be changed here."]),
        ("data.max_length=9", ["data"], ["data.max_length=9: the model was trained, and data.max_length with it"]),
        ("model/attention=uniform", ["data"], ["only data can be changed here."]),
        ("experiment=x", None, ["no choice 'x'"]),
    ],
)
def test_faults_of_an_override(line: str, only: list[str] | None, parts: list[str]) -> None:
    with pytest.raises(SettingError) as caught:
        override(compose(["loss.penalty=0.5"]), line.split(), only=only)
    (sentence,) = caught.value.faults
    assert [part for part in parts if part not in sentence] == []


def test_a_trained_model_reads_other_data_at_its_own_length() -> None:
    saved = compose(["model=transformer", "data.max_length=100", "loss.class_weights=[1,2]"])
    assert at(override(saved, ["data=imdb"], only=["data"]), "data.max_length") == 600
    with pytest.raises(SettingError, match=r"model\.embedding\.positions=100 is too few"):
        override(saved, ["data=imdb"])


def test_settings_saved_before_there_were_class_weights_are_sound() -> None:
    saved = compose([])
    for key in ("class_weights", "class_weight_power", "class_weight_reduction"):
        del saved["loss"][key]
    del saved["faithful"]
    assert override(saved, ["seed=3"])["loss"] == saved["loss"]
    with pytest.raises(SettingError, match=r"does nothing with loss\.class_weights=none"):
        override(saved, ["loss.class_weight_power=2"])


def test_an_experiment_cannot_be_laid_over_saved_settings(mine: Path) -> None:
    with pytest.raises(SettingError, match="cannot be laid over saved settings"):
        override(compose([]), ["--config-dir", str(mine), "experiment=good"])


SAME = ["seed=4", "output_dir=x", "logger=none", "tags=[a]", "group=g", "test=false", "trainer.accelerator=cpu"]


@pytest.mark.parametrize(
    "line", [*SAME, "data.num_workers=2", "data.cache_dir=x", "loss.penalty=0", "optimizer.lr=5e-3"]
)
def test_the_hash_of_a_setting_leaves_out_what_makes_no_other_setting(line: str) -> None:
    assert setting_hash(compose([line])) == setting_hash(compose([]))


@pytest.mark.parametrize("line", ["model=mean", "optimizer.lr=0.001", "data.limit=10", "trainer.max_epochs=5"])
def test_the_hash_of_another_setting_is_another(line: str) -> None:
    assert setting_hash(compose([line])) != setting_hash(compose([]))


def test_the_hash_does_not_depend_on_the_order() -> None:
    settings = compose([])
    assert setting_hash(dict(reversed(settings.items()))) == setting_hash(settings)


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_the_objective_may_be_any_figure_the_right_way_round(metric: str) -> None:
    mode = {"accuracy": "max", "log_loss": "min"}[metric]
    settings: dict[str, Any] = compose([f"objective.metric=val/{metric}", f"objective.mode={mode}"])
    assert at(settings, "objective.mode") == mode
